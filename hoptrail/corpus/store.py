"""The relational store: documents, the graph and vectors; the truth that every index is built from."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.exc import SQLAlchemyError

from hoptrail.corpus.migrations import MIGRATIONS
from hoptrail.corpus.rows import Rows
from hoptrail.corpus.schema import manifest
from hoptrail.errors import CorpusError, CorpusMismatchError

__all__ = ["Store"]

_SHARED = ""
"""The namespace of facts about the store as a whole."""

_BUSY_MS = 30_000
_ERASING_MS = 2_000


class Store:
    """The rows of one namespace of a corpus; methods may be called from any thread."""

    def __init__(self, path: Path, namespace: str) -> None:
        self.path = path
        self.namespace = namespace
        self._engine = _engine(path)

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """The rows as they are now; what others write meanwhile is not seen.

        Raises:
            CorpusError: The store cannot be read.
        """
        with self._transaction(writing=False) as connection:
            yield Rows(connection, self.namespace)

    @contextmanager
    def writing(self) -> Iterator[Rows]:
        """The rows to be changed: all changes are kept at the end, with a new revision, or none if it raises.

        Raises:
            CorpusError: The store cannot be written to.
        """
        with self._transaction(writing=True) as connection:
            rows = Rows(connection, self.namespace)
            yield rows
            # Random, so that no other history of this store (a restored copy, a deleted file) can have the same one.
            revision = str(secrets.randbits(62))
            rows.put_facts({"revision": revision, **{f"revision:{kind}": revision for kind in rows.touched}})

    def settle(self) -> None:
        """Say that the rows' revision is the last of its writer's."""
        with self._transaction(writing=True) as connection:
            rows = Rows(connection, self.namespace)
            rows.put_facts({"settled": str(rows.state().revision)})

    def migrate(self) -> None:
        """Bring the tables to today's version.

        Raises:
            CorpusMismatchError: They are of a later one.
        """
        with self._transaction(writing=False) as connection:
            version = _version(connection)
        if version > len(MIGRATIONS):
            raise CorpusMismatchError(self.path.parent, "format", stored=version, given=len(MIGRATIONS))
        if version < len(MIGRATIONS):
            with self._transaction(writing=True) as connection:
                for migrate in MIGRATIONS[_version(connection) :]:
                    migrate(connection)
                Rows(connection, _SHARED).put_facts({"format": str(len(MIGRATIONS))})

    def erase(self) -> None:
        """Leave nothing of deleted rows in the files: SQLite overwrites them, its log has to be emptied too."""
        connection = self._engine.raw_connection()
        try:
            cursor = connection.cursor()
            # A reader that has not ended keeps the log in use: it is emptied by the next writer then.
            cursor.execute(f"PRAGMA busy_timeout={_ERASING_MS}")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
            cursor.close()
        finally:
            connection.close()

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                connection.execution_options(hoptrail_writing=writing)
                with connection.begin():
                    yield connection
        except SQLAlchemyError as error:
            reason = " ".join(str(getattr(error, "orig", None) or error).split())[:200]
            raise CorpusError(
                f"The store of the corpus at {self.path.parent} cannot be used ({reason}): check the disk and the folder's "
                "permissions, or index into a new corpus."
            ) from error


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table(manifest.name):
        return 0
    return int(Rows(connection, _SHARED).facts().get("format", "0"))


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}")

    def configure(connection: object, _: object) -> None:
        # The driver would begin transactions late and end them at will; `begin` below does it instead.
        connection.isolation_level = None  # type: ignore[attr-defined]
        cursor = connection.cursor()  # type: ignore[attr-defined]
        for pragma in (
            f"busy_timeout={_BUSY_MS}",
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
            "secure_delete=ON",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("hoptrail_writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    event.listen(engine, "connect", configure)
    event.listen(engine, "begin", begin)
    return engine
