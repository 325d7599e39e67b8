"""Chroma collections in folders: built from the rows, or from a former one where only little was added since."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus.rows import Rows
from hoptrail.corpus.scrubbing import scrub

__all__ = ["OpenCollection", "build", "configuration", "load", "settings"]

_NAME = "vectors"
_PROBES = 3
_PROBE_DEPTH = 8
_BATCH = 2_000
_LEAST_WRITES = 2
"""Chroma takes no fewer for its threshold, at which it writes the graph: here always with the last vector, and once."""
_LITTLE = 0.2
"""Up to this share of new vectors, a copy of the former collection is added to."""


@dataclass(frozen=True)
class _Graph:
    """Parameters of the HNSW graph."""

    neighbours: int
    construction: int
    search: int


# Passages: measured on 4,773 with 1,000 queries, top 20 against brute force: Chroma's defaults miss some of it in 28
# queries, these in none, for 0.4 ms more a query. The others are many, and building must not take longer than a small part
# of encoding them: these find .997 of the top 20 of 40,000 entities and .9995 of 20,000 sentences; 40 for construction and
# 400 for search find .986 and .997 in half of the building time, 32 neighbours find no more in 1.3 times of it.
_GRAPHS = {
    "passage": _Graph(32, 200, 800),
    "entity": _Graph(16, 100, 1_000),
    "relation": _Graph(16, 100, 1_000),
    "sentence": _Graph(16, 60, 600),
}


@dataclass(frozen=True)
class OpenCollection:
    """A collection that answers, and how many vectors it has; an empty one needs none and is `None`."""

    collection: Any
    size: int
    client: Any

    def close(self) -> None:
        """Let go of its files."""
        if self.client is not None:
            self.client.close()


def load(folder: Path) -> OpenCollection | None:
    """Open the collection in `folder`; `None`, or whatever Chroma raises, where it is not whole."""
    size = int((folder / "size").read_text(encoding="ascii"))
    if size == 0:
        return OpenCollection(None, 0, None)
    client = _chroma(folder)
    try:
        collection = client.get_collection(_NAME, embedding_function=None)
        whole = collection.count() == size and _answers(collection)
    except BaseException:
        client.close()
        raise
    if whole:
        return OpenCollection(collection, size, client)
    client.close()
    return None


def build(folder: Path, rows: Rows, kind: str) -> None:
    """Write the collection of today's vectors of one kind into an empty folder."""
    entries = rows.embeddings.digests(kind)
    if entries and not _extended(folder, rows, kind, entries):
        _filled(folder, rows, kind, len(entries))
    scrub(folder)
    (folder / "entries.json").write_text(json.dumps(entries), encoding="utf-8")
    (folder / "size").write_text(str(len(entries)), encoding="ascii")


def configuration(kind: str, size: int) -> dict[str, Any]:
    """Chroma's settings of the graph of `size` vectors of one kind."""
    graph = _GRAPHS[kind]
    return {
        "space": "cosine",
        "max_neighbors": graph.neighbours,
        "ef_construction": graph.construction,
        "ef_search": graph.search,
        "sync_threshold": max(size, _LEAST_WRITES),
    }


def _filled(folder: Path, rows: Rows, kind: str, size: int) -> None:
    client = _chroma(folder)
    try:
        hnsw = configuration(kind, size)
        collection = client.create_collection(_NAME, embedding_function=None, configuration={"hnsw": hnsw})
        for ids, matrix in rows.embeddings.batches(kind, _BATCH):
            _put(collection, ids, matrix, alone=size == 1)
    finally:
        client.close()


def _put(collection: Any, ids: list[str], matrix: NDArray[np.float32], *, alone: bool) -> None:
    collection.add(ids=ids, embeddings=matrix)
    if alone:
        # The second of the writes without which the graph would stay unwritten until it is next opened.
        collection.upsert(ids=ids, embeddings=matrix)


def _extended(folder: Path, rows: Rows, kind: str, entries: dict[str, str]) -> bool:
    """Copy a former collection and add what is new; `False` where there is none to do so with.

    One that holds anything that is gone is of no use: Chroma would keep the vector, marked as deleted.
    """
    for former in sorted(folder.parent.iterdir()):
        if former == folder or not (former / "size").is_file():
            continue
        new = _additions(former, entries)
        if new is not None:
            shutil.copytree(former, folder, dirs_exist_ok=True)
            if _added(folder, rows, kind, new):
                return True
            for leftover in folder.iterdir():
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    return False


def _additions(former: Path, entries: dict[str, str]) -> list[str] | None:
    """What is to be added to a former collection, or `None` where that is not all, or too much."""
    try:
        old: dict[str, str] = json.loads((former / "entries.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not old or not old.items() <= entries.items() or len(entries) - len(old) > _LITTLE * len(old):
        return None
    return sorted(entries.keys() - old.keys())


def _added(folder: Path, rows: Rows, kind: str, ids: Sequence[str]) -> bool:
    try:
        return _took(folder, rows, kind, ids) and _opened_once(folder)
    except Exception:  # noqa: BLE001 - a damaged collection raises anything; it is then built anew
        return False


def _took(folder: Path, rows: Rows, kind: str, ids: Sequence[str]) -> bool:
    opened = load(folder)
    if opened is None:
        return False
    try:
        if ids:
            opened.collection.modify(configuration={"hnsw": {"sync_threshold": max(len(ids), _LEAST_WRITES)}})
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            _put(opened.collection, list(some), rows.embeddings.vectors(kind, some), alone=len(ids) == 1)
        return bool(opened.collection.count() == opened.size + len(ids))
    finally:
        opened.close()


def _opened_once(folder: Path) -> bool:
    """Chroma writes the files of a collection that was added to once more when it is next opened."""
    client = _chroma(folder)
    try:
        return _answers(client.get_collection(_NAME, embedding_function=None))
    finally:
        client.close()


def _answers(collection: Any) -> bool:
    """Whether the graph is there: without it Chroma answers, but with fewer vectors. This also reads it into memory."""
    some = collection.get(limit=_PROBES, include=["embeddings"])
    wanted = min(collection.count(), _PROBE_DEPTH)
    found = collection.query(query_embeddings=some["embeddings"], n_results=wanted, include=[])
    return all(len(ids) == wanted for ids in found["ids"])


def _chroma(folder: Path) -> Any:
    import chromadb  # noqa: PLC0415 - takes half a second

    return chromadb.PersistentClient(str(folder), settings=settings().model_copy())


@lru_cache(maxsize=1)
def settings() -> Any:
    """Chroma's settings, which it reads from many places, slowly; a client changes those that it is given."""
    from chromadb.config import Settings  # noqa: PLC0415

    return Settings(anonymized_telemetry=False)
