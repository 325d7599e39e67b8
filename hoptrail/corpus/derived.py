"""Indexes that are built from the rows and can be thrown away at any time.

Each lies in a folder named by the revision of the rows it was built from. It is built in a draft folder that is renamed
when complete, so a kill leaves no half index; one that is damaged or of other rows is never used.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from hoptrail.corpus.rows import Rows, State
from hoptrail.corpus.store import Store
from hoptrail.errors import CorpusError

__all__ = ["DerivedIndex", "forget_former"]


class DerivedIndex:
    """Keeps one kind of index in step with the rows.

    Args:
        folder: Where indexes of this kind are kept.
        store: The rows.
        load: Opens the index in a folder and puts it in use; says `False`, or raises, where it is not usable.
        build: Writes the index of the given rows into an empty folder; those of former rows lie beside it.
        vectors: Of which kind of vectors the index is; if of none, it is of all rows.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        load: Callable[[Path], bool],
        build: Callable[[Path, Rows], None],
        vectors: str | None = None,
    ) -> None:
        self._folder = folder / store.namespace
        self._store = store
        self._vectors = vectors
        self._load = load
        self._build = build
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
        with self._builder():
            self._tidy(self._state())

    def _build_today(self) -> None:
        with self._builder(), self._store.reading() as rows:
            state = rows.state(self._vectors)
            if not self._usable(state.revision):
                self._make(state.revision, rows)
            self._revision = state.revision
            self._tidy(state)

    def _tidy(self, state: State) -> None:
        # While a writer is at work, other processes still answer from the index of an earlier revision.
        if state.settled:
            for folder in self._folder.iterdir():
                if folder.is_dir() and folder.name not in {str(state.revision), str(self._revision)}:
                    shutil.rmtree(folder, ignore_errors=True)

    def _state(self) -> State:
        with self._store.reading() as rows:
            return rows.state(self._vectors)

    @contextmanager
    def _builder(self) -> Iterator[None]:
        """One process at a time builds and removes."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with FileLock(str(self._folder / "building.lock")):
                yield
        except OSError as error:
            raise CorpusError(f"Cannot write to {self._folder}: {error.strerror or error}.") from error

    def _usable(self, revision: int) -> bool:
        folder = self._folder / str(revision)
        try:
            return folder.is_dir() and self._load(folder)
        except Exception:  # noqa: BLE001 - a damaged index raises anything; the rows are the truth
            return False

    def _make(self, revision: int, rows: Rows) -> None:
        target, draft = self._folder / str(revision), self._folder / f"{revision}.draft"
        for old in (target, draft):
            shutil.rmtree(old, ignore_errors=True)
        draft.mkdir()
        self._build(draft, rows)
        draft.rename(target)
        if not self._usable(revision):
            raise CorpusError(
                f"The index {target} cannot be read after it was written: check the disk, then try again."
            )


def forget_former(folder: Path, store: Store) -> None:
    """Remove the tools' own indexes of former revisions, which would else stay until the tool is next used."""
    for kind in folder.iterdir() if folder.is_dir() else ():
        if (kind / store.namespace).is_dir():
            DerivedIndex(kind, store, load=lambda _: False, build=lambda _folder, _rows: None).tidy()
