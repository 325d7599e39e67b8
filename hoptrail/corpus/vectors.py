"""The vector index: Chroma, always rebuildable from the store's rows."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus.derived import DerivedIndex
from hoptrail.corpus.rows import Rows
from hoptrail.corpus.schema import vectors
from hoptrail.corpus.store import Store
from hoptrail.errors import CorpusError

__all__ = ["VectorIndex"]

_BATCH = 2_000
_COLLECTION = "passages"

# Measured on 4,773 passages with 1,000 queries, top 20 against brute force: Chroma's defaults miss some of it in 28
# queries, these in none, for 0.4 ms more a query.
_NEIGHBOURS = 32
_SEARCH_WIDTH = 800

_EXTRA = 8
_DIGITS = 6
"""Cosines are rounded, as the encoder's last digits depend on which texts it was given together."""


class VectorIndex:
    """Cosine search over the passages' vectors; searches may run in any thread."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._derived = DerivedIndex(folder, store, load=self._load, build=_build)
        self._store = store
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
        """The `k` passages nearest to `vector`, shape `(dimension,)`, as `(id, cosine)`, best first, ties by id.

        Raises:
            CorpusError: It was closed.
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
            if len(ids) < wanted:
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
            for ids, matrix in rows.iter_vectors(_BATCH):
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
        if not (folder / "size").is_file():
            return False
        size = int((folder / "size").read_text(encoding="ascii"))
        client = _chroma(folder)
        try:
            collection = client.get_collection(_COLLECTION, embedding_function=None)
            usable = collection.count() == size and (size == 0 or _answers(collection))
        except BaseException:
            client.close()
            raise
        if not usable:
            client.close()
            return False
        with self._turn:
            self._in_use = collection, size
            self._clients.append(client)
            # A search that began before may still use the former one; the one before that is idle.
            while len(self._clients) > 2:  # noqa: PLR2004 - today's and the former
                self._clients.pop(0).close()
        return True


def _ranked(ids: list[str], cosines: NDArray[np.float64], k: int) -> list[tuple[str, float]]:
    return sorted(((key, _rounded(cosine)) for key, cosine in zip(ids, cosines, strict=True)), key=_order)[:k]


def _rounded(cosine: float) -> float:
    return round(float(cosine), _DIGITS)


def _order(pair: tuple[str, float]) -> tuple[float, str]:
    return -pair[1], pair[0]


def _answers(collection: Any) -> bool:
    """Whether the graph is there: without it Chroma answers, but with fewer passages. This also reads it into memory."""
    some = collection.get(limit=3, include=["embeddings"])
    wanted = min(collection.count(), _EXTRA)
    found = collection.query(query_embeddings=some["embeddings"], n_results=wanted, include=[])
    return all(len(ids) == wanted for ids in found["ids"])


def _build(folder: Path, rows: Rows) -> None:
    size = rows.count(vectors)
    client = _chroma(folder)
    try:
        collection = client.create_collection(
            _COLLECTION,
            embedding_function=None,
            configuration={
                "hnsw": {
                    "space": "cosine",
                    "max_neighbors": _NEIGHBOURS,
                    "ef_construction": 200,
                    "ef_search": _SEARCH_WIDTH,
                    # The graph is written once, with the last vector; what is not written is replayed at every opening.
                    "sync_threshold": max(size, 2),
                }
            },
        )
        for ids, matrix in rows.iter_vectors(_BATCH):
            collection.upsert(ids=ids, embeddings=matrix)
    finally:
        client.close()
    (folder / "size").write_text(str(size), encoding="ascii")


def _chroma(folder: Path) -> Any:
    import chromadb  # noqa: PLC0415 - takes half a second
    from chromadb.config import Settings  # noqa: PLC0415

    return chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
