"""What the readers and writers of the tables share: a namespace's part of them, and lists of any length."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, delete, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

__all__ = ["Tables", "batched", "portions"]

_IDS = 500
"""Ids per statement: SQLite and PostgreSQL bound the number of parameters."""


def portions(ids: Sequence[str]) -> Iterator[list[str]]:
    """`ids` in lists that one statement takes."""
    for _, some in batched(ids, _IDS):
        yield some


def batched(ids: Sequence[str], size: int) -> Iterator[tuple[int, list[str]]]:
    """`ids`, `size` at a time, each time with how many came before."""
    for start in range(0, len(ids), size):
        yield start, list(ids[start : start + size])


class Tables:
    """The tables of one namespace as one transaction sees them."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self.connection = connection
        self.namespace = namespace

    def mine(self, table: Table) -> ColumnElement[bool]:
        """The condition that a row is of this namespace."""
        return table.c.namespace == self.namespace

    def count(self, table: Table, *conditions: ColumnElement[bool]) -> int:
        """How many rows of `table` meet the conditions."""
        query = select(func.count()).select_from(table).where(self.mine(table), *conditions)
        return int(self.connection.execute(query).scalar_one())

    def rows(self, query: Select[Any], by: ColumnElement[Any], ids: Sequence[str]) -> Iterator[Row[Any]]:
        """The rows of `query` whose column `by` is one of `ids`."""
        for some in portions(ids):
            yield from self.connection.execute(query.where(by.in_(some)))

    def delete(self, table: Table, by: ColumnElement[Any], ids: Sequence[str], *conditions: ColumnElement[bool]) -> int:
        """Delete the rows whose column `by` is one of `ids` and that meet the conditions; how many there were."""
        statement = delete(table).where(self.mine(table), *conditions)
        return sum(self.connection.execute(statement.where(by.in_(some))).rowcount for some in portions(ids))

    def insert(self, table: Table, values: Sequence[Mapping[str, object]]) -> None:
        """Add rows."""
        if values:
            self.connection.execute(insert(table), self._owned(values))

    def insert_missing(self, table: Table, values: Sequence[Mapping[str, object]]) -> None:
        """Add those rows whose key is not there yet."""
        if values:
            dialect = sqlite if self.connection.dialect.name == "sqlite" else postgresql
            self.connection.execute(dialect.insert(table).on_conflict_do_nothing(), self._owned(values))

    def _owned(self, values: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
        return [{"namespace": self.namespace, **value} for value in values]
