"""What an indexing would do and cost. Nothing is written, no model is called."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hoptrail.corpus.chunking import split
from hoptrail.corpus.corpus import check_parts, checked_namespace
from hoptrail.corpus.extraction import Extractor, PaidExtractor
from hoptrail.corpus.loaders import load_documents
from hoptrail.corpus.place import Where
from hoptrail.corpus.rows import Rows
from hoptrail.corpus.store import Store
from hoptrail.corpus.tables import batched
from hoptrail.corpus.types import Document, Passage
from hoptrail.errors import DocumentError
from hoptrail.models.budget import Estimate

__all__ = ["IndexEstimate", "estimate_index"]

_BATCH = 500


@dataclass(frozen=True)
class IndexEstimate:
    """What an indexing would do: documents as in `IndexReport`, passages to extract from, and what that costs."""

    added: int
    updated: int
    unchanged: int
    failed: tuple[DocumentError, ...]
    passages: int
    cost: Estimate


def estimate_index(
    paths: Iterable[Path], corpus: Where, extractor: Extractor | None, *, namespace: str = "default"
) -> IndexEstimate:
    """What `index` with the same arguments would do; what earlier indexings left undone counts too.

    Raises:
        CorpusMismatchError: The corpus was built with another extractor.
        ConfigurationError: The settings of the extractor's model are wrong.
    """
    with _rows_of(corpus, namespace) as rows:
        if rows is not None and extractor is not None:
            check_parts(str(corpus), rows.facts(), {"extractor": extractor.name})
        changes = _Changes(rows, paths)
        passages = changes.to_extract() if extractor is not None else iter(changes.new_passages())
        if isinstance(extractor, PaidExtractor):
            cost = extractor.estimate(changes.counted(passages))
        else:
            cost = Estimate()
            for _ in changes.counted(passages):
                pass
    return IndexEstimate(
        added=changes.added,
        updated=changes.updated,
        unchanged=changes.unchanged,
        failed=tuple(changes.failed),
        passages=changes.passages,
        cost=cost,
    )


@dataclass
class _Changes:
    """Compares documents with the rows that are there, if any."""

    rows: Rows | None
    paths: Iterable[Path]
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    passages: int = 0
    failed: list[DocumentError] = field(default_factory=list)
    _changed: set[str] = field(default_factory=set)
    _same: set[str] = field(default_factory=set)

    def counted(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        for passage in passages:
            self.passages += 1
            yield passage

    def to_extract(self) -> Iterator[Passage]:
        """The new passages, then those that wait since earlier indexings and will still be there."""
        yield from self.new_passages()
        waiting = self.rows.graph.unextracted() if self.rows else []
        for _, ids in batched(waiting, _BATCH):
            found = self.rows.passages(ids) if self.rows else {}
            yield from (p for p in found.values() if p.document not in self._changed or p.id in self._same)

    def new_passages(self) -> Iterator[Passage]:
        """Passages of new and changed documents that are not in the corpus as they are."""
        digests = self.rows.digests() if self.rows else {}
        for document in load_documents(self.paths):
            if isinstance(document, DocumentError):
                self.failed.append(document)
            elif digests.get(document.id) == document.digest:
                self.unchanged += 1
            else:
                known = document.id in digests
                self.updated += known
                self.added += not known
                yield from self._new_parts(document) if known else split(document)

    def _new_parts(self, document: Document) -> list[Passage]:
        parts = split(document)
        former = self.rows.passages([part.id for part in parts]) if self.rows else {}
        self._changed.add(document.id)
        self._same.update(part.id for part in parts if former.get(part.id) == part)
        return [part for part in parts if part.id not in self._same]


@contextmanager
def _rows_of(corpus: Where, namespace: str) -> Iterator[Rows | None]:
    checked = checked_namespace(namespace)
    store = Store(corpus, checked)
    try:
        if not store.exists():
            yield None
            return
        store.migrate()
        with store.reading() as rows:
            yield rows
    finally:
        store.close()
