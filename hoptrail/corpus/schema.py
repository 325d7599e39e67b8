"""The tables of a corpus. Every key begins with the namespace; what follows from a passage goes with it."""

from sqlalchemy import (
    Column,
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
from sqlalchemy.dialects import postgresql

__all__ = [
    "KINDS",
    "attributes",
    "documents",
    "embeddings",
    "entities",
    "extractions",
    "manifest",
    "mentions",
    "metadata",
    "passages",
    "relation_sources",
    "relations",
    "sentences",
]

KINDS = ("passage", "entity", "relation", "sentence")
"""What has vectors."""

metadata = MetaData()

# Ids are put in order by their characters, as Python does; PostgreSQL would else follow the database's language.
_ID = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_HASH = String(64).with_variant(postgresql.VARCHAR(64, collation="C"), "postgresql")


def _namespace() -> Column[str]:
    return Column("namespace", String(200), nullable=False)


def _of(table: str, column: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["namespace", column], [f"{table}.namespace", f"{table}.id"], ondelete="CASCADE")


manifest = Table(
    "manifest",
    metadata,
    _namespace(),
    Column("key", String(100), nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "key"),
)

documents = Table(
    "documents",
    metadata,
    _namespace(),
    Column("id", _ID, nullable=False),
    Column("title", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    PrimaryKeyConstraint("namespace", "id"),
)

passages = Table(
    "passages",
    metadata,
    _namespace(),
    Column("id", _ID, nullable=False),
    Column("document", _ID, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "id"),
    _of("documents", "document"),
    Index("passages_by_document", "namespace", "document"),
)

sentences = Table(
    "sentences",
    metadata,
    _namespace(),
    Column("passage", _ID, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("text", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "passage", "ordinal"),
    _of("passages", "passage"),
)

extractions = Table(
    "extractions",
    metadata,
    _namespace(),
    Column("passage", _ID, nullable=False),
    Column("state", String(10), nullable=False),  # done or failed
    Column("reason", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "passage"),
    _of("passages", "passage"),
    sqlite_with_rowid=False,
)

entities = Table(
    "entities",
    metadata,
    _namespace(),
    Column("id", _HASH, nullable=False),
    Column("name", _ID, nullable=False),
    Column("lowered", _ID, nullable=False),
    Column("type", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "id"),
    Index("entities_by_name", "namespace", "lowered"),
)

mentions = Table(
    "mentions",
    metadata,
    _namespace(),
    Column("entity", _HASH, nullable=False),
    Column("passage", _ID, nullable=False),
    Column("sentence", Integer, nullable=False),  # -1 where the extractor does not say
    Column("count", Integer, nullable=False),
    PrimaryKeyConstraint("namespace", "entity", "passage", "sentence"),
    _of("entities", "entity"),
    _of("passages", "passage"),
    Index("mentions_by_passage", "namespace", "passage"),
    sqlite_with_rowid=False,
)

attributes = Table(
    "attributes",
    metadata,
    _namespace(),
    Column("entity", _HASH, nullable=False),
    Column("passage", _ID, nullable=False),
    Column("digest", _HASH, nullable=False),  # of key and value, which may be longer than a key of an index
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("namespace", "entity", "passage", "digest"),
    _of("entities", "entity"),
    _of("passages", "passage"),
    Index("attributes_by_passage", "namespace", "passage"),
    sqlite_with_rowid=False,
)

relations = Table(
    "relations",
    metadata,
    _namespace(),
    Column("id", _HASH, nullable=False),
    Column("label", Text, nullable=False),
    Column("head", _HASH, nullable=False),
    Column("tail", _HASH, nullable=False),
    PrimaryKeyConstraint("namespace", "id"),
    _of("entities", "head"),
    _of("entities", "tail"),
    Index("relations_by_head", "namespace", "head"),
    Index("relations_by_tail", "namespace", "tail"),
)

relation_sources = Table(
    "relation_sources",
    metadata,
    _namespace(),
    Column("relation", _HASH, nullable=False),
    Column("passage", _ID, nullable=False),
    PrimaryKeyConstraint("namespace", "relation", "passage"),
    _of("relations", "relation"),
    _of("passages", "passage"),
    Index("relation_sources_by_passage", "namespace", "passage"),
    sqlite_with_rowid=False,
)

embeddings = Table(
    "embeddings",
    metadata,
    _namespace(),
    Column("kind", String(10), nullable=False),
    Column("id", _ID, nullable=False),
    Column("digest", String(32), nullable=False),  # of the text that was embedded
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("namespace", "kind", "id"),
)
