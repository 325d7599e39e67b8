"""Collections on a Chroma server: the same as in folders, but each built anew where vectors have changed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from hoptrail.corpus.chroma import OpenCollection, configuration, settings
from hoptrail.corpus.rows import Rows
from hoptrail.corpus.store import Store
from hoptrail.errors import ConfigurationError, CorpusError

__all__ = ["ServerShelf"]

_BATCH = 1_000
_PAGE = 1_000
_PORTS = {"http": 8000, "https": 443}
_Address = tuple[str, int, bool]
"""Host, port, and whether by TLS."""


class ServerShelf:
    """The collections of one kind of vectors of a store.

    Args:
        url: The server's, such as `http://localhost:8000`.
        store: The rows; its identity is the beginning of all collections' names, so stores can share a server.
        kind: Which vectors.
        use: Puts an opened collection in use.
    """

    def __init__(self, url: str, store: Store, kind: str, use: Callable[[OpenCollection], None]) -> None:
        self._address = _address(url)
        self._store = store
        self._kind = kind
        self._use = use

    def building(self) -> AbstractContextManager[None]:
        """See `Shelf.building`."""
        return self._store.lock(f"vectors-{self._store.namespace}-{self._kind}", wait=True)

    def use(self, revision: int) -> bool:
        """See `Shelf.use`."""
        client = _client(*self._address)
        found = client.get_collection(self._prefix() + str(revision), embedding_function=None)
        size = int(found.metadata["size"])
        if found.count() != size:
            return False
        self._use(OpenCollection(ServedCollection(found, self._address) if size else None, size, None))
        return True

    def make(self, revision: int, rows: Rows) -> None:
        """See `Shelf.make`."""
        with _explained(self._address) as client:
            name = self._prefix() + str(revision)
            draft = f"{name}.draft"
            present = set(self._names(client))
            for old in present & {name, draft}:
                client.delete_collection(old)
            size = rows.embeddings.count(self._kind)
            collection = client.create_collection(
                draft,
                embedding_function=None,
                metadata={"size": size},
                configuration={"hnsw": configuration(self._kind, size)},
            )
            for ids, matrix in rows.embeddings.batches(self._kind, _BATCH):
                collection.add(ids=ids, embeddings=matrix)
            collection.modify(name=name)

    def keep(self, revisions: set[int]) -> None:
        """See `Shelf.keep`."""
        with _explained(self._address) as client:
            prefix = self._prefix()
            kept = {prefix + str(revision) for revision in revisions}
            for name in self._names(client):
                if name.startswith(prefix) and name not in kept:
                    client.delete_collection(name)

    def _prefix(self) -> str:
        return f"{self._store.identity()}.{self._store.namespace}.{self._kind}."

    def _names(self, client: Any) -> Iterator[str]:
        names: list[str] = []
        while page := client.list_collections(limit=_PAGE, offset=len(names)):
            names += [collection.name for collection in page]
        return iter(names)


class ServedCollection:
    """A collection that answers as one in a folder does, and says what to do where its server does not."""

    def __init__(self, collection: Any, address: _Address) -> None:
        self._collection = collection
        self._address = address

    def query(self, **asked: Any) -> dict[str, Any]:
        """Chroma's own `query` of one vector; finds nothing in a collection that another process has removed."""
        from chromadb.errors import NotFoundError  # noqa: PLC0415 - takes half a second

        try:
            with _explained(self._address):
                return dict(self._collection.query(**asked))
        except CorpusError as error:
            if isinstance(error.__cause__, NotFoundError):
                return {"ids": [[]], "distances": [[]]}
            raise


@contextmanager
def _explained(address: _Address) -> Iterator[Any]:
    try:
        yield _client(*address)
    except CorpusError:
        raise
    except Exception as error:
        host, port, _ = address
        raise CorpusError(
            f"The Chroma server at {host}:{port} cannot be used ({' '.join(str(error).split())[:200]}): check that it "
            "runs and that `chroma_url` (HOPTRAIL_CHROMA_URL) names it."
        ) from error


def _address(url: str) -> _Address:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in _PORTS or not parts.hostname or port == -1 or parts.username or parts.path.strip("/"):
        raise ConfigurationError("The Chroma server's URL (HOPTRAIL_CHROMA_URL) must be like http://HOST:PORT.")
    return parts.hostname, port or _PORTS[parts.scheme], parts.scheme == "https"


@lru_cache(maxsize=8)
def _client(host: str, port: int, secure: bool) -> Any:
    import chromadb  # noqa: PLC0415 - takes half a second

    return chromadb.HttpClient(host, port, ssl=secure, settings=settings().model_copy())
