"""From what an extractor found in passages to rows of the merged graph (ConRAG's Connection, section 3.1).

The rows of a passage follow from that passage alone, so that the graph is the same in whatever order they are added.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hoptrail.corpus.extraction import ExtractedEntity, Extraction
from hoptrail.corpus.graph import entity_id, normalised_name, relation_id
from hoptrail.corpus.text import clean

__all__ = ["GraphRows", "merged"]

LONGEST_NAME = 500
"""Longer names and labels, in characters, are taken for an extractor's mistake and left out."""

UNKNOWN_SENTENCE = -1


@dataclass
class GraphRows:
    """Rows of the tables of the graph, without the namespace."""

    sentences: list[dict[str, object]] = field(default_factory=list)
    entities: dict[str, dict[str, object]] = field(default_factory=dict)
    mentions: list[dict[str, object]] = field(default_factory=list)
    attributes: list[dict[str, object]] = field(default_factory=list)
    relations: dict[str, dict[str, object]] = field(default_factory=dict)
    relation_sources: list[dict[str, object]] = field(default_factory=list)


def merged(found: Iterable[tuple[str, Extraction]]) -> GraphRows:
    """The rows of what was found in passages, given by id.

    Entities without a name, and relations without a label or between others than the passage's entities, are left out.
    """
    rows = GraphRows()
    for passage, extraction in found:
        texts = [clean(text) for text in extraction.sentences]
        rows.sentences += [
            {"passage": passage, "ordinal": ordinal, "text": text} for ordinal, text in enumerate(texts) if text
        ]
        here = _add_entities(rows, passage, extraction, len(texts))
        _add_relations(rows, passage, extraction, here)
    return rows


def _add_entities(rows: GraphRows, passage: str, extraction: Extraction, sentences: int) -> set[str]:
    mentions: dict[str, Counter[int]] = {}
    facts: dict[tuple[str, str], dict[str, object]] = {}
    for entity in extraction.entities:
        key = _key(entity.name, entity.type)
        if key is None:
            continue
        identity, name, kind = key
        rows.entities[identity] = {"id": identity, "name": name, "lowered": name.lower(), "type": kind}
        mentions.setdefault(identity, Counter()).update(m for m in entity.mentions if 0 <= m < sentences)
        for digest, pair in _attributes(entity):
            facts[identity, digest] = {"entity": identity, "passage": passage, "digest": digest, **pair}
    for identity, counts in mentions.items():
        rows.mentions += [
            {"entity": identity, "passage": passage, "sentence": sentence, "count": count}
            for sentence, count in sorted(counts.items()) or [(UNKNOWN_SENTENCE, 1)]
        ]
    rows.attributes += facts.values()
    return set(mentions)


def _add_relations(rows: GraphRows, passage: str, extraction: Extraction, here: set[str]) -> None:
    sources: set[str] = set()
    for relation in extraction.relations:
        head, tail = _key(*relation.head), _key(*relation.tail)
        label = normalised_name(clean(relation.label))
        if head is None or tail is None or not {head[0], tail[0]} <= here or not 0 < len(label) <= LONGEST_NAME:
            continue
        identity = relation_id(label, head[0], tail[0])
        rows.relations[identity] = {"id": identity, "label": label, "head": head[0], "tail": tail[0]}
        sources.add(identity)
    rows.relation_sources += [{"relation": identity, "passage": passage} for identity in sorted(sources)]


def _key(name: str, kind: str) -> tuple[str, str, str] | None:
    """Id, name and type of the merged entity, or `None` where there is no usable name."""
    plain, of_kind = normalised_name(clean(name)), " ".join(clean(kind).split())
    if not 0 < len(plain) <= LONGEST_NAME:
        return None
    return entity_id(plain, of_kind), plain, of_kind


def _attributes(entity: ExtractedEntity) -> Iterable[tuple[str, dict[str, object]]]:
    for key, value in entity.attributes:
        plain = " ".join(clean(key).split()), " ".join(clean(value).split())
        if all(plain):
            yield hashlib.sha256("\0".join(plain).encode()).hexdigest(), {"key": plain[0], "value": plain[1]}
