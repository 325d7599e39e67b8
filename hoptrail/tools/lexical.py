"""BM25: passages by the words they share with the query."""

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import numpy as np

from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.rows import Rows
from hoptrail.tools.base import Evidence, Hit

__all__ = ["LexicalTool"]

_STOPWORDS = "en"


class LexicalTool:
    """BM25 with the parameters of bm25s (Lucene's variant, k1 = 1.5, b = 0.75), over titles and texts.

    The index is built once for each revision of the corpus, kept beside it and read by memory map.
    """

    name = "lexical"
    description = "Finds passages by their exact words. Good for rare names, codes, numbers and quotations."

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._in_use: tuple[Any, list[str]] = (None, [])
        self._derived = corpus.derive("lexical", load=self._load, build=_build)

    async def retrieve(self, query: str, *, k: int) -> Evidence:
        """The `k` passages with the highest BM25 score above 0, ties by id; `views["lexical"]` is that score."""
        if not query.strip() or k <= 0:
            return Evidence(query=query, tool=self.name)
        hits = await anyio.to_thread.run_sync(self._search, query, k, abandon_on_cancel=True)
        return Evidence(query=query, tool=self.name, hits=hits)

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        self._derived.refresh()
        index, ids = self._in_use
        words = _tokens([query])[0]
        if not words or not ids:
            return ()
        scores = np.asarray(index.get_scores(words))
        found = {ids[i]: float(scores[i]) for i in _best(scores, k)}
        return tuple(Hit.of(p, found[p.id], {"lexical": found[p.id]}) for p in self._corpus.passages(list(found)))

    def _load(self, folder: Path) -> bool:
        import bm25s  # noqa: PLC0415 - scipy and friends

        ids = json.loads((folder / "ids.json").read_text(encoding="utf-8"))
        self._in_use = (bm25s.BM25.load(str(folder), mmap=True) if ids else None), ids
        return True


def _build(folder: Path, rows: Rows) -> None:
    import bm25s  # noqa: PLC0415

    ids: list[str] = []
    contents: list[str] = []
    for passage in rows.iter_passages():
        ids.append(passage.id)
        contents.append(passage.content)
    tokens = _tokens(contents)
    if any(tokens):
        index = bm25s.BM25()
        index.index(tokens, show_progress=False)
        index.save(str(folder))
    else:
        ids = []
    (folder / "ids.json").write_text(json.dumps(ids), encoding="utf-8")


def _best(scores: np.ndarray[Any, Any], k: int) -> list[int]:
    """Positions of the `k` highest scores above 0, best first, ties by position."""
    positive = np.flatnonzero(scores > 0)
    if len(positive) > k:
        edge = np.partition(scores[positive], -k)[-k]
        positive = positive[scores[positive] >= edge]
    return [int(i) for i in positive[np.argsort(-scores[positive], kind="stable")][:k]]


def _tokens(texts: list[str]) -> list[list[str]]:
    import bm25s  # noqa: PLC0415

    found: list[list[str]] = bm25s.tokenize(texts, stopwords=_STOPWORDS, return_ids=False, show_progress=False)
    return found
