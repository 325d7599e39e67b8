"""Extract the entities and relations of one passage (ConRAG's Connection, section 3.1), open or guided by a schema."""

import copy
import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hoptrail.prompts.base import Block, Example, Prompt, Rendered

__all__ = [
    "EXTRACTION",
    "AttributeOutput",
    "EntityOutput",
    "ExtractionOutput",
    "RelationOutput",
    "render_extraction",
]


def _usable_items(kind: type[BaseModel]) -> BeforeValidator:
    """Keeps the items of a list that are in form: one bad item must not cost the others."""

    def keep(items: Any) -> Any:
        if not isinstance(items, list):
            return items
        kept = [item for item in items if _fits(kind, item)]
        if items and not kept:
            raise ValueError("none of the items is in form")
        return kept

    return BeforeValidator(keep)


def _fits(kind: type[BaseModel], item: Any) -> bool:
    try:
        kind.model_validate(item)
    except ValidationError:
        return False
    return True


def _pairs(value: Any) -> Any:
    """Attributes that were written as one object, as pairs."""
    if isinstance(value, dict):
        return [{"key": key, "value": str(each)} for key, each in value.items()]
    return value or []


class AttributeOutput(BaseModel):
    """One thing that the passage says of an entity."""

    model_config = ConfigDict(extra="ignore")

    key: str
    value: str


class EntityOutput(BaseModel):
    """An entity as the model names it."""

    model_config = ConfigDict(extra="ignore")

    name: str
    type: str
    attributes: Annotated[list[AttributeOutput], _usable_items(AttributeOutput), BeforeValidator(_pairs)] = Field(
        default_factory=list
    )


class RelationOutput(BaseModel):
    """A directed relation between two entities, each given by its name."""

    model_config = ConfigDict(extra="ignore")

    head: str
    label: str
    tail: str


class ExtractionOutput(BaseModel):
    """Entities and relations as written; names are compared with the passage by the extractor."""

    model_config = ConfigDict(extra="ignore")

    entities: Annotated[list[EntityOutput], _usable_items(EntityOutput)]
    relations: Annotated[list[RelationOutput], _usable_items(RelationOutput)] = Field(default_factory=list)


_ATTRIBUTE = {
    "type": "object",
    "properties": {"key": {"type": "string", "maxLength": 40}, "value": {"type": "string", "maxLength": 120}},
    "required": ["key", "value"],
    "additionalProperties": False,
}
_ENTITY = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 120},
        "type": {"type": "string", "maxLength": 40},
        "attributes": {"type": "array", "maxItems": 4, "items": _ATTRIBUTE},
    },
    "required": ["name", "type", "attributes"],
    "additionalProperties": False,
}
_RELATION = {
    "type": "object",
    "properties": {
        "head": {"type": "string", "maxLength": 120},
        "label": {"type": "string", "maxLength": 60},
        "tail": {"type": "string", "maxLength": 120},
    },
    "required": ["head", "label", "tail"],
    "additionalProperties": False,
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "entities": {"type": "array", "maxItems": 30, "items": _ENTITY},
        "relations": {"type": "array", "maxItems": 30, "items": _RELATION},
    },
    "required": ["entities", "relations"],
    "additionalProperties": False,
}

_INSTRUCTIONS = """\
You read one passage and write down which things it names and what it says about them.

Give two things:
- entities: the people, organisations, places, works, events, dates and other things that the passage names. Each has
  - name: as the passage or its title writes it, in the fullest form found there; never a pronoun or a description;
  - type: what it is, in one or two lower-case words, such as person, organisation, place, film, event, date;
  - attributes: what the passage says of it that names no other entity, each a key and a value, such as occupation and
    painter; an empty list if nothing.
- relations: the facts that join two of these entities. Each has
  - head: the name of the entity that the fact is about;
  - label: a short phrase that reads from head to tail, such as "was born in", "is married to", "directed";
  - tail: the name of the other entity.

Write only what the passage says, not what you know from elsewhere. Where it says "he", "the film" and the like, use the name
that is meant. The title tells what the passage is mostly about. Every head and tail is the name of one of your entities.
Where a block lists types, every entity is of one of them, and things of other types are left out; where a block lists labels,
every relation has one of them, and other facts are left out. A passage that names nothing gets two empty lists."""


def _blocks(title: str, text: str) -> list[Block]:
    return [*([Block("title", title)] if title else []), Block("passage", text)]


def _entity(name: str, kind: str, **attributes: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "attributes": [{"key": k, "value": v} for k, v in attributes.items()]}


def _relation(head: str, label: str, tail: str) -> dict[str, str]:
    return {"head": head, "label": label, "tail": tail}


EXTRACTION = Prompt(
    name="extraction",
    version="1",
    instructions=_INSTRUCTIONS,
    output=ExtractionOutput,
    schema=_SCHEMA,
    examples=(
        Example(
            tuple(
                _blocks(
                    "Ilse Brandvold",
                    "Ilse Brandvold (born 4 May 1951 in Voss) is a Norwegian folk singer. Her second album, Harbour "
                    "Lights, was produced by her husband Jon Aasen.",
                )
            ),
            json.dumps(
                {
                    "entities": [
                        _entity("Ilse Brandvold", "person", occupation="folk singer", nationality="Norwegian"),
                        _entity("4 May 1951", "date"),
                        _entity("Voss", "place"),
                        _entity("Harbour Lights", "album"),
                        _entity("Jon Aasen", "person"),
                    ],
                    "relations": [
                        _relation("Ilse Brandvold", "was born on", "4 May 1951"),
                        _relation("Ilse Brandvold", "was born in", "Voss"),
                        _relation("Harbour Lights", "is an album by", "Ilse Brandvold"),
                        _relation("Harbour Lights", "was produced by", "Jon Aasen"),
                        _relation("Ilse Brandvold", "is married to", "Jon Aasen"),
                    ],
                }
            ),
        ),
        Example(
            tuple(_blocks("", "Cover the pot, let it simmer until soft, then strain and serve.")),
            '{"entities": [], "relations": []}',
        ),
    ),
)


def render_extraction(
    title: str, text: str, *, types: Sequence[str] = (), labels: Sequence[str] = (), guided: bool
) -> Rendered[ExtractionOutput]:
    """The request for one passage; `types` and `labels` are the only ones allowed, empty allows any."""
    blocks = _blocks(title, text)
    schema = EXTRACTION.schema
    if types or labels:
        schema = copy.deepcopy(schema)
        parts = schema["properties"]
        if types:
            blocks.append(Block("types", "\n".join(types)))
            parts["entities"]["items"]["properties"]["type"] = {"type": "string", "enum": list(types)}
        if labels:
            blocks.append(Block("labels", "\n".join(labels)))
            parts["relations"]["items"]["properties"]["label"] = {"type": "string", "enum": list(labels)}
    return EXTRACTION.render(blocks, guided=guided, schema=schema)
