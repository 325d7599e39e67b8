"""The relational store: documents, passages and vectors; the truth that every index is built from."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, create_engine, delete, event, func, insert, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from hoptrail.corpus.schema import MIGRATIONS, documents, manifest, passages, vectors
from hoptrail.corpus.types import Document, Passage
from hoptrail.errors import CorpusError, CorpusMismatchError

__all__ = ["Store"]

_READ = 500
"""Ids per query: SQLite and PostgreSQL bound the number of parameters."""


class Store:
    """The rows of one namespace; methods may be called from any thread.

    Every write changes `revision`, in the same transaction.
    """

    def __init__(self, path: Path, namespace: str) -> None:
        self.path = path
        self.namespace = namespace
        self._engine = _engine(path)

    def migrate(self) -> None:
        """Bring the tables to today's version.

        Raises:
            CorpusMismatchError: They are of a later one.
        """
        with self._transaction() as connection:
            version = self._version(connection)
            if version > len(MIGRATIONS):
                raise CorpusMismatchError(self.path, "format", stored=version, given=len(MIGRATIONS))
            for migrate in MIGRATIONS[version:]:
                migrate(connection)
            self._put(connection, "", "format", str(len(MIGRATIONS)))

    def facts(self) -> dict[str, str]:
        """The manifest: what the corpus was built with, and its revision."""
        with self._transaction() as connection:
            rows = connection.execute(
                select(manifest.c.key, manifest.c.value).where(manifest.c.namespace == self.namespace)
            )
            return {key: value for key, value in rows}  # noqa: C416 - rows are not tuples

    def put_facts(self, facts: dict[str, str]) -> None:
        """Set entries of the manifest."""
        with self._transaction() as connection:
            for key, value in facts.items():
                self._put(connection, self.namespace, key, value)

    @property
    def revision(self) -> int:
        """A number that grows with every write."""
        return int(self.facts().get("revision", "0"))

    def digests(self) -> dict[str, str]:
        """Content digest by document id."""
        with self._transaction() as connection:
            rows = connection.execute(
                select(documents.c.id, documents.c.digest).where(documents.c.namespace == self.namespace)
            )
            return {key: value for key, value in rows}  # noqa: C416

    def replace(self, batch: Sequence[tuple[Document, str, Sequence[Passage], NDArray[np.float32]]]) -> list[str]:
        """Write documents with their digests, passages and vectors (one row each) in one transaction.

        Returns the ids of passages that are gone.
        """
        with self._transaction() as connection:
            old = self._remove(connection, [document.id for document, *_ in batch])
            for document, digest, parts, matrix in batch:
                connection.execute(
                    insert(documents).values(
                        namespace=self.namespace,
                        id=document.id,
                        title=document.title,
                        source=document.source,
                        digest=digest,
                    )
                )
                if parts:
                    connection.execute(insert(passages), [self._row(passage) for passage in parts])
                    connection.execute(
                        insert(vectors),
                        [
                            {"namespace": self.namespace, "passage": passage.id, "vector": vector.tobytes()}
                            for passage, vector in zip(parts, matrix.astype("<f4"), strict=True)
                        ],
                    )
            self._advance(connection)
            new = {passage.id for _, _, parts, _ in batch for passage in parts}
            return [gone for gone in old if gone not in new]

    def count(self) -> tuple[int, int]:
        """How many documents and passages there are."""
        with self._transaction() as connection:
            return (
                connection.execute(
                    select(func.count()).select_from(documents).where(documents.c.namespace == self.namespace)
                ).scalar_one(),
                connection.execute(
                    select(func.count()).select_from(passages).where(passages.c.namespace == self.namespace)
                ).scalar_one(),
            )

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """The passages of these ids that exist, by id."""
        found: dict[str, Passage] = {}
        with self._transaction() as connection:
            for start in range(0, len(ids), _READ):
                wanted = list(ids[start : start + _READ])
                query = select(passages).where(passages.c.namespace == self.namespace, passages.c.id.in_(wanted))
                found.update((row.id, _passage(row)) for row in connection.execute(query))
        return found

    def iter_passages(self) -> Iterator[Passage]:
        """All passages, by id."""
        query = select(passages).where(passages.c.namespace == self.namespace).order_by(passages.c.id)
        with self._transaction() as connection:
            for row in connection.execute(query.execution_options(yield_per=1000)):
                yield _passage(row)

    def iter_vectors(self, size: int) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
        """All passage ids with their vectors, by id, `size` at a time."""
        query = select(vectors.c.passage, vectors.c.vector).where(vectors.c.namespace == self.namespace)
        ordered = query.order_by(vectors.c.passage).execution_options(yield_per=size)
        with self._transaction() as connection:
            for rows in connection.execute(ordered).partitions(size):
                yield [row.passage for row in rows], np.stack([np.frombuffer(row.vector, "<f4") for row in rows])

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            reason = " ".join(str(getattr(error, "orig", None) or error).split())[:200]
            raise CorpusError(f"The store of the corpus at {self.path.parent} cannot be used: {reason}.") from error

    def _version(self, connection: Connection) -> int:
        if not inspect(connection).has_table(manifest.name):
            return 0
        query = select(manifest.c.value).where(manifest.c.namespace == "", manifest.c.key == "format")
        return int(connection.execute(query).scalar_one_or_none() or 0)

    def _put(self, connection: Connection, namespace: str, key: str, value: str) -> None:
        connection.execute(delete(manifest).where(manifest.c.namespace == namespace, manifest.c.key == key))
        connection.execute(insert(manifest).values(namespace=namespace, key=key, value=value))

    def _advance(self, connection: Connection) -> None:
        query = select(manifest.c.value).where(manifest.c.namespace == self.namespace, manifest.c.key == "revision")
        current = int(connection.execute(query).scalar_one_or_none() or 0)
        self._put(connection, self.namespace, "revision", str(current + 1))

    def _remove(self, connection: Connection, ids: Iterable[str]) -> list[str]:
        wanted = list(ids)
        old: list[str] = []
        for start in range(0, len(wanted), _READ):
            part = wanted[start : start + _READ]
            of_part = (passages.c.namespace == self.namespace, passages.c.document.in_(part))
            old += connection.execute(select(passages.c.id).where(*of_part)).scalars()
            # The database deletes passages and vectors along with their documents.
            connection.execute(
                delete(documents).where(documents.c.namespace == self.namespace, documents.c.id.in_(part))
            )
        return old

    def _row(self, passage: Passage) -> dict[str, object]:
        return {"namespace": self.namespace, **passage.model_dump()}


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}")

    def configure(connection: object, _: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=30000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    event.listen(engine, "connect", configure)
    return engine


def _passage(row: object) -> Passage:
    return Passage.model_validate(row, from_attributes=True)
