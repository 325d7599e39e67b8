"""A corpus as the tools see it: passages, the graph, and search over their vectors."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus.derived import DerivedIndex, FolderShelf
from hoptrail.corpus.graph import Entity, Relation
from hoptrail.corpus.graph_rows import Mention
from hoptrail.corpus.place import Place, Where
from hoptrail.corpus.rows import Rows
from hoptrail.corpus.schema import KINDS, documents, entities, passages, relations, sentences
from hoptrail.corpus.store import Store
from hoptrail.corpus.types import Passage
from hoptrail.corpus.vectors import VectorIndex
from hoptrail.errors import CorpusError, CorpusMismatchError, CorpusNotFoundError
from hoptrail.models.base import Embedder

__all__ = ["TOOL_INDEXES", "Corpus", "CorpusStatus", "check_encoder", "check_parts", "checked_namespace", "written"]

TOOL_INDEXES = "indexes"
"""Where the tools' own indexes are within a corpus."""

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True)
class CorpusStatus:
    """How large a corpus is and what it was built with.

    `unextracted` passages are those from which extraction failed, to be tried again by the next indexing; `unembedded`
    counts what has no vector yet; `complete` is false while, or after, an indexing did not end.
    """

    documents: int
    passages: int
    sentences: int
    entities: int
    relations: int
    unextracted: int
    unembedded: int
    revision: int
    complete: bool
    embedding_model: str
    dimension: int
    chunking: str
    extractor: str


class Corpus:
    """The read side of one namespace of a corpus; methods may be called from any thread.

    The encoder and the vector indexes are opened by the first search that needs them. When another process has indexed
    more, searches go on from what was there until it has ended, then see the new rows.
    """

    def __init__(self, where: Where, store: Store, embedder: Callable[[], Embedder]) -> None:
        place = Place.of(where)
        self.path = place.folder
        self._store = store
        self._open_embedder = embedder
        self._embedder: Embedder | None = None
        self._vectors = {kind: VectorIndex(place, store, kind) for kind in KINDS}
        self._turn = threading.Lock()

    @classmethod
    def open(cls, where: Where, embedder: Callable[[], Embedder], *, namespace: str = "default") -> Self:
        """Open the corpus at `where`, a folder or a `Place`.

        Raises:
            CorpusNotFoundError: There is none, or it has no such namespace.
            CorpusError: Its store cannot be read.
        """
        store = Store(where, checked_namespace(namespace))
        try:
            found = written(store, where) and _has_facts(store)
        except BaseException:
            store.close()
            raise
        if not found:
            store.close()
            raise CorpusNotFoundError(store.name)
        return cls(where, store, embedder)

    @property
    def namespace(self) -> str:
        """The tenant whose passages these are."""
        return self._store.namespace

    @property
    def revision(self) -> int:
        """A number that changes with every write."""
        with self._store.reading() as rows:
            return rows.state().revision

    @property
    def count(self) -> int:
        """How many passages there are."""
        with self._store.reading() as rows:
            return rows.count(passages)

    @property
    def document_count(self) -> int:
        """How many documents there are."""
        with self._store.reading() as rows:
            return rows.count(documents)

    def status(self) -> CorpusStatus:
        """How large it is and what it was built with."""
        with self._store.reading() as rows:
            facts, state = rows.facts(), rows.state()
            return CorpusStatus(
                documents=rows.count(documents),
                passages=rows.count(passages),
                sentences=rows.count(sentences),
                entities=rows.count(entities),
                relations=rows.count(relations),
                unextracted=len(rows.graph.failures()),
                unembedded=rows.embeddings.count_missing(),
                revision=state.revision,
                complete=state.settled,
                embedding_model=facts["embedding_model"],
                dimension=int(facts["dimension"]),
                chunking=facts["chunking"],
                extractor=facts.get("extractor", "none"),
            )

    def passage(self, key: str) -> Passage | None:
        """The passage of this id, if there is one."""
        return next(iter(self.passages([key])), None)

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages of these ids, in this order; ids that do not exist are passed over."""
        with self._store.reading() as rows:
            found = rows.passages(ids)
        return [found[key] for key in ids if key in found]

    def iter_passages(self) -> Iterator[Passage]:
        """All passages, by id."""
        with self._store.reading() as rows:
            yield from rows.iter_passages()

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """The normalised vector of a query, shape `(dimension,)`; takes a worker thread's time.

        Raises:
            CorpusMismatchError: The configured encoder is not the one that the corpus was built with.
        """
        return self._checked_embedder().encode_query(text)

    def search(self, kind: str, vector: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        """The `k` nearest to `vector` of one kind, as `(id, cosine)`, best first, ties by id.

        Args:
            kind: `passage`, `entity`, `relation` or `sentence`; sentences have the ids of `sentence_id`.
            vector: L2-normalised, shape `(dimension,)`.
            k: How many.
        """
        index = self._vectors[kind]
        index.refresh()
        return index.search(vector, k)

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        """The entities of these ids, in this order; ids that do not exist are passed over."""
        with self._store.reading() as rows:
            found = rows.graph.entities(ids)
        return [found[key] for key in ids if key in found]

    def relations(self, ids: Sequence[str]) -> list[Relation]:
        """The relations of these ids, in this order; ids that do not exist are passed over."""
        with self._store.reading() as rows:
            found = rows.graph.relations(ids)
        return [found[key] for key in ids if key in found]

    def sentences(self, ids: Sequence[str]) -> dict[str, str]:
        """The sentences of these ids (see `sentence_id`) that exist, by id."""
        with self._store.reading() as rows:
            return rows.texts("sentence", ids)

    def entities_named(self, names: Sequence[str]) -> dict[str, list[str]]:
        """For each of `names` the ids of the entities called so, whatever their type and case; there may be none."""
        with self._store.reading() as rows:
            return rows.graph.named(names)

    def entities_of(self, passage_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """For each of these passages the ids of the entities that were extracted from it; there may be none."""
        with self._store.reading() as rows:
            return rows.graph.of_passages(passage_ids)

    def relations_of(self, entity_id: str) -> list[Relation]:
        """The relations that have this entity as head or tail, by id."""
        with self._store.reading() as rows:
            return rows.graph.relations_of(entity_id)

    def iter_entities(self) -> Iterator[Entity]:
        """All entities, by id."""
        with self._store.reading() as rows:
            yield from rows.graph.iter_entities()

    def iter_relations(self) -> Iterator[Relation]:
        """All relations, by id."""
        with self._store.reading() as rows:
            yield from rows.graph.iter_relations()

    def iter_mentions(self) -> Iterator[Mention]:
        """Which sentences mention which entities how often, by entity, passage and sentence."""
        with self._store.reading() as rows:
            yield from rows.graph.iter_mentions()

    def derive(self, kind: str, *, load: Callable[[Path], bool], build: Callable[[Path, Rows], None]) -> DerivedIndex:
        """An index of a tool's own, kept beside the corpus in a folder named `kind`, in step with the rows."""
        return DerivedIndex(FolderShelf(self.path / TOOL_INDEXES / kind, self._store, load, build), self._store)

    def warm(self) -> None:
        """Open everything that dense searches need, building the vector indexes where they are missing."""
        self._checked_embedder()
        for index in self._vectors.values():
            index.refresh()

    def close(self) -> None:
        """Close the store and the indexes."""
        for index in self._vectors.values():
            index.close()
        self._store.close()

    def _checked_embedder(self) -> Embedder:
        with self._turn:
            if self._embedder is None:
                embedder = self._open_embedder()
                with self._store.reading() as rows:
                    check_encoder(self._store.name, rows.facts(), embedder)
                self._embedder = embedder
            return self._embedder


def check_parts(corpus: str, facts: dict[str, str], parts: dict[str, str]) -> None:
    """Refuse parts other than those that the corpus was built with."""
    for part, given in parts.items():
        stored = facts.get(part, given)
        if stored != given:
            raise CorpusMismatchError(corpus, part, stored=stored, given=given)


def check_encoder(corpus: str, facts: dict[str, str], embedder: Embedder) -> None:
    """Refuse an encoder other than the corpus's own."""
    check_parts(corpus, facts, {"embedding_model": embedder.name, "dimension": str(embedder.dimension)})


def checked_namespace(namespace: str) -> str:
    """`namespace` if it may be one: it becomes part of file names and keys."""
    if not _NAMESPACE.fullmatch(namespace):
        raise CorpusError(
            f"The namespace {namespace[:80]!r} is not usable: take up to 64 of a-z, 0-9, - and _, a letter or digit first."
        )
    return namespace


def _has_facts(store: Store) -> bool:
    store.migrate()
    with store.reading() as rows:
        return bool(rows.facts())


def written(store: Store, where: Where) -> bool:
    """Whether a corpus has ever been written at `where`, whose store this is; creates nothing.

    Raises:
        CorpusError: That cannot be told.
    """
    try:
        return store.exists()
    except OSError as error:
        raise CorpusError(f"No corpus can be at {str(where)[:200]}: {error.strerror or error}.") from None
