"""A corpus as the tools see it: passages, and search over their vectors."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus.store import Store
from hoptrail.corpus.types import Passage
from hoptrail.corpus.vectors import VectorIndex
from hoptrail.errors import CorpusError, CorpusMismatchError, CorpusNotFoundError
from hoptrail.models.base import Embedder

__all__ = ["Corpus", "checked_namespace", "database", "indexes"]

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Corpus:
    """The read side of one namespace of a corpus; methods may be called from any thread.

    The encoder and the vector index are opened by the first search that needs them.
    """

    def __init__(self, path: Path, store: Store, embedder: Callable[[], Embedder]) -> None:
        self.path = path
        self._store = store
        self._open_embedder = embedder
        self._embedder: Embedder | None = None
        self._index = VectorIndex(indexes(path))
        self._index_ready = False
        self._turn = threading.Lock()

    @classmethod
    def open(cls, path: Path, embedder: Callable[[], Embedder], *, namespace: str = "default") -> Self:
        """Open the corpus in folder `path`.

        Raises:
            CorpusNotFoundError: There is none, or it has no such namespace.
            CorpusError: Its store cannot be read.
        """
        if not database(path).is_file():
            raise CorpusNotFoundError(path)
        store = Store(database(path), checked_namespace(namespace))
        try:
            store.migrate()
            known = store.facts()
        except BaseException:
            store.close()
            raise
        if not known:
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
        return self._store.revision

    @property
    def count(self) -> int:
        """How many passages there are."""
        return self._store.count()[1]

    @property
    def document_count(self) -> int:
        """How many documents there are."""
        return self._store.count()[0]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids, in this order; ids that do not exist are passed over."""
        found = self._store.passages(ids)
        return [found[key] for key in ids if key in found]

    def iter_passages(self) -> Iterator[Passage]:
        """All passages, by id."""
        return self._store.iter_passages()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Normalised vectors of `texts`, shape `(len(texts), dimension)`; takes a worker thread's time.

        Raises:
            CorpusMismatchError: The configured encoder is not the one that the corpus was built with.
        """
        return self._checked_embedder().encode(texts)

    def search_dense(self, vector: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """The `k` passages nearest to `vector`, as `(id, cosine)`, best first, ties by id."""
        with self._turn:
            if not self._index_ready:
                self._index.open(self._store)
                self._index_ready = True
        return self._index.search(vector, k)

    def warm(self) -> None:
        """Open everything that searches need, building the vector index where it is missing."""
        self._checked_embedder()
        self.search_dense(np.zeros(self._checked_embedder().dimension, dtype=np.float32), 0)

    def close(self) -> None:
        """Close the store and the index."""
        self._index.close()
        self._store.close()

    def _checked_embedder(self) -> Embedder:
        with self._turn:
            if self._embedder is None:
                embedder = self._open_embedder()
                check_encoder(self.path, self._store.facts(), embedder)
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


def indexes(path: Path) -> Path:
    """The folder of everything that can be rebuilt from the store."""
    return path / "indexes"
