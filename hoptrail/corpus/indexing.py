"""Adding documents to a corpus. Unchanged ones are left alone, changed ones replaced, and every batch is kept."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hoptrail.corpus.chunking import CHUNKING
from hoptrail.corpus.corpus import check_parts
from hoptrail.corpus.extraction import Extractor
from hoptrail.corpus.phases import IndexProgress, Phases
from hoptrail.corpus.place import Where
from hoptrail.corpus.store import Store
from hoptrail.corpus.writer import finish, writing_to
from hoptrail.errors import DocumentError, HoptrailError
from hoptrail.models.base import Embedder

__all__ = ["IndexProgress", "IndexReport", "index"]

NO_EXTRACTOR = "none"


@dataclass(frozen=True)
class IndexReport:
    """What one indexing did.

    Documents `added`, `updated`, `unchanged` and `failed` to be read; `passages` embedded; passages `extracted` from, and
    those `unextracted` because extraction failed; `embedded` counts the new vectors of each kind. `stopped` says why
    extraction ended before all passages were tried, `untried` how many are left.
    """

    added: int
    updated: int
    unchanged: int
    passages: int
    failed: tuple[DocumentError, ...]
    seconds: float
    extracted: int = 0
    unextracted: int = 0
    untried: int = 0
    stopped: HoptrailError | None = None
    embedded: dict[str, int] = field(default_factory=dict)


def index(
    paths: Iterable[Path],
    corpus: Where,
    embedder: Callable[[], Embedder],
    *,
    extractor: Extractor | None = None,
    namespace: str = "default",
    progress: IndexProgress | None = None,
) -> IndexReport:
    """Add the documents under `paths` to the corpus at `corpus`, which is made if absent.

    Also does what an earlier indexing left undone: passages from which nothing could be extracted are tried again, and
    what lacks a vector gets one. Work is kept batch by batch: an interrupted indexing goes on where it stopped when it is
    called again. Nothing is removed but the former passages of documents that have changed. Without an extractor the
    corpus has no entities and no relations. The extractor is not closed.

    Raises:
        CorpusLockedError: Another process is writing to it.
        CorpusMismatchError: It was built with another encoder, another extractor or another way of cutting.
        CorpusError: It cannot be written to.
    """
    started = time.perf_counter()
    with writing_to(corpus, namespace) as store:
        phases = Phases(store, progress or _silent)
        _check_manifest(store, embedder(), extractor)
        phases.add_documents(paths)
        if extractor is not None:
            phases.extract(extractor)
        phases.embed(embedder)
        finish(corpus, store, phases.tell)
    return IndexReport(
        added=phases.added,
        updated=phases.updated,
        unchanged=phases.unchanged,
        passages=phases.embedded["passage"],
        failed=tuple(phases.failed),
        seconds=time.perf_counter() - started,
        extracted=phases.extracted,
        unextracted=phases.unextracted,
        untried=phases.untried,
        stopped=phases.stopped,
        embedded=phases.embedded,
    )


def _check_manifest(store: Store, embedder: Embedder, extractor: Extractor | None) -> None:
    """Compare it with today's parts, or write it; a store from before there were extractors takes the one given."""
    parts = {
        "chunking": CHUNKING,
        "embedding_model": embedder.name,
        "dimension": str(embedder.dimension),
        "normalisation": "L2",
        "extractor": extractor.name if extractor is not None else NO_EXTRACTOR,
    }
    with store.reading() as rows:
        facts = rows.facts()
    check_parts(store.name, facts, parts)
    new = {part: value for part, value in parts.items() if part not in facts}
    if new:
        with store.writing() as rows:
            rows.put_facts(new)


def _silent(_done: int, _total: int, _note: str) -> None:
    pass
