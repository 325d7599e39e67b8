"""From documents to passages, cut on sentence boundaries."""

import re
from collections.abc import Iterator
from functools import lru_cache

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from hoptrail.corpus.types import Document, Passage

__all__ = ["CHUNKING", "split"]

PASSAGE_CHARS = 1_000
"""Aim for passages of files: about 200 words, within the encoder's window of 256 tokens."""

ROW_CHARS = 6_000
"""JSONL rows are passages already; only longer ones are cut."""

BLOCK_CHARS = 20_000
"""Longer texts are first cut at a paragraph's, line's, sentence's or word's end."""

CHUNKING = f"sentences-{PASSAGE_CHARS}/rows-{ROW_CHARS}/v1"
"""Names this way of cutting in a corpus's manifest."""

_LIKE_A_PASSAGE = re.compile(r"#\d+\Z", re.ASCII)


def split(document: Document) -> list[Passage]:
    """The passages of `document`, in order; together they hold all of its text but white space between them.

    Their ids follow from the document's alone; see `Passage`.
    """
    if document.form == "row" and len(document.text) <= ROW_CHARS:
        chunks = [document.text]
    else:
        splitter = _markdown() if document.form == "markup" else _text()
        chunks = [chunk for block in _blocks(document.text) for chunk in splitter.chunks(block)]
    kept = [chunk for chunk in chunks if chunk.strip()]
    whole = len(kept) == 1 and not _LIKE_A_PASSAGE.search(document.id)
    return [
        Passage(
            id=document.id if whole else f"{document.id}#{ordinal}",
            document=document.id,
            ordinal=ordinal,
            title=document.title,
            text=chunk.strip(),
        )
        for ordinal, chunk in enumerate(kept)
    ]


def _blocks(text: str) -> Iterator[str]:
    """`text` in pieces that the splitters take quickly: their time is quadratic in a text without sentences."""
    start = 0
    while len(text) - start > BLOCK_CHARS:
        window = text[start : start + BLOCK_CHARS]
        ends = (window.rfind(mark, BLOCK_CHARS // 2) + len(mark) for mark in ("\n\n", "\n", ". ", " "))
        end = next((end for end in ends if end > BLOCK_CHARS // 2), BLOCK_CHARS)
        yield window[:end]
        start += end
    yield text[start:]


@lru_cache(maxsize=1)
def _text() -> TextSplitter:
    return TextSplitter((PASSAGE_CHARS // 2, PASSAGE_CHARS))


@lru_cache(maxsize=1)
def _markdown() -> MarkdownSplitter:
    return MarkdownSplitter((PASSAGE_CHARS // 2, PASSAGE_CHARS))
