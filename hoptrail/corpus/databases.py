"""The databases that can hold a corpus's rows: a SQLite file in its folder, or one of a PostgreSQL server."""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from filelock import FileLock, Timeout
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from hoptrail.corpus.place import Place
from hoptrail.corpus.schema import manifest
from hoptrail.errors import ConfigurationError, CorpusLockedError

__all__ = ["Database", "open_database"]

_WRITING = "hoptrail_writing"
_BUSY_MS = 30_000
_ERASING_MS = 2_000


class Database(Protocol):
    """What differs between the databases; everything else is SQLAlchemy's."""

    name: str
    """Shown in messages; without a password."""
    remedy: str
    """What to do when it cannot be used."""
    engine: Engine

    def options(self, *, writing: bool) -> dict[str, Any]:
        """Of a connection: a reader sees the rows of one moment, writers take turns."""

    def exists(self) -> bool:
        """Whether a corpus has ever been written there; creates nothing."""

    def erase(self) -> None:
        """Leave as little of deleted rows behind as the database allows."""

    def lock(self, name: str, *, wait: bool) -> AbstractContextManager[None]:
        """Held by one process at a time; raises `CorpusLockedError` where another has it and `wait` is false."""


def open_database(place: Place) -> Database:
    """The database of the corpus at `place`; nothing is connected to yet.

    Raises:
        ConfigurationError: The URL is none that can be used.
    """
    return SqliteFile(place) if place.store_url is None else Postgres(place.store_url)


class SqliteFile:
    """A file within the corpus's folder."""

    remedy = "check the disk and the folder's permissions, or index into a new corpus"

    def __init__(self, place: Place) -> None:
        self.name = str(place.folder)
        self._folder = place.folder
        self._file = place.folder / "corpus.sqlite3"
        self.engine = create_engine(f"sqlite:///{self._file}")
        event.listen(self.engine, "connect", _configure)
        event.listen(self.engine, "begin", _begin)

    def options(self, *, writing: bool) -> dict[str, Any]:
        """See `Database.options`."""
        return {_WRITING: writing}

    def exists(self) -> bool:
        """See `Database.exists`."""
        return self._file.is_file()

    def erase(self) -> None:
        """SQLite overwrites what is deleted; its log has to be emptied too."""
        connection = self.engine.raw_connection()
        try:
            cursor = connection.cursor()
            # A reader that has not ended keeps the log in use: it is emptied by the next writer then.
            cursor.execute(f"PRAGMA busy_timeout={_ERASING_MS}")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
            cursor.close()
        finally:
            connection.close()

    @contextmanager
    def lock(self, name: str, *, wait: bool) -> Iterator[None]:
        """See `Database.lock`."""
        held = FileLock(str(self._folder / f"{name}.lock"), timeout=-1 if wait else 0)
        try:
            held.acquire()
        except Timeout:
            raise CorpusLockedError(self.name) from None
        try:
            yield
        finally:
            held.release()


def _configure(connection: object, _: object) -> None:
    # The driver would begin transactions late and end them at will; `_begin` does it instead.
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


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get(_WRITING)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


class Postgres:
    """A database of a PostgreSQL server, all of it for one corpus."""

    remedy = "check that the server runs, and the user, password and database of `store_url` (HOPTRAIL_STORE_URL)"

    def __init__(self, url: str) -> None:
        parsed = _parsed(url)
        self.name = parsed.set(drivername="postgresql").render_as_string(hide_password=True)
        try:
            self.engine = create_engine(parsed, pool_pre_ping=True)
        except ModuleNotFoundError:
            raise ConfigurationError(
                "A corpus in PostgreSQL needs the extra `postgres`: pip install 'hoptrail[postgres]'."
            ) from None
        event.listen(self.engine, "begin", _take_turn)
        # Else each row of an insert would be a round trip.
        self.engine.dialect.use_insertmanyvalues_wo_returning = True

    def options(self, *, writing: bool) -> dict[str, Any]:
        """See `Database.options`."""
        # A writer has to see what was written while it waited for its turn.
        return {_WRITING: writing, "isolation_level": "READ COMMITTED" if writing else "REPEATABLE READ"}

    def exists(self) -> bool:
        """See `Database.exists`."""
        with self.engine.connect() as connection:
            return inspect(connection).has_table(manifest.name)

    def erase(self) -> None:
        """Free the room of deleted rows to be overwritten; what backups and the server's own log keep is the server's."""
        with self._outside_transactions() as connection:
            connection.execute(text("VACUUM"))

    @contextmanager
    def lock(self, name: str, *, wait: bool) -> Iterator[None]:
        """See `Database.lock`."""
        key = _lock_key(name)
        call = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
        with self._outside_transactions() as connection:
            if connection.execute(text(f"SELECT {call}(:key)"), {"key": key}).scalar_one() is False:
                raise CorpusLockedError(self.name)
            try:
                yield
            finally:
                try:
                    connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": key})
                except DBAPIError:
                    # The server is gone, and the lock with the connection.
                    connection.invalidate()

    @contextmanager
    def _outside_transactions(self) -> Iterator[Connection]:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # The pool's trial of the connection has begun one.
            connection.connection.rollback()
            yield connection


def _take_turn(connection: Connection) -> None:
    if connection.get_execution_options().get(_WRITING):
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _lock_key("transaction")})


def _lock_key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"hoptrail {name}".encode()).digest()[:8], "big", signed=True)


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() != "postgresql" or not parsed.database:
        # The URL itself is not shown: it may hold a password.
        raise ConfigurationError(
            "The store's URL (HOPTRAIL_STORE_URL) must be like postgresql://USER:PASSWORD@HOST:PORT/DATABASE."
        )
    return parsed.set(drivername="postgresql+pg8000")
