"""The vectors of passages, entities, relations and sentences, and which of them are missing."""

import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, String, Table, cast, exists, func, select

from hoptrail.corpus.schema import embeddings, entities, passages, relations, sentences
from hoptrail.corpus.tables import Tables, portions

__all__ = ["Embeddings", "digest", "sentence_id"]

_DIGEST_CHARS = 32

_OWNERS: dict[str, tuple[Table, ColumnElement[str]]] = {
    "passage": (passages, passages.c.id),
    "entity": (entities, entities.c.id),
    "relation": (relations, relations.c.id),
    "sentence": (sentences, sentences.c.passage + "\n" + cast(sentences.c.ordinal, String)),
}


def digest(text: str) -> str:
    """Tells whether a vector is of this text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]


def sentence_id(passage: str, ordinal: int) -> str:
    """The id under which a sentence has its vector."""
    return f"{passage}\n{ordinal}"


class Embeddings:
    """The vectors of one namespace as one transaction sees them; `touched` collects the kinds that it has changed."""

    def __init__(self, tables: Tables, touched: set[str]) -> None:
        self._tables = tables
        self._touched = touched

    def count(self, kind: str) -> int:
        """How many vectors there are."""
        return self._tables.count(embeddings, embeddings.c.kind == kind)

    def missing(self, kind: str) -> list[str]:
        """The ids of what has no vector, in order."""
        owner, key = _OWNERS[kind]
        query = select(key.label("key")).where(self._tables.mine(owner), ~self._has_vector(kind, key))
        return [row.key for row in self._tables.connection.execute(query.order_by(*owner.primary_key.columns))]

    def count_missing(self) -> int:
        """How many vectors are missing, of all kinds."""
        total = 0
        for kind, (owner, key) in _OWNERS.items():
            query = (
                select(func.count()).select_from(owner).where(self._tables.mine(owner), ~self._has_vector(kind, key))
            )
            total += int(self._tables.connection.execute(query).scalar_one())
        return total

    def digests(self, kind: str) -> dict[str, str]:
        """The digest of the text that each vector is of, by id."""
        query = select(embeddings.c.id, embeddings.c.digest).where(self._of(kind))
        return {row.id: row.digest for row in self._tables.connection.execute(query)}

    def batches(self, kind: str, size: int) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
        """All ids with their vectors, by id, `size` at a time."""
        query = select(embeddings.c.id, embeddings.c.vector).where(self._of(kind)).order_by(embeddings.c.id)
        for part in self._tables.connection.execute(query.execution_options(yield_per=size)).partitions(size):
            yield [row.id for row in part], np.stack([np.frombuffer(row.vector, "<f4") for row in part])

    def vectors(self, kind: str, ids: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of these ids, which must all be there, shape `(len(ids), dimension)`."""
        query = select(embeddings.c.id, embeddings.c.vector).where(self._of(kind))
        found = {row.id: row.vector for row in self._tables.rows(query, embeddings.c.id, ids)}
        return np.stack([np.frombuffer(found[key], "<f4") for key in ids])

    def put(self, kind: str, texts: dict[str, str], vectors: NDArray[np.float32]) -> None:
        """Keep the vectors of `texts`, given by id, none of which has one."""
        blobs = [vector.tobytes() for vector in vectors.astype("<f4")]
        self._tables.insert(
            embeddings,
            [
                {"kind": kind, "id": key, "digest": digest(text), "vector": blob}
                for (key, text), blob in zip(texts.items(), blobs, strict=True)
            ],
        )
        self._touched.add(kind)

    def drop(self, kind: str, ids: Sequence[str]) -> None:
        """Delete the vectors of these ids."""
        if self._tables.delete(embeddings, embeddings.c.id, ids, embeddings.c.kind == kind):
            self._touched.add(kind)

    def drop_other_than(self, kind: str, ids: Sequence[str], texts: Callable[[list[str]], dict[str, str]]) -> None:
        """Delete those vectors of these ids that are not of what `texts` gives for them."""
        query = select(embeddings.c.id, embeddings.c.digest).where(self._of(kind))
        for some in portions(ids):
            of_old = {row.id: row.digest for row in self._tables.rows(query, embeddings.c.id, some)}
            today = texts(list(of_old))
            self.drop(kind, [key for key, old in of_old.items() if key not in today or digest(today[key]) != old])

    def drop_of_sentences(self, passage_ids: Sequence[str]) -> None:
        """Delete the vectors of the sentences of these passages."""
        query = select(_OWNERS["sentence"][1].label("key")).where(self._tables.mine(sentences))
        self.drop("sentence", [row.key for row in self._tables.rows(query, sentences.c.passage, passage_ids)])

    def _of(self, kind: str) -> ColumnElement[bool]:
        return self._tables.mine(embeddings) & (embeddings.c.kind == kind)

    def _has_vector(self, kind: str, key: ColumnElement[str]) -> ColumnElement[bool]:
        return exists().where(self._of(kind), embeddings.c.id == key)
