"""What can be read from and written to the relational store within one transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, delete, func, insert, select

from hoptrail.corpus.schema import documents, manifest, passages, vectors
from hoptrail.corpus.types import Document, Passage

__all__ = ["Entry", "Rows", "State"]

_READ = 500
"""Ids per query: SQLite and PostgreSQL bound the number of parameters."""


@dataclass(frozen=True)
class State:
    """Which rows these are.

    `revision` changes with every write; `settled` says that the writer which made it reached its end.
    """

    revision: int
    settled: bool


@dataclass(frozen=True)
class Entry:
    """A document with its passages and their vectors, shape `(len(passages), dimension)`."""

    document: Document
    passages: Sequence[Passage]
    vectors: NDArray[np.float32]


class Rows:
    """The rows of one namespace as one transaction sees them."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace

    def facts(self) -> dict[str, str]:
        """The manifest: what the corpus was built with, and its state."""
        query = select(manifest.c.key, manifest.c.value).where(manifest.c.namespace == self._namespace)
        return {row.key: row.value for row in self._connection.execute(query)}

    def put_facts(self, facts: dict[str, str]) -> None:
        """Set entries of the manifest."""
        old = manifest.c.namespace == self._namespace, manifest.c.key.in_(facts)
        self._connection.execute(delete(manifest).where(*old))
        self._connection.execute(
            insert(manifest),
            [{"namespace": self._namespace, "key": key, "value": value} for key, value in facts.items()],
        )

    def state(self) -> State:
        """Which rows these are."""
        facts = self.facts()
        return State(int(facts.get("revision", "0")), settled=facts.get("settled") == facts.get("revision", "0"))

    def count(self, table: Table) -> int:
        """How many rows `table` has."""
        query = select(func.count()).select_from(table).where(table.c.namespace == self._namespace)
        return int(self._connection.execute(query).scalar_one())

    def digests(self) -> dict[str, str]:
        """Content digest by document id."""
        query = select(documents.c.id, documents.c.digest).where(documents.c.namespace == self._namespace)
        return {row.id: row.digest for row in self._connection.execute(query)}

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """The passages of these ids that exist, by id."""
        found: dict[str, Passage] = {}
        for start in range(0, len(ids), _READ):
            wanted = list(ids[start : start + _READ])
            query = select(passages).where(passages.c.namespace == self._namespace, passages.c.id.in_(wanted))
            found.update((row.id, _passage(row)) for row in self._connection.execute(query))
        return found

    def iter_passages(self) -> Iterator[Passage]:
        """All passages, by id."""
        query = select(passages).where(passages.c.namespace == self._namespace).order_by(passages.c.id)
        for row in self._connection.execute(query.execution_options(yield_per=1000)):
            yield _passage(row)

    def iter_vectors(self, size: int) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
        """All passage ids with their vectors, by id, `size` at a time."""
        query = select(vectors.c.passage, vectors.c.vector).where(vectors.c.namespace == self._namespace)
        ordered = query.order_by(vectors.c.passage).execution_options(yield_per=size)
        for part in self._connection.execute(ordered).partitions(size):
            yield [row.passage for row in part], np.stack([np.frombuffer(row.vector, "<f4") for row in part])

    def replace(self, entries: Sequence[Entry]) -> None:
        """Write documents, in place of those of the same ids."""
        self._remove([entry.document.id for entry in entries])
        self._insert(documents, [self._document(entry.document) for entry in entries])
        parts = [passage for entry in entries for passage in entry.passages]
        self._insert(passages, [{"namespace": self._namespace, **passage.model_dump()} for passage in parts])
        blobs = [vector.tobytes() for entry in entries for vector in entry.vectors.astype("<f4")]
        self._insert(
            vectors,
            [
                {"namespace": self._namespace, "passage": passage.id, "vector": blob}
                for passage, blob in zip(parts, blobs, strict=True)
            ],
        )

    def _remove(self, ids: list[str]) -> None:
        # The database deletes passages and vectors along with their documents.
        for start in range(0, len(ids), _READ):
            of_part = documents.c.namespace == self._namespace, documents.c.id.in_(ids[start : start + _READ])
            self._connection.execute(delete(documents).where(*of_part))

    def _insert(self, table: Table, values: list[dict[str, object]]) -> None:
        if values:
            self._connection.execute(insert(table), values)

    def _document(self, document: Document) -> dict[str, object]:
        return {
            "namespace": self._namespace,
            "id": document.id,
            "title": document.title,
            "source": document.source,
            "digest": document.digest,
        }


def _passage(row: object) -> Passage:
    return Passage.model_validate(row, from_attributes=True)
