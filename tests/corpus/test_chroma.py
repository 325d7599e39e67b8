"""The files of a collection: written while it is built, then left alone, and without anything else from memory."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hoptrail.corpus import chroma

SECRET = b"what-memory-held"
WIDTH = 64


class FixedEmbeddings:
    """As many vectors as asked for, always the same ones."""

    def __init__(self, size: int) -> None:
        self.ids = [f"vector-{place}" for place in range(size)]
        matrix = np.random.default_rng(0).normal(size=(size, WIDTH)).astype(np.float32)
        self.matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)

    def digests(self, kind: str) -> dict[str, str]:
        return {key: key for key in self.ids}

    def batches(self, kind: str, size: int) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
        for start in range(0, len(self.ids), size):
            yield self.ids[start : start + size], self.matrix[start : start + size]

    def vectors(self, kind: str, ids: list[str]) -> NDArray[np.float32]:
        return self.matrix[[self.ids.index(key) for key in ids]]


class FixedRows:
    def __init__(self, size: int) -> None:
        self.embeddings = FixedEmbeddings(size)


def fill_memory_with_the_secret() -> None:
    """Leave it in freed memory, in pieces of the sizes that a small graph takes."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    sizes = (64, 400, 1_600, 6_400, 40_000, 45_600, 160_000, 180_000) * 20
    pieces = [(libc.malloc(size), size) for size in sizes]
    for piece, size in pieces:
        ctypes.memmove(piece, (SECRET * (size // len(SECRET) + 1))[:size], size)
    for piece, _ in pieces:
        libc.free(piece)


def built(folder: Path, size: int) -> Path:
    folder.mkdir(parents=True)
    fill_memory_with_the_secret()
    chroma.build(folder, FixedRows(size), "passage")  # type: ignore[arg-type]
    return folder


def graphs(folder: Path) -> dict[str, bytes]:
    return {f"{file.parent.name}/{file.name}": file.read_bytes() for file in folder.rglob("*.bin")}


def assert_left_alone_and_answering(folder: Path, size: int) -> None:
    rows = FixedRows(size).embeddings
    written = graphs(folder)
    assert all(SECRET not in content for content in written.values())
    for _ in range(2):
        fill_memory_with_the_secret()
        opened = chroma.load(folder)
        assert opened is not None
        try:
            found = opened.collection.query(query_embeddings=rows.matrix, n_results=1, include=[])
            assert [ids[0] for ids in found["ids"]] == rows.ids
        finally:
            opened.close()
        assert graphs(folder) == written


@pytest.mark.parametrize("size", [1, 2, 3, 6, 99, 100, 101])
def test_opening_does_not_write_a_graph_anew(size: int, tmp_path: Path) -> None:
    assert_left_alone_and_answering(built(tmp_path / "kind" / "1", size), size)


@settings(max_examples=8, deadline=None)
@given(size=st.integers(10, 150), more=st.integers(0, 30))
def test_nor_does_opening_one_that_was_added_to(size: int, more: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("kind")
    built(folder / "1", size)
    assert_left_alone_and_answering(built(folder / "2", size + more), size + more)
