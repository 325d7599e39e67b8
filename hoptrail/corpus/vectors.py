"""The vector index: Chroma, always rebuildable from the store's rows.

Chroma's files may be left unreadable by a kill during a write, so the index is built in a new folder that is then renamed,
carries the revision of the rows it was built from, and is thrown away when it does not fit them.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from hoptrail.corpus.store import Store
from hoptrail.errors import CorpusError

__all__ = ["VectorIndex"]

_BATCH = 2_000
_EXTRA = 8
_SEARCH_WIDTH = 200


class VectorIndex:
    """Cosine search over the passages' vectors."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._client: Any = None
        self._collection: Any = None
        self._size = 0

    def open(self, store: Store) -> None:
        """Open the index that fits the rows, building it where there is none.

        Raises:
            CorpusError: It cannot be built.
        """
        revision, count = store.revision, store.count()[1]
        wanted = self._folder / f"{store.namespace}-{revision}"
        if wanted.is_dir() and self._attach(wanted, count):
            return
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        with FileLock(str(self._folder / "building.lock")):
            if not (wanted.is_dir() and self._attach(wanted, count)):
                self.close()
                shutil.rmtree(wanted, ignore_errors=True)
                self._build(store, wanted)
                if not self._attach(wanted, count):
                    raise CorpusError(
                        f"The vector index in {wanted} cannot be built: delete that folder and try again."
                    )
            self._drop_others(store.namespace, wanted)

    def search(self, vector: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """The `k` passages nearest to `vector`, shape `(dimension,)`, as `(id, cosine)`; ties by id."""
        if self._size == 0 or k <= 0:
            return []
        # A few more than asked for, so that ties at the edge are decided by id and not by the index.
        found = self._collection.query(
            query_embeddings=[vector.tolist()], n_results=min(k + _EXTRA, self._size), include=["distances"]
        )
        pairs = zip(found["ids"][0], found["distances"][0], strict=True)
        ranked = sorted(((key, 1.0 - float(distance)) for key, distance in pairs), key=lambda p: (-p[1], p[0]))
        return ranked[:k]

    def close(self) -> None:
        """Let go of Chroma's files; may be called twice."""
        if self._client is not None:
            self._client.close()
        self._client = self._collection = None

    def _attach(self, folder: Path, count: int) -> bool:
        """Open the index in `folder` if it is readable and holds `count` vectors."""
        try:
            self._client = _chroma(folder)
            self._collection = self._client.get_collection("passages", embedding_function=None)
            whole = bool(self._collection.count() == count)
            if whole and count:
                one = self._collection.get(limit=1, include=["embeddings"])
                self._collection.query(query_embeddings=one["embeddings"], n_results=1, include=[])
        except Exception:  # noqa: BLE001 - a damaged index raises anything; the rows are the truth
            whole = False
        self._size = count if whole else 0
        return whole

    def _build(self, store: Store, target: Path) -> None:
        draft = target.with_name(f"{target.name}.building")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        client = _chroma(draft)
        try:
            collection = client.create_collection(
                "passages",
                embedding_function=None,
                configuration={"hnsw": {"space": "cosine", "ef_search": _SEARCH_WIDTH, "ef_construction": 200}},
            )
            for ids, matrix in store.iter_vectors(_BATCH):
                collection.upsert(ids=ids, embeddings=matrix)
        finally:
            client.close()
        draft.rename(target)

    def _drop_others(self, namespace: str, keep: Path) -> None:
        for folder in self._folder.glob(f"{namespace}-*"):
            if folder != keep and folder.name.removeprefix(f"{namespace}-").split(".")[0].isdigit():
                shutil.rmtree(folder, ignore_errors=True)


def _chroma(folder: Path) -> Any:
    from chromadb import PersistentClient  # noqa: PLC0415 - takes half a second
    from chromadb.config import Settings  # noqa: PLC0415

    return PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
