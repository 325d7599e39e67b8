"""The steps by which the tables of older stores become today's."""

from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    insert,
    select,
)

from hoptrail.corpus.embeddings import digest
from hoptrail.corpus.schema import documents, embeddings, manifest, metadata, passages

__all__ = ["MIGRATIONS"]

_BATCH = 1_000

_vectors = Table(
    "vectors",
    MetaData(),
    Column("namespace", String(200), nullable=False),
    Column("passage", Text, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("namespace", "passage"),
)


def _first(connection: Connection) -> None:
    """Documents and passages, each passage with its vector."""
    metadata.create_all(connection, tables=[manifest, documents, passages])
    _vectors.create(connection, checkfirst=True)


def _second(connection: Connection) -> None:
    """The graph, and vectors of four kinds, each with the digest of the text that it is of."""
    metadata.create_all(connection)
    same = (_vectors.c.namespace == passages.c.namespace) & (_vectors.c.passage == passages.c.id)
    query = select(passages.c.namespace, passages.c.id, passages.c.title, passages.c.text, _vectors.c.vector)
    for part in connection.execute(query.join(_vectors, same)).partitions(_BATCH):
        connection.execute(
            insert(embeddings),
            [
                {
                    "namespace": row.namespace,
                    "kind": "passage",
                    "id": row.id,
                    "digest": digest(f"{row.title}\n{row.text}" if row.title else row.text),
                    "vector": row.vector,
                }
                for row in part
            ],
        )
    _vectors.drop(connection)
    revisions = select(manifest.c.namespace, manifest.c.value).where(manifest.c.key == "revision")
    found = [
        {"namespace": row.namespace, "key": "revision:passage", "value": row.value}
        for row in connection.execute(revisions)
    ]
    if found:
        connection.execute(insert(manifest), found)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_first, _second)
"""Step `i` takes a store of version `i` to version `i + 1`."""
