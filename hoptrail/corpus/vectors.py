"""The vector indexes: Chroma, always rebuildable from the store's rows."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus import chroma
from hoptrail.corpus.chroma import OpenCollection
from hoptrail.corpus.chroma_server import ServerShelf
from hoptrail.corpus.derived import DerivedIndex, FolderShelf, Shelf
from hoptrail.corpus.place import Place
from hoptrail.corpus.store import Store
from hoptrail.errors import CorpusError

__all__ = ["VectorIndex"]

_BATCH = 2_000
_EXTRA = 8
_MOST_EQUAL = 16
_DIGITS = 6
"""Cosines are rounded, as the encoder's last digits depend on which texts it was given together."""

VECTORS = "vectors"
"""Where they are within a corpus."""


class VectorIndex:
    """Cosine search over the vectors of one kind; searches may run in any thread.

    Args:
        place: That of the corpus.
        store: The rows.
        kind: Which vectors: of passages, entities, relations or sentences.
    """

    def __init__(self, place: Place, store: Store, kind: str) -> None:
        self._kind = kind
        self._store = store
        self._derived = DerivedIndex(self._shelf(place), store, vectors=kind)
        self._in_use: tuple[Any, int] | None = None
        self._clients: list[Any] = []
        self._turn = threading.Lock()

    def refresh(self, *, unsettled: bool = False) -> None:
        """Put the index of today's rows in use; see `DerivedIndex.refresh`."""
        self._derived.refresh(unsettled=unsettled)

    def tidy(self) -> None:
        """Remove the indexes of former revisions."""
        self._derived.tidy()

    def search(self, vector: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """The ids of the `k` vectors nearest to `vector`, shape `(dimension,)`, with the cosine, best first, ties by id.

        Raises:
            CorpusError: It was closed, or its server does not answer.
        """
        if self._in_use is None:
            raise CorpusError("The corpus is closed: open it again to search it.")
        collection, size = self._in_use
        if k <= 0 or not size or not np.isfinite(vector).all():
            return []
        # More than asked for, so that ties at the edge are decided by id and not by the index.
        wanted = min(k + _EXTRA, size)
        while True:
            found = collection.query(query_embeddings=[vector], n_results=wanted, include=["distances"])
            ids, distances = found["ids"][0], found["distances"][0]
            if len(ids) < wanted or _crowded(distances):
                return self._scan(vector, k)
            ranked = _ranked(ids, 1.0 - np.asarray(distances, dtype=np.float64), k)
            if wanted == size or ranked[-1][1] > _rounded(1.0 - distances[-1]):
                return ranked
            wanted = min(wanted * 4, size)

    def _scan(self, vector: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """Search without the graph: where many vectors are equal, it does not reach all of them."""
        unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
        best: list[tuple[str, float]] = []
        with self._store.reading() as rows:
            for ids, matrix in rows.embeddings.batches(self._kind, _BATCH):
                here = _ranked(ids, (matrix @ unit).astype(np.float64), k)
                best = sorted([*best, *here], key=_order)[:k]
        return best

    def close(self) -> None:
        """Let go of Chroma's files; may be called twice."""
        with self._turn:
            self._in_use = None
            while self._clients:
                self._clients.pop().close()

    def _load(self, folder: Path) -> bool:
        opened = chroma.load(folder)
        if opened is None:
            return False
        self._put_in_use(opened)
        return True

    def _put_in_use(self, opened: OpenCollection) -> None:
        with self._turn:
            self._in_use = opened.collection, opened.size
            self._clients.append(opened)
            # A search that began before may still use the former one; the one before that is idle.
            while len(self._clients) > 2:  # noqa: PLR2004 - today's and the former
                self._clients.pop(0).close()

    def _shelf(self, place: Place) -> Shelf:
        if place.chroma_url is not None:
            return ServerShelf(place.chroma_url, self._store, self._kind, self._put_in_use)
        folder = place.folder / VECTORS / self._kind
        return FolderShelf(folder, self._store, self._load, lambda draft, rows: chroma.build(draft, rows, self._kind))


def _crowded(distances: list[float]) -> bool:
    """Whether more are equal than the graph links one vector with: it may then have passed over others of them."""
    return bool(np.unique(np.round(distances, _DIGITS), return_counts=True)[1].max() > _MOST_EQUAL)


def _ranked(ids: list[str], cosines: NDArray[np.float64], k: int) -> list[tuple[str, float]]:
    return sorted(((key, _rounded(cosine)) for key, cosine in zip(ids, cosines, strict=True)), key=_order)[:k]


def _rounded(cosine: float) -> float:
    return round(float(cosine), _DIGITS)


def _order(pair: tuple[str, float]) -> tuple[float, str]:
    return -pair[1], pair[0]
