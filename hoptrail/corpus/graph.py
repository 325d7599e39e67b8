"""Entities and relations as merged over all passages (ConRAG's Connection, section 3.1)."""

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Entity", "Relation", "entity_id", "link_name", "normalised_name", "relation_id"]

_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63-"), "-")
_SINGLE = dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u2032\u02bc`\u00b4"), "'")
_DOUBLE = dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"), '"')
_STANDARD = {**_DASHES, **_SINGLE, **_DOUBLE}
_ID_CHARS = 32


def normalised_name(text: str) -> str:
    """`text` in NFKC, with plain dashes and quotes, single spaces and no punctuation around it; its case is kept."""
    plain = " ".join(unicodedata.normalize("NFKC", text.translate(_STANDARD)).translate(_STANDARD).split())
    start, end = 0, len(plain)
    while start < end and _around(plain[start]):
        start += 1
    while end > start and _around(plain[end - 1]):
        end -= 1
    return plain[start:end]


def link_name(text: str) -> str:
    """What two names of the same thing share, whatever its type: a normalised name without case and leading article."""
    return normalised_name(text).casefold().removeprefix("the ")


def entity_id(name: str, kind: str) -> str:
    """The merge key of an entity, from its normalised name and its type."""
    return _digest(name, kind)


def relation_id(label: str, head: str, tail: str) -> str:
    """The merge key of a relation, from its normalised label and the ids of its ordered ends."""
    return _digest(label, head, tail)


@dataclass(frozen=True)
class Entity:
    """A merged entity.

    `attributes` holds the distinct values under each key, sorted; `passages` the ids of those it was extracted from, sorted.
    """

    id: str
    name: str
    type: str
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    passages: tuple[str, ...] = ()

    @property
    def content(self) -> str:
        """What is embedded: the name, its type, and its attributes."""
        facts = "; ".join(f"{key}: {', '.join(values)}" for key, values in sorted(self.attributes.items()))
        return f"{self.name} ({self.type}){'; ' if facts else ''}{facts}"


@dataclass(frozen=True)
class Relation:
    """A merged relation; `head` and `tail` are the ends' ids, `passages` the ids of those it was extracted from, sorted."""

    id: str
    label: str
    head: str
    tail: str
    head_name: str
    tail_name: str
    passages: tuple[str, ...] = ()

    @property
    def content(self) -> str:
        """What is embedded: the triple as a phrase."""
        return f"{self.head_name} {self.label} {self.tail_name}"


def _around(char: str) -> bool:
    return char.isspace() or unicodedata.category(char)[0] == "P"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_ID_CHARS]
