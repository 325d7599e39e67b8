"""What can be read from and written to the relational store within one transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, select, update

from hoptrail.corpus.embeddings import Embeddings
from hoptrail.corpus.graph_rows import Graph
from hoptrail.corpus.schema import documents, manifest, passages
from hoptrail.corpus.tables import Tables
from hoptrail.corpus.types import Document, Passage

__all__ = ["Entry", "Rows", "State"]


@dataclass(frozen=True)
class State:
    """Which rows these are.

    `revision` changes with every write of what was asked about; `settled` says that the writer of the newest rows reached
    its end.
    """

    revision: int
    settled: bool


@dataclass(frozen=True)
class Entry:
    """A document with its passages."""

    document: Document
    passages: Sequence[Passage]


class Rows:
    """The rows of one namespace as one transaction sees them; `graph` and `embeddings` are what was made of passages."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._tables = Tables(connection, namespace)
        self.touched: set[str] = set()
        self.embeddings = Embeddings(self._tables, self.touched)
        self.graph = Graph(self._tables, self.embeddings)

    def facts(self) -> dict[str, str]:
        """The manifest: what the corpus was built with, and its state."""
        query = select(manifest.c.key, manifest.c.value).where(self._tables.mine(manifest))
        return {row.key: row.value for row in self._tables.connection.execute(query)}

    def put_facts(self, facts: dict[str, str]) -> None:
        """Set entries of the manifest."""
        self._tables.connection.execute(
            delete(manifest).where(self._tables.mine(manifest), manifest.c.key.in_(facts)),
        )
        self._tables.insert(manifest, [{"key": key, "value": value} for key, value in facts.items()])

    def state(self, kind: str | None = None) -> State:
        """Which rows these are, or which vectors of one kind."""
        facts = self.facts()
        newest = facts.get("revision", "0")
        revision = newest if kind is None else facts.get(f"revision:{kind}", "0")
        return State(int(revision), settled=facts.get("settled") == newest)

    def count(self, table: Table, *conditions: ColumnElement[bool]) -> int:
        """How many rows of `table` meet the conditions."""
        return self._tables.count(table, *conditions)

    def digests(self) -> dict[str, str]:
        """Content digest by document id."""
        query = select(documents.c.id, documents.c.digest).where(self._tables.mine(documents))
        return {row.id: row.digest for row in self._tables.connection.execute(query)}

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """The passages of these ids that exist, by id."""
        query = select(passages).where(self._tables.mine(passages))
        return {row.id: _passage(row) for row in self._tables.rows(query, passages.c.id, ids)}

    def iter_passages(self) -> Iterator[Passage]:
        """All passages, by id."""
        query = select(passages).where(self._tables.mine(passages)).order_by(passages.c.id)
        for row in self._tables.connection.execute(query.execution_options(yield_per=1000)):
            yield _passage(row)

    def texts(self, kind: str, ids: Sequence[str]) -> dict[str, str]:
        """What is embedded of the things of these ids that exist, by id, in the order of `ids`."""
        if kind == "passage":
            found = {key: passage.content for key, passage in self.passages(ids).items()}
        elif kind == "entity":
            found = self.graph.entity_texts(ids)
        elif kind == "relation":
            found = {key: relation.content for key, relation in self.graph.relations(ids).items()}
        else:
            found = self.graph.sentence_texts(ids)
        return {key: found[key] for key in ids if key in found}

    def replace(self, entries: Sequence[Entry]) -> None:
        """Write documents, in place of those of the same ids; passages that are as they were stay."""
        ids = [entry.document.id for entry in entries]
        wanted = {passage.id: passage for entry in entries for passage in entry.passages}
        former = {passage.id: passage for passage in self._passages_of(ids)}
        self.graph.forget([key for key, passage in former.items() if wanted.get(key) != passage])
        self._put_documents([entry.document for entry in entries])
        new = [passage for key, passage in wanted.items() if former.get(key) != passage]
        self._tables.insert(passages, [passage.model_dump() for passage in new])

    def remove(self, ids: Sequence[str]) -> int:
        """Remove documents and all that only they were the sources of; how many passages they had."""
        parts = [passage.id for passage in self._passages_of(ids)]
        self.graph.forget(parts)
        self._tables.delete(documents, documents.c.id, ids)
        return len(parts)

    def _put_documents(self, given: Sequence[Document]) -> None:
        query = select(documents.c.id).where(self._tables.mine(documents))
        known = {row.id for row in self._tables.rows(query, documents.c.id, [document.id for document in given])}
        values = [_document(document) for document in given]
        self._tables.insert(documents, [value for value in values if value["id"] not in known])
        changed = [{f"new_{key}": value for key, value in row.items()} for row in values if row["id"] in known]
        if changed:
            new: dict[str, Any] = {key: bindparam(f"new_{key}") for key in ("title", "source", "digest")}
            statement = update(documents).where(self._tables.mine(documents), documents.c.id == bindparam("new_id"))
            self._tables.connection.execute(statement.values(new), changed)

    def _passages_of(self, document_ids: Sequence[str]) -> list[Passage]:
        query = select(passages).where(self._tables.mine(passages))
        return [_passage(row) for row in self._tables.rows(query, passages.c.document, document_ids)]


def _document(document: Document) -> dict[str, object]:
    return {"id": document.id, "title": document.title, "source": document.source, "digest": document.digest}


def _passage(row: object) -> Passage:
    return Passage.model_validate(row, from_attributes=True)
