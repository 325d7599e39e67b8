"""Adding documents to a corpus. Unchanged ones are left alone, changed ones replaced, and every batch is kept."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from hoptrail.corpus.chunking import CHUNKING, split
from hoptrail.corpus.corpus import check_encoder, checked_namespace, database, vector_folder
from hoptrail.corpus.loaders import load_documents
from hoptrail.corpus.rows import Entry
from hoptrail.corpus.store import Store
from hoptrail.corpus.types import Document, Passage
from hoptrail.corpus.vectors import VectorIndex
from hoptrail.errors import CorpusError, CorpusLockedError, CorpusMismatchError, DocumentError
from hoptrail.models.base import Embedder

__all__ = ["IndexProgress", "IndexReport", "index"]

IndexProgress = Callable[[int, int, str], None]
"""Called with passages done, passages known of so far, and what is being done."""

_BATCH_PASSAGES = 128


@dataclass(frozen=True)
class IndexReport:
    """What one indexing did: documents `added`, `updated`, `unchanged` and `failed` to be read, passages embedded."""

    added: int
    updated: int
    unchanged: int
    passages: int
    failed: tuple[DocumentError, ...]
    seconds: float


def index(
    paths: Iterable[Path],
    corpus: Path,
    embedder: Callable[[], Embedder],
    *,
    namespace: str = "default",
    progress: IndexProgress | None = None,
) -> IndexReport:
    """Add the documents under `paths` to the corpus in folder `corpus`, which is made if absent.

    Work is kept batch by batch: an interrupted indexing goes on where it stopped when it is called again. Nothing is
    removed but the former passages of documents that have changed.

    Raises:
        CorpusLockedError: Another process is writing to it.
        CorpusMismatchError: It was built with another encoder or another way of cutting.
        CorpusError: It cannot be written to.
    """
    started = time.perf_counter()
    checked = checked_namespace(namespace)
    try:
        corpus.mkdir(parents=True, exist_ok=True)
        lock = FileLock(str(corpus / "writer.lock"), timeout=0)
        lock.acquire()
    except Timeout:
        raise CorpusLockedError(corpus) from None
    except OSError as error:
        raise CorpusError(f"Cannot write to the corpus at {corpus}: {error.strerror or error}.") from None
    store = Store(database(corpus), checked)
    try:
        run = _Indexing(corpus, store, embedder, progress or _silent)
        run.run(paths)
    finally:
        store.close()
        lock.release()
    return IndexReport(
        added=run.added,
        updated=run.updated,
        unchanged=run.unchanged,
        passages=run.done,
        failed=tuple(run.failed),
        seconds=time.perf_counter() - started,
    )


@dataclass
class _Indexing:
    corpus: Path
    store: Store
    open_embedder: Callable[[], Embedder]
    tell: IndexProgress
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    done: int = 0
    failed: list[DocumentError] = field(default_factory=list)

    def run(self, paths: Iterable[Path]) -> None:
        self.store.migrate()
        self._check_manifest()
        for batch in _batches(self._changed(paths)):
            self._write(batch)
        self.tell(self.done, self.done, "building the vector index")
        self._finish()

    def _check_manifest(self) -> None:
        """Compare it with today's parts, or write it."""
        embedder = self.open_embedder()
        with self.store.reading() as rows:
            facts = rows.facts()
        if "chunking" not in facts:
            parts = {"chunking": CHUNKING, "embedding_model": embedder.name, "normalisation": "L2"}
            with self.store.writing() as rows:
                rows.put_facts({**parts, "dimension": str(embedder.dimension)})
        elif facts["chunking"] != CHUNKING:
            raise CorpusMismatchError(self.corpus, "chunking", stored=facts["chunking"], given=CHUNKING)
        else:
            check_encoder(self.corpus, facts, embedder)

    def _changed(self, paths: Iterable[Path]) -> Iterator[tuple[Document, list[Passage]]]:
        with self.store.reading() as rows:
            digests = rows.digests()
        for document in load_documents(paths):
            if isinstance(document, DocumentError):
                self.failed.append(document)
                continue
            known = digests.get(document.id)
            if known == document.digest:
                self.unchanged += 1
                continue
            self.added += known is None
            self.updated += known is not None
            yield document, split(document)

    def _write(self, batch: list[tuple[Document, list[Passage]]]) -> None:
        parts = [passage for _, passages in batch for passage in passages]
        self.tell(self.done, self.done + len(parts), "embedding")
        matrix = self.open_embedder().encode([passage.content for passage in parts])
        ends = np.cumsum([len(passages) for _, passages in batch])[:-1]
        entries = [
            Entry(document, passages, vectors)
            for (document, passages), vectors in zip(batch, np.split(matrix, ends), strict=True)
        ]
        with self.store.writing() as rows:
            rows.replace(entries)
        self.done += len(parts)
        self.tell(self.done, self.done, "embedding")

    def _finish(self) -> None:
        """Build the vector index, then let readers turn to the new rows."""
        index = VectorIndex(vector_folder(self.corpus), self.store)
        try:
            index.refresh(unsettled=True)
            self.store.settle()
            index.tidy()
        finally:
            index.close()


def _batches(documents: Iterable[tuple[Document, list[Passage]]]) -> Iterator[list[tuple[Document, list[Passage]]]]:
    """Whole documents, about `_BATCH_PASSAGES` at a time."""
    batch: list[tuple[Document, list[Passage]]] = []
    size = 0
    for item in documents:
        batch.append(item)
        size += len(item[1])
        if size >= _BATCH_PASSAGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _silent(_done: int, _total: int, _note: str) -> None:
    pass
