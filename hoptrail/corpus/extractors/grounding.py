"""From what a model wrote about a passage to what the passage supports.

A name counts only where the passage's title or text holds it, as whole words and in whatever case, and is spelt as it stands
there: a model that invents or translates names must not add to the graph. What a relation joins is held to the same rule.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hoptrail.corpus.extraction import ExtractedEntity, ExtractedRelation, Extraction
from hoptrail.corpus.graph import normalised_name
from hoptrail.corpus.text import clean
from hoptrail.corpus.types import Passage
from hoptrail.prompts.extraction import EntityOutput, ExtractionOutput, RelationOutput

__all__ = ["UNKNOWN_TYPE", "Schema", "grounded"]

UNKNOWN_TYPE = "unknown"

_MOST = 100
"""Entities, and relations, of one passage; more than any prompt asks for."""

_LONGEST = 200
_UNSPACED = 0x0E00
"""From Thai on, most scripts put no spaces between words, so a name may stand anywhere."""


@dataclass(frozen=True)
class Schema:
    """The only types and labels allowed; empty allows any."""

    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def type_of(self, written: str) -> str | None:
        """The type that is meant, in the schema's spelling; `None` if it is not allowed."""
        return _allowed(written, self.types) if self.types else _plain(written).lower() or UNKNOWN_TYPE

    def label_of(self, written: str) -> str | None:
        """The label that is meant, likewise."""
        return _allowed(written, self.labels) if self.labels else _plain(written) or None


@dataclass
class _Text:
    """A passage's title, text and sentences, ready to be searched for names."""

    whole: str
    sentences: tuple[str, ...]

    def spelling(self, name: str) -> str | None:
        """`name` as it is written here, in the same case of letters if it is; `None` where it is not."""
        found = _pattern(name).search(self.whole) or _pattern(name, re.IGNORECASE).search(self.whole)
        return normalised_name(found[0]) if found else None

    def mentions(self, name: str) -> tuple[int, ...]:
        """The sentence of each mention; in the same case only, as "US" is not "us"."""
        pattern = _pattern(name)
        return tuple(n for n, text in enumerate(self.sentences) for _ in pattern.finditer(text))


@dataclass
class _Found:
    """The entities so far: attributes by name and type, and the entity that a name means in any case of letters."""

    entities: dict[tuple[str, str], dict[tuple[str, str], None]] = field(default_factory=dict)
    meant: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, key: tuple[str, str]) -> dict[tuple[str, str], None]:
        self.meant.setdefault(key[0].casefold(), key)
        return self.entities.setdefault(key, {})


def grounded(output: ExtractionOutput, passage: Passage, sentences: Sequence[str], schema: Schema) -> Extraction:
    """What of `output` the passage supports.

    An end of a relation that is no entity, but stands in the passage, becomes one of type "unknown" where any type is
    allowed; other relations without both ends are left out.
    """
    text = _Text(_search_form(f"{passage.title}\n{passage.text}"), tuple(map(_search_form, sentences)))
    found = _Found()
    for entity in output.entities[:_MOST]:
        _add_entity(found, entity, text, schema)
    relations = dict.fromkeys(
        relation for written in output.relations[:_MOST] if (relation := _relation(found, written, text, schema))
    )
    entities = tuple(
        ExtractedEntity(name=name, type=kind, attributes=tuple(facts), mentions=text.mentions(name))
        for (name, kind), facts in found.entities.items()
    )
    return Extraction(sentences=tuple(sentences), entities=entities, relations=tuple(relations))


def _add_entity(found: _Found, entity: EntityOutput, text: _Text, schema: Schema) -> None:
    name, kind = _name(entity.name, text), schema.type_of(entity.type)
    if name is None or kind is None:
        return
    facts = found.add((name, kind))
    for attribute in entity.attributes:
        pair = _plain(attribute.key).lower(), " ".join(clean(attribute.value).split())
        if all(pair) and max(map(len, pair)) <= _LONGEST:
            facts[pair] = None


def _relation(found: _Found, written: RelationOutput, text: _Text, schema: Schema) -> ExtractedRelation | None:
    label = schema.label_of(written.label)
    if label is None or len(label) > _LONGEST:
        return None
    head, tail = (_end(found, name, text, schema) for name in (written.head, written.tail))
    if head is None or tail is None or head == tail:
        return None
    for end in (head, tail):
        found.add(end)
    return ExtractedRelation(label=label, head=head, tail=tail)


def _end(found: _Found, written: str, text: _Text, schema: Schema) -> tuple[str, str] | None:
    name = _name(written, text)
    if name is None:
        return None
    return found.meant.get(name.casefold()) or (None if schema.types else (name, UNKNOWN_TYPE))


def _name(written: str, text: _Text) -> str | None:
    """The name as the passage writes it, if it does."""
    name = normalised_name(clean(written))
    return text.spelling(name) if 0 < len(name) <= _LONGEST else None


def _allowed(written: str, names: Sequence[str]) -> str | None:
    return next((name for name in names if _plain(name).lower() == _plain(written).lower()), None)


def _plain(text: str) -> str:
    """A type, label or key as words: models write `born_in` for `born in`."""
    return normalised_name(clean(text).replace("_", " "))


def _search_form(text: str) -> str:
    return normalised_name(clean(text))


def _pattern(name: str, flags: int = 0) -> re.Pattern[str]:
    before = r"(?<!\w)" if _spaced(name[0]) else ""
    after = r"(?!\w)" if _spaced(name[-1]) else ""
    return re.compile(before + re.escape(name) + after, flags)


def _spaced(char: str) -> bool:
    return char.isalnum() and ord(char) < _UNSPACED
