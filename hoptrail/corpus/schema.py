"""The rows of a corpus and the steps by which older ones become today's."""

from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

__all__ = ["MIGRATIONS", "documents", "manifest", "metadata", "passages", "vectors"]

metadata = MetaData()

manifest = Table(
    "manifest",
    metadata,
    Column("namespace", String(200), nullable=False),
    Column("key", String(100), nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "key"),
)

documents = Table(
    "documents",
    metadata,
    Column("namespace", String(200), nullable=False),
    Column("id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    PrimaryKeyConstraint("namespace", "id"),
)

passages = Table(
    "passages",
    metadata,
    Column("namespace", String(200), nullable=False),
    Column("id", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "id"),
    ForeignKeyConstraint(["namespace", "document"], ["documents.namespace", "documents.id"], ondelete="CASCADE"),
    Index("passages_by_document", "namespace", "document"),
)

vectors = Table(
    "vectors",
    metadata,
    Column("namespace", String(200), nullable=False),
    Column("passage", Text, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("namespace", "passage"),
    ForeignKeyConstraint(["namespace", "passage"], ["passages.namespace", "passages.id"], ondelete="CASCADE"),
)


def _first(connection: Connection) -> None:
    metadata.create_all(connection)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_first,)
"""Step `i` takes a store of version `i` to version `i + 1`."""
