"""What every writer of a corpus does: lock it before, bring the indexes up to date after."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from hoptrail.corpus.corpus import TOOL_INDEXES, checked_namespace, database
from hoptrail.corpus.derived import forget_former
from hoptrail.corpus.schema import KINDS
from hoptrail.corpus.store import Store
from hoptrail.corpus.vectors import VectorIndex
from hoptrail.errors import CorpusError, CorpusLockedError

__all__ = ["finish", "writing_to"]


@contextmanager
def writing_to(corpus: Path, namespace: str) -> Iterator[Store]:
    """The store of the corpus in folder `corpus`, made if absent, for its only writer.

    Raises:
        CorpusLockedError: Another process is writing to it.
        CorpusError: It cannot be written to.
    """
    checked = checked_namespace(namespace)
    with ExitStack() as resources:
        try:
            corpus.mkdir(parents=True, exist_ok=True)
            resources.enter_context(FileLock(str(corpus / "writer.lock"), timeout=0))
        except Timeout:
            raise CorpusLockedError(corpus) from None
        except OSError as error:
            raise CorpusError(f"Cannot write to the corpus at {corpus}: {error.strerror or error}.") from None
        store = Store(database(corpus), checked)
        resources.callback(store.close)
        store.migrate()
        yield store


def finish(corpus: Path, store: Store, tell: Callable[[int, int, str], None]) -> None:
    """Build the vector indexes, let readers turn to the new rows, and remove what is left of former ones."""
    indexes = [VectorIndex(corpus, store, kind) for kind in KINDS]
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
    forget_former(corpus / TOOL_INDEXES, store)
    store.erase()
