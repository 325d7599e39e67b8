"""Which passages mention which names, and which passages a name is the title of: what joins one passage to the next.

Built from the rows as sparse matrices and kept as arrays that are read by memory map. Names are compared by `link_name`,
whatever the entity's type, and kept as 64-bit hashes.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus.graph import link_name
from hoptrail.corpus.rows import Rows

__all__ = ["Incidence", "Links", "build_links", "load_links", "titles_of"]

ALIAS = "also"
"""The attribute key under which an extractor keeps other names of what a passage is about."""

_UNLINKED_TYPES = frozenset({"DATE", "TIME", "MONEY", "PERCENT", "QUANTITY", "CARDINAL", "ORDINAL"})
_PARENTHESIS = re.compile(r"\s*\([^()]*\)\s*\Z")
_BATCH = 2_000


@dataclass(frozen=True)
class Incidence:
    """A sparse 0/1 matrix by rows: those of row `i` are `columns[starts[i]:starts[i + 1]]`, ascending."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]

    def of(self, row: int) -> NDArray[np.int32]:
        """The columns of one row."""
        return self.columns[self.starts[row] : self.starts[row + 1]]

    def counts(self) -> NDArray[np.int64]:
        """How many columns each row has."""
        return np.diff(self.starts)

    def spread(self, rows: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """All pairs of a position in `rows` and a column of that row."""
        lengths = (self.starts[rows + 1] - self.starts[rows]).astype(np.int64)
        positions = np.repeat(np.arange(len(rows)), lengths)
        within = np.arange(len(positions)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return positions, self.columns[self.starts[rows][positions] + within]


@dataclass(frozen=True)
class Links:
    """The link index of one revision of a corpus.

    Passages are numbered by the order of their ids, names by the order of their hashes. `vectors` are the passages', shape
    `(passages, dimension)`; `names` is passages by names, `mentions` and `titles` are names by passages; a passage mentions
    its own title.
    """

    ids: Sequence[str]
    vectors: NDArray[np.float32]
    hashes: NDArray[np.uint64]
    names: Incidence
    mentions: Incidence
    titles: Incidence

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many passages mention each name."""
        return self.mentions.counts()

    @cached_property
    def specificity(self) -> NDArray[np.float64]:
        """How telling each name is, in (0, 1]: its idf, scaled as ConRAG's Eq. 1."""
        total = len(self.ids)
        telling = np.log1p((total - self.counts + 0.5) / (self.counts + 0.5))
        return np.asarray(telling / np.log1p((total - 0.5) / 1.5))

    def find(self, names: Sequence[str]) -> dict[str, int]:
        """The numbers of those of `names` that there are."""
        wanted = np.array([_hash(link_name(name)) for name in names], dtype=np.uint64)
        places = np.searchsorted(self.hashes, wanted)
        inside = np.minimum(places, max(len(self.hashes) - 1, 0))
        known = self.hashes[inside] == wanted if len(self.hashes) else np.zeros(len(names), dtype=bool)
        return {name: int(place) for name, place, there in zip(names, places, known, strict=True) if there}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each passage, by its id."""
        return {key: number for number, key in enumerate(self.ids)}


def titles_of(title: str) -> Iterator[str]:
    """What a passage of this title can be called: all of it, without its parenthesis, and what stands before a comma."""
    short = _PARENTHESIS.sub("", title)
    for form in (title, short, short.split(", ", maxsplit=1)[0]):
        name = link_name(form)
        if name:
            yield name


def build_links(folder: Path, rows: Rows) -> None:
    """Write the index of `rows` into `folder`."""
    ids: list[str] = []
    titled: list[tuple[int, str]] = []
    for number, passage in enumerate(rows.iter_passages()):
        ids.append(passage.id)
        titled += ((number, name) for name in set(titles_of(passage.title)))
    numbers = {key: number for number, key in enumerate(ids)}
    titled += ((numbers[p], link_name(value)) for p, value in rows.graph.iter_attribute(ALIAS))
    mentioned = [(numbers[passage], name) for passage, name in _mentioned(rows)]
    title_pairs, all_pairs = _hashed(titled), _hashed([*titled, *mentioned])
    hashes = np.unique(all_pairs[1])
    np.save(folder / "hashes.npy", hashes)
    for name, (passages, keys) in {"mentions": all_pairs, "titles": title_pairs}.items():
        _save(folder, name, _incidence(np.searchsorted(hashes, keys), passages, len(hashes)))
    _save(folder, "names", _incidence(all_pairs[0], np.searchsorted(hashes, all_pairs[1]), len(ids)))
    _save_vectors(folder, rows, len(ids))
    (folder / "ids.json").write_text(json.dumps(ids), encoding="utf-8")


def load_links(folder: Path) -> Links:
    """Open the index in `folder`."""
    return Links(
        ids=json.loads((folder / "ids.json").read_text(encoding="utf-8")),
        vectors=np.load(folder / "vectors.npy", mmap_mode="r"),
        hashes=np.load(folder / "hashes.npy"),
        names=_load(folder, "names"),
        mentions=_load(folder, "mentions"),
        titles=_load(folder, "titles"),
    )


def _mentioned(rows: Rows) -> Iterator[tuple[str, str]]:
    names = {key: link_name(name) for key, name, kind in rows.graph.iter_names() if kind not in _UNLINKED_TYPES}
    for mention in rows.graph.iter_mentions():
        name = names.get(mention.entity)
        if name:
            yield mention.passage, name


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def _hashed(pairs: Iterable[tuple[int, str]]) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    listed = list(pairs)
    keys = {name: _hash(name) for _, name in listed}
    passages = np.fromiter((passage for passage, _ in listed), dtype=np.int32, count=len(listed))
    return passages, np.fromiter((keys[name] for _, name in listed), dtype=np.uint64, count=len(listed))


def _incidence(rows: NDArray[np.integer], columns: NDArray[np.integer], size: int) -> Incidence:
    pairs = np.unique(np.stack([rows.astype(np.int64), columns.astype(np.int64)], axis=1), axis=0)
    starts = np.searchsorted(pairs[:, 0], np.arange(size + 1))
    return Incidence(starts.astype(np.int64), pairs[:, 1].astype(np.int32))


def _save(folder: Path, name: str, matrix: Incidence) -> None:
    np.save(folder / f"{name}.starts.npy", matrix.starts)
    np.save(folder / f"{name}.columns.npy", matrix.columns)


def _load(folder: Path, name: str) -> Incidence:
    return Incidence(
        np.load(folder / f"{name}.starts.npy", mmap_mode="r"), np.load(folder / f"{name}.columns.npy", mmap_mode="r")
    )


def _save_vectors(folder: Path, rows: Rows, count: int) -> None:
    """Passages without a vector yet get zeros."""
    matrix: NDArray[np.float32] | None = None
    ids = {key: i for i, key in enumerate(passage.id for passage in rows.iter_passages())}
    for keys, part in rows.embeddings.batches("passage", _BATCH):
        if matrix is None:
            matrix = np.zeros((count, part.shape[1]), dtype=np.float32)
        matrix[[ids[key] for key in keys]] = part
    np.save(folder / "vectors.npy", matrix if matrix is not None else np.zeros((count, 0), dtype=np.float32))
