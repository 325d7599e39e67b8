"""The relational store: documents, the graph and vectors; the truth that every index is built from."""

import secrets
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import SQLAlchemyError

from hoptrail.corpus.databases import open_database
from hoptrail.corpus.migrations import MIGRATIONS
from hoptrail.corpus.place import Place, Where
from hoptrail.corpus.rows import Rows
from hoptrail.corpus.schema import manifest
from hoptrail.errors import CorpusError, CorpusMismatchError

__all__ = ["Store"]

_SHARED = ""
"""The namespace of facts about the store as a whole."""

_IDENTITY_BYTES = 6


class Store:
    """The rows of one namespace of a corpus; methods may be called from any thread."""

    def __init__(self, where: Where, namespace: str) -> None:
        self.namespace = namespace
        self._database = open_database(Place.of(where))
        self._engine = self._database.engine
        # One that nobody closes would leave its connections to the garbage collector, which closes sockets late and loudly.
        self._closing = weakref.finalize(self, self._engine.dispose)

    @property
    def name(self) -> str:
        """What messages call it; without a password."""
        return self._database.name

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
            raise CorpusMismatchError(self.name, "format", stored=version, given=len(MIGRATIONS))
        if version < len(MIGRATIONS):
            with self.lock("migration", wait=True), self._transaction(writing=True) as connection:
                for migrate in MIGRATIONS[_version(connection) :]:
                    migrate(connection)
                Rows(connection, _SHARED).put_facts({"format": str(len(MIGRATIONS))})

    def identity(self) -> str:
        """What tells this store from all others, whatever it is called; made by the first call."""
        with self._transaction(writing=False) as connection:
            known = Rows(connection, _SHARED).facts().get("identity")
        if known is not None:
            return known
        with self.lock("identity", wait=True), self._transaction(writing=True) as connection:
            shared = Rows(connection, _SHARED)
            found = shared.facts().get("identity")
            if found is None:
                found = secrets.token_hex(_IDENTITY_BYTES)
                shared.put_facts({"identity": found})
            return found

    def exists(self) -> bool:
        """Whether a corpus has ever been written here; creates nothing.

        Raises:
            CorpusError: That cannot be told.
        """
        with self._explained():
            return self._database.exists()

    def erase(self) -> None:
        """Leave nothing of deleted rows, as far as the database can; see `Database.erase`."""
        with self._explained():
            self._database.erase()

    @contextmanager
    def lock(self, name: str, *, wait: bool) -> Iterator[None]:
        """Held by one process at a time, of all that use this database.

        Raises:
            CorpusLockedError: Another has it and `wait` is false.
            CorpusError: The database cannot be used.
        """
        with self._explained(), self._database.lock(name, wait=wait):
            yield

    def close(self) -> None:
        """Close the connections; what was lent out before is closed when it comes back."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[Connection]:
        with self._explained(), self._engine.connect() as connection:
            connection.execution_options(**self._database.options(writing=writing))
            with connection.begin():
                yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise CorpusError(
                f"The store of the corpus at {self.name} cannot be used ({_reason(error)}): {self._database.remedy}."
            ) from error


def _reason(error: SQLAlchemyError) -> str:
    """What the database said, on one line."""
    said = getattr(error, "orig", None) or error
    fields = said.args[0] if isinstance(said, Exception) and said.args else said
    return " ".join(str(fields.get("M", fields) if isinstance(fields, dict) else said).split())[:200]


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table(manifest.name):
        return 0
    return int(Rows(connection, _SHARED).facts().get("format", "0"))
