"""The phases of an indexing. Each does what is missing, batch by batch, so that it can end anywhere and go on later."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hoptrail.corpus.chunking import split
from hoptrail.corpus.extraction import Extraction, ExtractionFailure, ExtractionStop, Extractor
from hoptrail.corpus.loaders import load_documents
from hoptrail.corpus.rows import Entry
from hoptrail.corpus.schema import KINDS
from hoptrail.corpus.store import Store
from hoptrail.corpus.tables import batched
from hoptrail.corpus.types import Document, Passage
from hoptrail.errors import DocumentError, HoptrailError
from hoptrail.models.base import Embedder

__all__ = ["IndexProgress", "Phases"]

IndexProgress = Callable[[int, int, str], None]
"""Called with how much of a phase is done, how much of it is known of so far, and what the phase does."""

_BATCH_PASSAGES = 500
_BATCH_EXTRACTIONS = 64
_BATCH_TEXTS = 1_000
_KEEP_EVERY_S = 1.0


@dataclass
class Phases:
    """What one indexing does to the rows, and the counts of it."""

    store: Store
    tell: IndexProgress
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    extracted: int = 0
    unextracted: int = 0
    untried: int = 0
    stopped: HoptrailError | None = None
    embedded: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    failed: list[DocumentError] = field(default_factory=list)

    def add_documents(self, paths: Iterable[Path]) -> None:
        """Write the documents under `paths` that are new or have changed."""
        done = 0
        self.tell(0, 0, "reading")
        for batch in _portions(self._changed(paths)):
            with self.store.writing() as rows:
                rows.replace(batch)
            done += sum(len(entry.passages) for entry in batch)
            self.tell(done, done, "reading")

    def extract(self, extractor: Extractor) -> None:
        """Extract from every passage that lacks it; those that fail or are not tried are left to the next indexing."""
        with self.store.reading() as rows:
            waiting = rows.graph.unextracted()
        for done, ids in batched(waiting, _BATCH_EXTRACTIONS):
            self.tell(done, len(waiting), "extracting")
            with self.store.reading() as rows:
                found = rows.passages(ids)
            self._extract_some(extractor, [found[key] for key in ids])
            if self.stopped is not None:
                break
        self.untried = len(waiting) - self.extracted - self.unextracted
        if waiting:
            self.tell(len(waiting) - self.untried, len(waiting), "extracting")

    def embed(self, open_embedder: Callable[[], Embedder]) -> None:
        """Embed everything that lacks a vector."""
        with self.store.reading() as rows:
            waiting = [(kind, rows.embeddings.missing(kind)) for kind in KINDS]
        total, done = sum(len(ids) for _, ids in waiting), 0
        for kind, ids in waiting:
            for _, some in batched(ids, _BATCH_TEXTS):
                self.tell(done, total, "embedding")
                with self.store.reading() as rows:
                    texts = rows.texts(kind, some)
                matrix = open_embedder().encode(list(texts.values()))
                with self.store.writing() as rows:
                    rows.embeddings.put(kind, texts, matrix)
                done += len(some)
            self.embedded[kind] += len(ids)
        if total:
            self.tell(total, total, "embedding")

    def _extract_some(self, extractor: Extractor, passages: list[Passage]) -> None:
        """Keep what is found as it comes: an interruption must not cost what a slow extractor has done."""
        fresh: dict[str, Extraction | ExtractionFailure] = {}
        kept_at = time.monotonic()
        try:
            for passage, result in zip(passages, extractor.extract(passages), strict=True):
                if isinstance(result, ExtractionStop):
                    self.stopped = self.stopped or result.error
                    continue
                fresh[passage.id] = result
                if time.monotonic() - kept_at > _KEEP_EVERY_S:
                    found, fresh = fresh, {}
                    self._keep(found)
                    kept_at = time.monotonic()
        finally:
            self._keep(fresh)

    def _keep(self, results: dict[str, Extraction | ExtractionFailure]) -> None:
        if not results:
            return
        with self.store.writing() as rows:
            rows.graph.put(results)
        failures = sum(isinstance(result, ExtractionFailure) for result in results.values())
        self.unextracted += failures
        self.extracted += len(results) - failures

    def _changed(self, paths: Iterable[Path]) -> Iterator[Entry]:
        with self.store.reading() as rows:
            digests = rows.digests()
        for document in load_documents(paths):
            if isinstance(document, DocumentError):
                self.failed.append(document)
            elif self._is_new(document, digests):
                yield Entry(document, split(document))

    def _is_new(self, document: Document, digests: dict[str, str]) -> bool:
        known = digests.get(document.id)
        self.unchanged += known == document.digest
        self.added += known is None
        self.updated += known is not None and known != document.digest
        return known != document.digest


def _portions(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Whole documents, about `_BATCH_PASSAGES` passages at a time."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.passages)
        if size >= _BATCH_PASSAGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
