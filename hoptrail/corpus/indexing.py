"""Adding documents to a corpus. Unchanged ones are left alone, changed ones replaced, and every batch is kept."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from hoptrail.corpus.chunking import CHUNKING, split
from hoptrail.corpus.corpus import check_encoder, checked_namespace, database, indexes
from hoptrail.corpus.loaders import load_documents
from hoptrail.corpus.store import Store
from hoptrail.corpus.types import Document, Passage
from hoptrail.corpus.vectors import VectorIndex
from hoptrail.errors import CorpusError, CorpusLockedError, CorpusMismatchError, DocumentError
from hoptrail.models.base import Embedder

__all__ = ["IndexProgress", "IndexReport", "index"]

IndexProgress = Callable[[int, int, str], None]
"""Called with passages done, passages known of so far, and what is being done."""

_BATCH_PASSAGES = 128


@dataclass
class IndexReport:
    """What one indexing did; `failed` are the documents that could not be read."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    passages: int = 0
    failed: list[DocumentError] = field(default_factory=list)
    seconds: float = 0.0


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
        report = _Indexing(corpus, store, embedder, progress or _silent).run(paths)
    finally:
        store.close()
        lock.release()
    report.seconds = time.perf_counter() - started
    return report


@dataclass
class _Indexing:
    corpus: Path
    store: Store
    open_embedder: Callable[[], Embedder]
    tell: IndexProgress
    report: IndexReport = field(default_factory=IndexReport)
    known: int = 0

    def run(self, paths: Iterable[Path]) -> IndexReport:
        self.store.migrate()
        self._check()
        for batch in _batches(self._changed(paths)):
            self._write(batch)
        self.tell(self.report.passages, self.report.passages, "building the vector index")
        vectors = VectorIndex(indexes(self.corpus))
        vectors.open(self.store)
        vectors.close()
        return self.report

    def _check(self) -> None:
        """Compare the manifest with today's parts, or write it."""
        facts = self.store.facts()
        if "chunking" not in facts:
            embedder = self.open_embedder()
            self.store.put_facts(
                {
                    "chunking": CHUNKING,
                    "embedding_model": embedder.name,
                    "dimension": str(embedder.dimension),
                    "normalisation": "L2",
                    "revision": "0",
                }
            )
        elif facts["chunking"] != CHUNKING:
            raise CorpusMismatchError(self.corpus, "chunking", stored=facts["chunking"], given=CHUNKING)
        else:
            check_encoder(self.corpus, facts, self.open_embedder())

    def _changed(self, paths: Iterable[Path]) -> Iterator[tuple[Document, str, list[Passage]]]:
        digests = self.store.digests()
        for document in load_documents(paths):
            if isinstance(document, DocumentError):
                self.report.failed.append(document)
                continue
            digest = _digest(document)
            known = digests.get(document.id)
            if known == digest:
                self.report.unchanged += 1
                continue
            self.report.added += known is None
            self.report.updated += known is not None
            yield document, digest, split(document)

    def _write(self, batch: list[tuple[Document, str, list[Passage]]]) -> None:
        parts = [passage for _, _, passages in batch for passage in passages]
        self.known += len(parts)
        self.tell(self.report.passages, self.known, "embedding")
        matrix = self.open_embedder().encode([passage.content for passage in parts])
        rows, start = [], 0
        for document, digest, passages in batch:
            rows.append((document, digest, passages, matrix[start : start + len(passages)]))
            start += len(passages)
        self.store.replace(rows)
        self.report.passages += len(parts)
        self.tell(self.report.passages, self.known, "embedding")


def _batches(
    documents: Iterable[tuple[Document, str, list[Passage]]],
) -> Iterator[list[tuple[Document, str, list[Passage]]]]:
    """Whole documents, about 128 passages at a time."""
    batch: list[tuple[Document, str, list[Passage]]] = []
    size = 0
    for item in documents:
        batch.append(item)
        size += len(item[2])
        if size >= _BATCH_PASSAGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _digest(document: Document) -> str:
    content = f"{document.form}\0{document.title}\0{document.text}"
    return hashlib.sha256(content.encode()).hexdigest()


def _silent(_done: int, _total: int, _note: str) -> None:
    pass
