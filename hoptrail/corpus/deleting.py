"""Removing documents from a corpus, with all that only they were the sources of."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hoptrail.corpus.corpus import check_encoder
from hoptrail.corpus.phases import IndexProgress, Phases
from hoptrail.corpus.place import Where
from hoptrail.corpus.writer import finish, writing_to
from hoptrail.errors import CorpusError, CorpusNotFoundError
from hoptrail.models.base import Embedder

__all__ = ["DeleteReport", "delete"]

_NAMED = 3


@dataclass(frozen=True)
class DeleteReport:
    """What one deletion removed; `embedded` counts entities that are described otherwise now and got new vectors."""

    documents: int
    passages: int
    embedded: int
    seconds: float


def delete(
    documents: Sequence[str],
    corpus: Where,
    embedder: Callable[[], Embedder],
    *,
    namespace: str = "default",
    progress: IndexProgress | None = None,
) -> DeleteReport:
    """Remove the documents of these ids from the corpus at `corpus`.

    Entities and relations that no other passage is a source of go with them. What is removed stays in no file of the
    corpus: not in rows, free pages, logs or indexes. A deletion that was interrupted is completed by the next writer.

    Raises:
        CorpusNotFoundError: There is no corpus.
        CorpusLockedError: Another process is writing to it.
        CorpusMismatchError: It was built with another encoder.
        CorpusError: There is no document of one of the ids, and nothing was deleted; or it cannot be written to.
    """
    started = time.perf_counter()
    with writing_to(corpus, namespace, make=False) as store:
        with store.reading() as rows:
            facts, known = rows.facts(), rows.digests()
        if not facts:
            raise CorpusNotFoundError(store.name)
        check_encoder(store.name, facts, embedder())
        wanted = list(dict.fromkeys(documents))
        _refuse_unknown(store.name, [key for key in wanted if key not in known])
        phases = Phases(store, progress or _silent)
        with store.writing() as rows:
            passages = rows.remove(wanted)
        phases.embed(embedder)
        finish(corpus, store, phases.tell)
    return DeleteReport(
        documents=len(wanted),
        passages=passages,
        embedded=sum(phases.embedded.values()),
        seconds=time.perf_counter() - started,
    )


def _refuse_unknown(corpus: str, unknown: list[str]) -> None:
    if unknown:
        named = ", ".join(repr(key[:80]) for key in unknown[:_NAMED])
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        raise CorpusError(
            f"The corpus at {corpus} has no document {named}{more}: nothing was deleted. A document's id is the `id` of its "
            "JSONL row, or the path of its file within the folder that was indexed."
        )


def _silent(_done: int, _total: int, _note: str) -> None:
    pass
