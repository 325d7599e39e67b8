"""What an extractor finds in a passage, and the protocol of extractors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from hoptrail.corpus.types import Passage
from hoptrail.errors import HoptrailError
from hoptrail.models.budget import Budget, Estimate

__all__ = [
    "ExtractedEntity",
    "ExtractedRelation",
    "Extraction",
    "ExtractionFailure",
    "ExtractionStop",
    "Extractor",
    "PaidExtractor",
]


class ExtractedEntity(BaseModel):
    """An entity as one passage names it.

    `attributes` are pairs of key and value; `mentions` the ordinals of the sentences that mention it, once for each mention,
    empty where the extractor does not say.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    type: str
    attributes: tuple[tuple[str, str], ...] = ()
    mentions: tuple[int, ...] = ()


class ExtractedRelation(BaseModel):
    """A directed relation between two of the passage's entities, each given as name and type."""

    model_config = ConfigDict(frozen=True)

    label: str
    head: tuple[str, str]
    tail: tuple[str, str]


class Extraction(BaseModel):
    """What was found in one passage; `sentences` are those of its text, in order."""

    model_config = ConfigDict(frozen=True)

    sentences: tuple[str, ...] = ()
    entities: tuple[ExtractedEntity, ...] = ()
    relations: tuple[ExtractedRelation, ...] = ()


class ExtractionFailure(BaseModel):
    """Why nothing could be extracted from one passage; it is tried again by the next indexing."""

    model_config = ConfigDict(frozen=True)

    reason: str


@dataclass(frozen=True)
class ExtractionStop:
    """A passage was not tried because all extraction has to end here: nothing is stored for it.

    `error` says why: a cap that is reached (`BudgetExceededError`), or an endpoint that refuses or no longer answers.
    """

    error: HoptrailError


@runtime_checkable
class Extractor(Protocol):
    """Finds entities and relations in passages; the same passage gives the same result in any company."""

    @property
    def name(self) -> str:
        """Which extractor, model and version; a corpus is built with one only."""
        ...

    def extract(self, passages: Sequence[Passage]) -> Iterable[Extraction | ExtractionFailure | ExtractionStop]:
        """One result for each of `passages`, in their order; at once, or each as soon as it is there.

        A passage that cannot be read is a failure in its place. Called from one thread at a time.
        """
        ...

    def close(self) -> None:
        """Let go of models and connections; may be called twice."""
        ...


@runtime_checkable
class PaidExtractor(Extractor, Protocol):
    """An extractor that calls a language model, within `budget`, which also says what has been spent."""

    budget: Budget

    def estimate(self, passages: Iterable[Passage]) -> Estimate:
        """What extracting from `passages` will take; no model is called.

        Raises:
            ConfigurationError: The model's settings are wrong.
        """
        ...
