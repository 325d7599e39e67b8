"""A corpus as the tools see it: passages, and search over their vectors."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus.derived import DerivedIndex
from hoptrail.corpus.rows import Rows
from hoptrail.corpus.schema import documents, passages
from hoptrail.corpus.store import Store
from hoptrail.corpus.types import Passage
from hoptrail.corpus.vectors import VectorIndex
from hoptrail.errors import CorpusError, CorpusMismatchError, CorpusNotFoundError
from hoptrail.models.base import Embedder

__all__ = ["Corpus", "CorpusStatus", "check_encoder", "checked_namespace", "database", "vector_folder"]

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True)
class CorpusStatus:
    """How large a corpus is and what it was built with; `complete` is false while, or after, an indexing did not end."""

    documents: int
    passages: int
    revision: int
    complete: bool
    embedding_model: str
    dimension: int
    chunking: str


class Corpus:
    """The read side of one namespace of a corpus; methods may be called from any thread.

    The encoder and the vector index are opened by the first search that needs them. When another process has indexed
    more, searches go on from what was there until it has ended, then see the new rows.
    """

    def __init__(self, path: Path, store: Store, embedder: Callable[[], Embedder]) -> None:
        self.path = path
        self._store = store
        self._open_embedder = embedder
        self._embedder: Embedder | None = None
        self._vectors = VectorIndex(vector_folder(path), store)
        self._turn = threading.Lock()

    @classmethod
    def open(cls, path: Path, embedder: Callable[[], Embedder], *, namespace: str = "default") -> Self:
        """Open the corpus in folder `path`.

        Raises:
            CorpusNotFoundError: There is none, or it has no such namespace.
            CorpusError: Its store cannot be read.
        """
        try:
            exists = database(path).is_file()
        except OSError as error:
            raise CorpusError(f"No corpus can be at {str(path)[:200]}: {error.strerror or error}.") from None
        if not exists:
            raise CorpusNotFoundError(path)
        store = Store(database(path), checked_namespace(namespace))
        try:
            store.migrate()
            with store.reading() as rows:
                exists = bool(rows.facts())
        except BaseException:
            store.close()
            raise
        if not exists:
            store.close()
            raise CorpusNotFoundError(path)
        return cls(path, store, embedder)

    @property
    def namespace(self) -> str:
        """The tenant whose passages these are."""
        return self._store.namespace

    @property
    def revision(self) -> int:
        """A number that changes with every write."""
        with self._store.reading() as rows:
            return rows.state().revision

    @property
    def count(self) -> int:
        """How many passages there are."""
        with self._store.reading() as rows:
            return rows.count(passages)

    @property
    def document_count(self) -> int:
        """How many documents there are."""
        with self._store.reading() as rows:
            return rows.count(documents)

    def status(self) -> CorpusStatus:
        """How large it is and what it was built with."""
        with self._store.reading() as rows:
            facts, state = rows.facts(), rows.state()
            return CorpusStatus(
                documents=rows.count(documents),
                passages=rows.count(passages),
                revision=state.revision,
                complete=state.settled,
                embedding_model=facts["embedding_model"],
                dimension=int(facts["dimension"]),
                chunking=facts["chunking"],
            )

    def passage(self, key: str) -> Passage | None:
        """The passage of this id, if there is one."""
        return next(iter(self.passages([key])), None)

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids, in this order; ids that do not exist are passed over."""
        with self._store.reading() as rows:
            found = rows.passages(ids)
        return [found[key] for key in ids if key in found]

    def iter_passages(self) -> Iterator[Passage]:
        """All passages, by id."""
        with self._store.reading() as rows:
            yield from rows.iter_passages()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Normalised vectors of `texts`, shape `(len(texts), dimension)`; takes a worker thread's time.

        Raises:
            CorpusMismatchError: The configured encoder is not the one that the corpus was built with.
        """
        return self._checked_embedder().encode(texts)

    def search_dense(self, vector: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """The `k` passages nearest to `vector`, as `(id, cosine)`, best first, ties by id."""
        self._vectors.refresh()
        return self._vectors.search(vector, k)

    def derive(self, kind: str, *, load: Callable[[Path], bool], build: Callable[[Path, Rows], None]) -> DerivedIndex:
        """An index of a tool's own, kept beside the corpus in a folder named `kind`, in step with the rows."""
        return DerivedIndex(self.path / "indexes" / kind, self._store, load=load, build=build)

    def warm(self) -> None:
        """Open everything that dense searches need, building the vector index where it is missing."""
        self._checked_embedder()
        self._vectors.refresh()

    def close(self) -> None:
        """Close the store and the index."""
        self._vectors.close()
        self._store.close()

    def _checked_embedder(self) -> Embedder:
        with self._turn:
            if self._embedder is None:
                embedder = self._open_embedder()
                with self._store.reading() as rows:
                    check_encoder(self.path, rows.facts(), embedder)
                self._embedder = embedder
            return self._embedder


def check_encoder(path: Path, facts: dict[str, str], embedder: Embedder) -> None:
    """Refuse an encoder other than the corpus's own."""
    for part, given in (("embedding_model", embedder.name), ("dimension", str(embedder.dimension))):
        stored = facts.get(part, given)
        if stored != given:
            raise CorpusMismatchError(path, part, stored=stored, given=given)


def checked_namespace(namespace: str) -> str:
    """`namespace` if it may be one: it becomes part of file names and keys."""
    if not _NAMESPACE.fullmatch(namespace):
        raise CorpusError(
            f"The namespace {namespace[:80]!r} is not usable: take up to 64 of a-z, 0-9, - and _, a letter or digit first."
        )
    return namespace


def database(path: Path) -> Path:
    """The store's file in the corpus folder `path`."""
    return path / "corpus.sqlite3"


def vector_folder(path: Path) -> Path:
    """The folder of the vector index in the corpus folder `path`."""
    return path / "indexes" / "vectors"
