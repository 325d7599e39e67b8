"""Extraction by a language model: one typed call a passage, several side by side, within a budget.

What is not tried because a cap is reached or the endpoint refuses everything is no failure of a passage: it is left for the
next indexing. Passages of the same title and text are asked about once in a call of `extract`.
"""

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from hoptrail.config import Settings
from hoptrail.corpus.extraction import Extraction, ExtractionFailure, ExtractionStop
from hoptrail.corpus.extractors.grounding import Schema, grounded
from hoptrail.corpus.types import Passage
from hoptrail.errors import (
    BudgetExceededError,
    ConfigurationError,
    HoptrailError,
    ModelAccessError,
    ModelError,
    ModelFileError,
    ModelUnavailableError,
)
from hoptrail.models.base import LanguageModel
from hoptrail.models.budget import Budget
from hoptrail.models.language import model_name, open_language_model
from hoptrail.models.nlp import split_sentences
from hoptrail.models.typed import TypedCaller
from hoptrail.prompts.extraction import EXTRACTION, ExtractionOutput, render_extraction

__all__ = ["LlmExtractor", "extractor_name", "worth_asking"]

Result = Extraction | ExtractionFailure | ExtractionStop
Asked = ExtractionOutput | ExtractionFailure | ExtractionStop
T = TypeVar("T")

_SILENT = 8
"""An endpoint that has not answered this many passages in a row, or twice those in flight, is taken to be down."""


class LlmExtractor:
    """Asks the settings' language model about every passage; the model is opened by the first one.

    `budget` is what may be spent in all; by default the settings' caps.
    """

    def __init__(self, settings: Settings, *, budget: Budget | None = None) -> None:
        self.name = extractor_name(settings)
        self.budget = budget or Budget(settings.max_calls, settings.max_tokens, settings.max_cost)
        self._settings = settings
        self._schema = Schema(settings.entity_types, settings.relation_labels)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._caller: TypedCaller | None = None

    def extract(self, passages: Sequence[Passage]) -> list[Result]:
        """One result for each passage, in order.

        A passage whose call fails is a failure; those that are not tried are stops, with the reason.

        Raises:
            ModelError: The model cannot be opened.
            ConfigurationError: Its settings are wrong, or a cap on money is set without a known price.
        """
        unlike = {_key(p): p for p in passages if worth_asking(p)}
        asked = self._run(self._ask_all, list(unlike.values())) if unlike else []
        found = dict(zip(unlike, asked, strict=True))
        read = [p for p in passages if not isinstance(found.get(_key(p)), ExtractionFailure | ExtractionStop)]
        sentences = dict(zip((p.id for p in read), split_sentences([p.text for p in read]), strict=True))
        return [self._result(p, found.get(_key(p)), sentences.get(p.id, ())) for p in passages]

    def close(self) -> None:
        """Let go of the model; may be called twice."""
        self._stack.close()
        self._caller = None
        self._portal = None

    def _result(self, passage: Passage, asked: Asked | None, sentences: Sequence[str]) -> Result:
        if asked is None:
            return Extraction(sentences=tuple(sentences))
        return grounded(asked, passage, sentences, self._schema) if isinstance(asked, ExtractionOutput) else asked

    async def _ask_all(self, passages: list[Passage]) -> list[Asked]:
        if self._caller is None:
            model = await open_language_model(self._settings)
            self._stack.callback(self._run, _closed, model)
            self._caller = TypedCaller(model, self._settings, self.budget)
        asking = _Asking(self._caller, self._settings, self._schema, passages)
        async with anyio.create_task_group() as tasks:
            for _ in range(min(self._settings.model_concurrency, len(passages))):
                tasks.start_soon(asking.work)
        return asking.results()

    def _run(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Run on the event loop, which has a thread of its own; an interruption here ends what runs there."""
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal())
        task = self._portal.start_task_soon(function, *arguments)
        try:
            return task.result()
        except (KeyboardInterrupt, CancelledError):
            task.cancel()
            raise


@dataclass
class _Asking:
    """One call of `extract`: its workers take passages in order until none is left or all must stop."""

    caller: TypedCaller
    settings: Settings
    schema: Schema
    passages: list[Passage]
    done: dict[int, ExtractionOutput | ExtractionFailure] = field(default_factory=dict)
    stopped: HoptrailError | None = None
    silent: int = 0

    def __post_init__(self) -> None:
        self._left = iter(enumerate(self.passages))

    async def work(self) -> None:
        for number, passage in self._left:
            result = await self._ask(passage)
            if result is not None:
                self.done[number] = result
            if self.stopped is not None:
                return

    def results(self) -> list[Asked]:
        return [self.done.get(number) or self._stop() for number in range(len(self.passages))]

    def _stop(self) -> ExtractionStop:
        assert self.stopped is not None  # noqa: S101 - workers leave nothing undone else
        return ExtractionStop(self.stopped)

    async def _ask(self, passage: Passage) -> ExtractionOutput | ExtractionFailure | None:
        rendered = render_extraction(
            passage.title,
            passage.text,
            types=self.schema.types,
            labels=self.schema.labels,
            guided=self.caller.model.guided,
        )
        try:
            output = await self.caller.ask(rendered)
        except (BudgetExceededError, ConfigurationError, ModelFileError) as error:
            self.stopped = self.stopped or error
            return None
        except ModelAccessError as error:
            if not error.of_request:
                self.stopped = error
                return None
            return ExtractionFailure(reason=str(error))
        except ModelUnavailableError as error:
            self.silent += 1
            if self.silent >= max(_SILENT, 2 * self.settings.model_concurrency):
                self.stopped = error
            return ExtractionFailure(reason=str(error))
        except ModelError as error:
            return ExtractionFailure(reason=str(error))
        self.silent = 0
        return output


def extractor_name(settings: Settings) -> str:
    """The extractor's identity: model, prompt, and what it is told to look for."""
    guides = [
        f"{what}: {', '.join(names)}"
        for what, names in (("types", settings.entity_types), ("labels", settings.relation_labels))
        if names
    ]
    return "/".join(["llm", model_name(settings), EXTRACTION.version, *guides])


def worth_asking(passage: Passage) -> bool:
    """Whether there is any letter or digit to read."""
    return any(c.isalnum() for c in passage.text)


def _key(passage: Passage) -> tuple[str, str]:
    return passage.title, passage.text


async def _closed(model: LanguageModel) -> None:
    await model.aclose()
