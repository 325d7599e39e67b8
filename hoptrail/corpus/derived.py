"""Indexes that are built from the rows and can be thrown away at any time.

Each is named by the revision of the rows it was built from, and built as a draft that is renamed when complete, so a kill
leaves no half index; one that is damaged or of other rows is never used.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from filelock import FileLock

from hoptrail.corpus.rows import Rows, State
from hoptrail.corpus.store import Store
from hoptrail.errors import CorpusError

__all__ = ["DerivedIndex", "FolderShelf", "Shelf", "forget_former"]


class Shelf(Protocol):
    """Where the indexes of one kind are, each named by the revision of the rows that it is of."""

    def building(self) -> AbstractContextManager[None]:
        """Held while one is built or removed: by one process at a time."""

    def use(self, revision: int) -> bool:
        """Put that index in use; `False`, or anything raised, says that it is not there or not whole."""

    def make(self, revision: int, rows: Rows) -> None:
        """Build that index from the rows; a kill leaves none that is half built.

        Raises:
            CorpusError: It cannot be built.
        """

    def keep(self, revisions: set[int]) -> None:
        """Remove all others, and what kills left behind."""


class DerivedIndex:
    """Keeps one kind of index in step with the rows.

    Args:
        shelf: Where they are.
        store: The rows.
        vectors: Of which kind of vectors the index is; if of none, it is of all rows.
    """

    def __init__(self, shelf: Shelf, store: Store, *, vectors: str | None = None) -> None:
        self._shelf = shelf
        self._store = store
        self._vectors = vectors
        self._revision: int | None = None
        self._turn = threading.Lock()

    def refresh(self, *, unsettled: bool = False) -> None:
        """Put in use the index of today's rows, building it where there is none.

        While a writer is at work, an index that is in use stays so, unless `unsettled` asks for the very latest rows.

        Raises:
            CorpusError: It cannot be built.
        """
        with self._turn:
            state = self._state()
            if self._revision is not None and (self._revision == state.revision or not (state.settled or unsettled)):
                return
            if self._usable(state.revision):
                self._revision = state.revision
            else:
                self._build_today()

    def tidy(self) -> None:
        """Remove the indexes of former revisions, and drafts that a kill left behind."""
        with self._shelf.building():
            self._tidy(self._state())

    def _build_today(self) -> None:
        with self._shelf.building(), self._store.reading() as rows:
            state = rows.state(self._vectors)
            if not self._usable(state.revision):
                self._shelf.make(state.revision, rows)
                if not self._usable(state.revision):
                    raise CorpusError(
                        f"An index of the corpus at {self._store.name} cannot be read after it was written: check the disk "
                        "or the server that it is on, then try again."
                    )
            self._revision = state.revision
            self._tidy(state)

    def _tidy(self, state: State) -> None:
        # While a writer is at work, other processes still answer from the index of an earlier revision.
        if state.settled:
            self._shelf.keep({state.revision, *([] if self._revision is None else [self._revision])})

    def _state(self) -> State:
        with self._store.reading() as rows:
            return rows.state(self._vectors)

    def _usable(self, revision: int) -> bool:
        try:
            return self._shelf.use(revision)
        except Exception:  # noqa: BLE001 - a damaged index raises anything; the rows are the truth
            return False


class FolderShelf:
    """Indexes in folders, each built in a draft that is renamed when complete.

    Args:
        folder: Where indexes of this kind are kept.
        store: The rows; each namespace has a folder of its own.
        load: Opens the index in a folder and puts it in use; says `False`, or raises, where it is not usable.
        build: Writes the index of the given rows into an empty folder; those of former rows lie beside it.
    """

    def __init__(
        self, folder: Path, store: Store, load: Callable[[Path], bool], build: Callable[[Path, Rows], None]
    ) -> None:
        self._folder = folder / store.namespace
        self._load = load
        self._build = build

    @contextmanager
    def building(self) -> Iterator[None]:
        """See `Shelf.building`."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with FileLock(str(self._folder / "building.lock")):
                yield
        except OSError as error:
            raise CorpusError(f"Cannot write to {self._folder}: {error.strerror or error}.") from error

    def use(self, revision: int) -> bool:
        """See `Shelf.use`."""
        folder = self._folder / str(revision)
        return folder.is_dir() and self._load(folder)

    def make(self, revision: int, rows: Rows) -> None:
        """See `Shelf.make`."""
        target, draft = self._folder / str(revision), self._folder / f"{revision}.draft"
        for old in (target, draft):
            shutil.rmtree(old, ignore_errors=True)
        draft.mkdir()
        self._build(draft, rows)
        draft.rename(target)

    def keep(self, revisions: set[int]) -> None:
        """See `Shelf.keep`."""
        for folder in self._folder.iterdir():
            if folder.is_dir() and folder.name not in set(map(str, revisions)):
                shutil.rmtree(folder, ignore_errors=True)


def forget_former(folder: Path, store: Store) -> None:
    """Remove the tools' own indexes of former revisions, which would else stay until the tool is next used."""
    for kind in folder.iterdir() if folder.is_dir() else ():
        if (kind / store.namespace).is_dir():
            shelf = FolderShelf(kind, store, load=lambda _: False, build=lambda _folder, _rows: None)
            DerivedIndex(shelf, store).tidy()
