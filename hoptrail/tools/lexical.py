"""BM25: passages by the words they share with the query."""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import anyio.to_thread
from filelock import FileLock

from hoptrail.corpus.corpus import Corpus, indexes
from hoptrail.tools.base import Evidence, Hit

__all__ = ["LexicalTool"]

_STOPWORDS = "en"


class LexicalTool:
    """BM25 with the parameters of bm25s (Lucene's variant, k1 = 1.5, b = 0.75), over titles and texts.

    The index is built once for each revision of the corpus and kept beside it.
    """

    name = "lexical"
    description = "Finds passages by their exact words. Good for rare names, codes, numbers and quotations."

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._index: Any = None
        self._ids: list[str] = []
        self._turn = threading.Lock()

    async def retrieve(self, query: str, *, k: int) -> Evidence:
        """The `k` passages with the highest BM25 score above 0; `views["lexical"]` is that score."""
        if not query.strip() or k <= 0:
            return Evidence(query=query, tool=self.name)
        hits = await anyio.to_thread.run_sync(self._search, query, k, abandon_on_cancel=True)
        return Evidence(query=query, tool=self.name, hits=hits)

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        with self._turn:
            if self._index is None:
                self._open()
        words = _tokens([query])[0]
        if not words or not self._ids:
            return ()
        scores = self._index.get_scores(words)
        best = sorted((-float(scores[i]), self._ids[i]) for i in scores.argsort()[::-1][: k + 50])
        ranked = {key: -score for score, key in best[:k] if score < 0}
        return tuple(Hit.of(p, ranked[p.id], {"lexical": ranked[p.id]}) for p in self._corpus.passages(list(ranked)))

    def _open(self) -> None:
        parent = indexes(self._corpus.path)
        folder = parent / f"lexical-{self._corpus.namespace}-{self._corpus.revision}"
        if not self._load(folder):
            parent.mkdir(parents=True, exist_ok=True)
            with FileLock(str(parent / "lexical.lock")):
                if not self._load(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                    self._build(folder)
                    self._load(folder)

    def _load(self, folder: Path) -> bool:
        import bm25s  # noqa: PLC0415 - scipy and friends

        if not (folder / "ids.json").is_file():
            return False
        try:
            self._ids = json.loads((folder / "ids.json").read_text(encoding="utf-8"))
            self._index = bm25s.BM25.load(str(folder), mmap=True) if self._ids else object()
        except Exception:  # noqa: BLE001 - a damaged index is built anew
            return False
        return True

    def _build(self, folder: Path) -> None:
        import bm25s  # noqa: PLC0415

        draft = folder.with_name(f"{folder.name}.building")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        passages = [(passage.id, passage.content) for passage in self._corpus.iter_passages()]
        tokens = _tokens([content for _, content in passages])
        ids = [key for key, _ in passages]
        if any(tokens):
            index = bm25s.BM25()
            index.index(tokens, show_progress=False)
            index.save(str(draft))
        else:
            ids = []
        (draft / "ids.json").write_text(json.dumps(ids), encoding="utf-8")
        draft.rename(folder)
        prefix = folder.name.rpartition("-")[0]
        for old in folder.parent.glob(f"{prefix}-*"):
            if old != folder and old.name.rpartition("-")[0] == prefix:
                shutil.rmtree(old, ignore_errors=True)


def _tokens(texts: list[str]) -> list[list[str]]:
    import bm25s  # noqa: PLC0415

    found: list[list[str]] = bm25s.tokenize(texts, stopwords=_STOPWORDS, return_ids=False, show_progress=False)
    return found
