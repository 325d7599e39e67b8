"""The merged graph in the store: what passages are the sources of, and what goes with them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, Table, case, exists, or_, select
from sqlalchemy.orm import aliased

from hoptrail.corpus.embeddings import Embeddings
from hoptrail.corpus.extraction import Extraction, ExtractionFailure
from hoptrail.corpus.graph import Entity, Relation, normalised_name
from hoptrail.corpus.merging import merged
from hoptrail.corpus.schema import (
    attributes,
    entities,
    extractions,
    mentions,
    passages,
    relation_sources,
    relations,
    sentences,
)
from hoptrail.corpus.tables import Tables, portions

__all__ = ["Graph", "Mention"]

DONE, FAILED = "done", "failed"


class Mention(NamedTuple):
    """How many times a sentence of a passage mentions an entity; `sentence` is -1 where the extractor does not say."""

    entity: str
    passage: str
    sentence: int
    times: int


class Graph:
    """The graph of one namespace as one transaction sees it."""

    def __init__(self, tables: Tables, embeddings: Embeddings) -> None:
        self._tables = tables
        self._embeddings = embeddings

    def unextracted(self) -> list[str]:
        """The ids of the passages from which nothing has been extracted yet, in order, those that failed last."""
        mine = self._tables.mine
        tried = exists().where(mine(extractions), extractions.c.passage == passages.c.id)
        query = select(passages.c.id).where(mine(passages), ~tried.where(extractions.c.state == DONE))
        query = query.order_by(case((tried, 1), else_=0), passages.c.id)
        return [row.id for row in self._tables.connection.execute(query)]

    def failures(self) -> dict[str, str]:
        """Why extraction failed, by passage id."""
        query = select(extractions.c.passage, extractions.c.reason).where(
            self._tables.mine(extractions), extractions.c.state == FAILED
        )
        return {row.passage: row.reason for row in self._tables.connection.execute(query)}

    def put(self, results: Mapping[str, Extraction | ExtractionFailure]) -> None:
        """Merge what was found in passages, given by id, from which nothing had been extracted before."""
        tables = self._tables
        tables.delete(extractions, extractions.c.passage, list(results))
        tables.insert(extractions, [_state(passage, result) for passage, result in results.items()])
        found = merged((key, result) for key, result in results.items() if isinstance(result, Extraction))
        tables.insert(sentences, found.sentences)
        tables.insert_missing(entities, list(found.entities.values()))
        tables.insert(mentions, found.mentions)
        tables.insert(attributes, found.attributes)
        tables.insert_missing(relations, list(found.relations.values()))
        tables.insert(relation_sources, found.relation_sources)
        self._embeddings.drop_other_than("entity", _distinct(found.attributes, "entity"), self.entity_texts)

    def forget(self, passage_ids: Sequence[str]) -> None:
        """Remove passages with all that only they were the sources of."""
        tables = self._tables
        lost_entities = self._of_passages(mentions, "entity", passage_ids)
        lost_relations = self._of_passages(relation_sources, "relation", passage_ids)
        changed = self._of_passages(attributes, "entity", passage_ids)
        self._embeddings.drop_of_sentences(passage_ids)
        self._embeddings.drop("passage", passage_ids)
        tables.delete(passages, passages.c.id, passage_ids)
        self._remove("relation", relations, relation_sources, lost_relations)
        self._remove("entity", entities, mentions, lost_entities)
        self._embeddings.drop_other_than("entity", changed, self.entity_texts)

    def entities(self, ids: Sequence[str]) -> dict[str, Entity]:
        """The entities of these ids that exist, by id."""
        found: dict[str, Entity] = {}
        for some in portions(ids):
            facts = self._facts(some)
            sources: dict[str, set[str]] = defaultdict(set)
            query = select(mentions.c.entity, mentions.c.passage).where(self._tables.mine(mentions))
            for row in self._tables.rows(query, mentions.c.entity, some):
                sources[row.entity].add(row.passage)
            for row in self._tables.rows(self._named(), entities.c.id, some):
                passages_of = tuple(sorted(sources[row.id]))
                found[row.id] = Entity(row.id, row.name, row.type, facts.get(row.id, {}), passages_of)
        return found

    def entity_texts(self, ids: Sequence[str]) -> dict[str, str]:
        """What is embedded of the entities of these ids that exist, by id."""
        facts = self._facts(ids)
        rows = self._tables.rows(self._named(), entities.c.id, ids)
        return {row.id: Entity(row.id, row.name, row.type, facts.get(row.id, {})).content for row in rows}

    def relations(self, ids: Sequence[str]) -> dict[str, Relation]:
        """The relations of these ids that exist, by id."""
        sources: dict[str, list[str]] = defaultdict(list)
        query = select(relation_sources).where(self._tables.mine(relation_sources))
        for row in self._tables.rows(query, relation_sources.c.relation, ids):
            sources[row.relation].append(row.passage)
        head, tail = aliased(entities), aliased(entities)
        named = (
            select(relations, head.c.name.label("head_name"), tail.c.name.label("tail_name"))
            .join(head, (head.c.namespace == relations.c.namespace) & (head.c.id == relations.c.head))
            .join(tail, (tail.c.namespace == relations.c.namespace) & (tail.c.id == relations.c.tail))
            .where(self._tables.mine(relations))
        )
        return {
            row.id: Relation(
                id=row.id,
                label=row.label,
                head=row.head,
                tail=row.tail,
                head_name=row.head_name,
                tail_name=row.tail_name,
                passages=tuple(sorted(sources[row.id])),
            )
            for row in self._tables.rows(named, relations.c.id, ids)
        }

    def sentence_texts(self, ids: Sequence[str]) -> dict[str, str]:
        """The sentences of these ids that exist, by id; see `sentence_id`."""
        wanted = set(ids)
        query = select(sentences).where(self._tables.mine(sentences))
        of_passages = sorted({key.rpartition("\n")[0] for key in ids})
        rows = self._tables.rows(query, sentences.c.passage, of_passages)
        found = ((f"{row.passage}\n{row.ordinal}", row.text) for row in rows)
        return {key: text for key, text in found if key in wanted}

    def named(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The ids, in order, of the entities of each name, whatever its case and its punctuation around it."""
        lowered = {name: normalised_name(name).lower() for name in names}
        ids: dict[str, list[str]] = defaultdict(list)
        query = select(entities.c.id, entities.c.lowered).where(self._tables.mine(entities))
        for row in self._tables.rows(query, entities.c.lowered, sorted(set(lowered.values()))):
            ids[row.lowered].append(row.id)
        return {name: sorted(ids.get(key, ())) for name, key in lowered.items()}

    def of_passages(self, passage_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The ids of each passage's entities, in order."""
        found: dict[str, set[str]] = {key: set() for key in passage_ids}
        query = select(mentions.c.entity, mentions.c.passage).where(self._tables.mine(mentions))
        for row in self._tables.rows(query, mentions.c.passage, list(found)):
            found[row.passage].add(row.entity)
        return {key: tuple(sorted(ids)) for key, ids in found.items()}

    def relations_of(self, entity: str) -> list[Relation]:
        """The relations that an entity is an end of, by id."""
        query = select(relations.c.id).where(
            self._tables.mine(relations), or_(relations.c.head == entity, relations.c.tail == entity)
        )
        found = self.relations([row.id for row in self._tables.connection.execute(query)])
        return [found[key] for key in sorted(found)]

    def iter_entities(self) -> Iterator[Entity]:
        """All entities, by id."""
        for some in portions(self._ids(entities)):
            found = self.entities(some)
            yield from (found[key] for key in some)

    def iter_relations(self) -> Iterator[Relation]:
        """All relations, by id."""
        for some in portions(self._ids(relations)):
            found = self.relations(some)
            yield from (found[key] for key in some)

    def iter_mentions(self) -> Iterator[Mention]:
        """All mentions, by entity, passage and sentence."""
        columns = mentions.c.entity, mentions.c.passage, mentions.c.sentence, mentions.c.count
        query = select(*columns).where(self._tables.mine(mentions)).order_by(*columns[:3])
        for row in self._tables.connection.execute(query.execution_options(yield_per=1000)):
            yield Mention(*row)

    def iter_names(self) -> Iterator[tuple[str, str, str]]:
        """Id, name and type of all entities, by id."""
        query = self._named().order_by(entities.c.id).execution_options(yield_per=1000)
        for row in self._tables.connection.execute(query):
            yield row.id, row.name, row.type

    def iter_attribute(self, key: str) -> Iterator[tuple[str, str]]:
        """The values that any entity has under `key`, with the passage that says so, by passage and value."""
        columns = attributes.c.passage, attributes.c.value
        query = select(*columns).where(self._tables.mine(attributes), attributes.c.key == key).order_by(*columns)
        for row in self._tables.connection.execute(query.execution_options(yield_per=1000)):
            yield row.passage, row.value

    def _named(self) -> Select[Any]:
        return select(entities.c.id, entities.c.name, entities.c.type).where(self._tables.mine(entities))

    def _ids(self, table: Table) -> list[str]:
        query = select(table.c.id).where(self._tables.mine(table)).order_by(table.c.id)
        return [row.id for row in self._tables.connection.execute(query)]

    def _facts(self, ids: Sequence[str]) -> dict[str, dict[str, tuple[str, ...]]]:
        """The distinct values of each key of each entity's attributes, sorted."""
        values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        query = select(attributes.c.entity, attributes.c.key, attributes.c.value).where(self._tables.mine(attributes))
        for row in self._tables.rows(query, attributes.c.entity, ids):
            values[row.entity][row.key].add(row.value)
        return {
            entity: {key: tuple(sorted(of_key)) for key, of_key in sorted(keys.items())}
            for entity, keys in values.items()
        }

    def _of_passages(self, table: Table, column: str, passage_ids: Sequence[str]) -> list[str]:
        query = select(table.c[column].label("key")).where(self._tables.mine(table)).distinct()
        return sorted({row.key for row in self._tables.rows(query, table.c.passage, passage_ids)})

    def _remove(self, kind: str, table: Table, sources: Table, ids: Sequence[str]) -> None:
        """Remove those that no passage is a source of any more."""
        query = select(sources.c[kind].label("key")).where(self._tables.mine(sources)).distinct()
        supported = {row.key for row in self._tables.rows(query, sources.c[kind], ids)}
        lost = [key for key in ids if key not in supported]
        self._tables.delete(table, table.c.id, lost)
        self._embeddings.drop(kind, lost)


def _state(passage: str, result: Extraction | ExtractionFailure) -> dict[str, object]:
    failed = isinstance(result, ExtractionFailure)
    reason = " ".join(result.reason.split()) if isinstance(result, ExtractionFailure) else ""
    return {"passage": passage, "state": FAILED if failed else DONE, "reason": reason}


def _distinct(rows: Sequence[Mapping[str, object]], column: str) -> list[str]:
    return sorted({str(row[column]) for row in rows})
