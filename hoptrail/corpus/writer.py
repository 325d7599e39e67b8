"""What every writer of a corpus does: lock it before, bring the indexes up to date after."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from hoptrail.corpus.corpus import TOOL_INDEXES, checked_namespace, written
from hoptrail.corpus.derived import forget_former
from hoptrail.corpus.place import Place, Where
from hoptrail.corpus.schema import KINDS
from hoptrail.corpus.store import Store
from hoptrail.corpus.vectors import VectorIndex
from hoptrail.errors import CorpusError, CorpusNotFoundError

__all__ = ["finish", "writing_to"]


@contextmanager
def writing_to(corpus: Where, namespace: str, *, make: bool = True) -> Iterator[Store]:
    """The store of the corpus at `corpus`, for its only writer; it is made if absent, unless `make` is false.

    Raises:
        CorpusNotFoundError: There is none and none is to be made.
        CorpusLockedError: Another process is writing to it.
        CorpusError: It cannot be written to.
    """
    checked = checked_namespace(namespace)
    with ExitStack() as resources:
        store = Store(corpus, checked)
        resources.callback(store.close)
        if not make and not written(store, corpus):
            raise CorpusNotFoundError(str(corpus))
        try:
            Place.of(corpus).folder.mkdir(parents=True, exist_ok=True)
            resources.enter_context(store.lock("writer", wait=False))
        except OSError as error:
            raise CorpusError(f"Cannot write to the corpus at {corpus}: {error.strerror or error}.") from None
        store.migrate()
        yield store


def finish(corpus: Where, store: Store, tell: Callable[[int, int, str], None]) -> None:
    """Build the vector indexes, let readers turn to the new rows, and remove what is left of former ones."""
    place = Place.of(corpus)
    indexes = [VectorIndex(place, store, kind) for kind in KINDS]
    try:
        for number, index in enumerate(indexes):
            tell(number, len(indexes), "building the vector indexes")
            index.refresh(unsettled=True)
        tell(len(indexes), len(indexes), "building the vector indexes")
        store.settle()
        for index in indexes:
            index.tidy()
    finally:
        for index in indexes:
            index.close()
    forget_former(place.folder / TOOL_INDEXES, store)
    store.erase()
