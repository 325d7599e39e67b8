"""What a model wrote, held against the passage."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrail.corpus.extraction import Extraction
from hoptrail.corpus.extractors.grounding import Schema, grounded
from hoptrail.corpus.types import Passage
from hoptrail.prompts.extraction import EXTRACTION, ExtractionOutput

TEXT = "Ilse Brandvold sang in Voss. “Harbour\u2013Lights” was hers; the US heard of it, and so did us."
SENTENCES = (TEXT[:28], TEXT[29:])


def ground(
    *names: str | tuple[str, str],
    relations: tuple[tuple[str, str, str], ...] = (),
    text: str = TEXT,
    title: str = "Jon Aasen",
    schema: Schema | None = None,
) -> Extraction:
    pairs = [(name, "thing") if isinstance(name, str) else name for name in names]
    output = ExtractionOutput.model_validate(
        {
            "entities": [{"name": name, "type": kind, "attributes": []} for name, kind in pairs],
            "relations": [{"head": h, "label": label, "tail": t} for h, label, t in relations],
        }
    )
    passage = Passage(id="p", document="p", ordinal=0, title=title, text=text)
    return grounded(output, passage, SENTENCES if text == TEXT else (), schema or Schema())


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("Ilse Brandvold", "Ilse Brandvold"),
        ("ilse  brandvold", "Ilse Brandvold"),
        ('"Harbour-Lights"', "Harbour-Lights"),
        ("Jon Aasen", "Jon Aasen"),
        ("US", "US"),
        ("Brand", None),
        ("Oslo", None),
        ("", None),
        ("…", None),
        ("x" * 300, None),
        ("\x00\ud800", None),
    ],
)
def test_a_name_counts_where_the_passage_holds_it_and_as_it_is_spelt_there(written: str, kept: str | None) -> None:
    assert [e.name for e in ground(written).entities] == ([kept] if kept else [])


def test_mentions_are_counted_by_sentence_and_case() -> None:
    found = ground("Ilse Brandvold", "US", "us", "Jon Aasen")
    assert [e.mentions for e in found.entities] == [(0,), (1,), (1,), ()]


def test_scripts_without_spaces_are_searched_anywhere() -> None:
    assert [e.name for e in ground("北京", text="他住在北京的郊外。").entities] == ["北京"]
    assert ground("Rom", text="Romeo").entities == ()


def test_an_end_that_is_no_entity_is_added_or_the_relation_is_left_out() -> None:
    found = ground(
        ("Ilse Brandvold", "Person"),
        relations=(
            ("ILSE BRANDVOLD", "sang in", "voss"),
            ("Ilse Brandvold", "sang in", "Voss"),
            ("Ilse Brandvold", "lives in", "Oslo"),
            ("Ilse Brandvold", "is", "Ilse Brandvold"),
            ("Ilse Brandvold", " ", "US"),
        ),
    )
    assert [(e.name, e.type) for e in found.entities] == [("Ilse Brandvold", "person"), ("Voss", "unknown")]
    assert [(r.head, r.label, r.tail) for r in found.relations] == [
        (("Ilse Brandvold", "person"), "sang in", ("Voss", "unknown"))
    ]


def test_a_schema_is_closed_and_gives_the_spelling() -> None:
    schema = Schema(types=("Person", "Town"), labels=("lives_in",))
    found = ground(
        ("Ilse Brandvold", "person"),
        ("Voss", " TOWN"),
        ("US", "country"),
        relations=(
            ("Ilse Brandvold", "Lives in", "Voss"),
            ("Ilse Brandvold", "sang in", "Voss"),
            ("US", "lives_in", "Voss"),
        ),
        schema=schema,
    )
    assert [(e.name, e.type) for e in found.entities] == [("Ilse Brandvold", "Person"), ("Voss", "Town")]
    assert [(r.head[0], r.label, r.tail[0]) for r in found.relations] == [("Ilse Brandvold", "lives_in", "Voss")]


def test_attributes_of_one_entity_are_joined() -> None:
    output = ExtractionOutput.model_validate(
        {
            "entities": [
                {"name": "Voss", "type": "town", "attributes": {"Part_of": "Norway", "empty": ""}},
                {
                    "name": "voss",
                    "type": "Town",
                    "attributes": [{"key": "size", "value": 3}, {"key": "size", "value": " small\n"}],
                },
                {"name": "Voss", "type": "town"},
            ]
        }
    )
    (found,) = grounded(output, Passage(id="p", document="p", ordinal=0, title="", text=TEXT), (), Schema()).entities
    assert found.attributes == (("part of", "Norway"), ("size", "small"))


@given(st.text(max_size=80), st.lists(st.text(max_size=12), max_size=6), st.text(max_size=8))
def test_any_text_is_taken_and_every_end_is_an_entity(text: str, names: list[str], label: str) -> None:
    found = ground(
        *names, *text.split(), relations=tuple((a, label, b) for a in names for b in text.split()[:3]), text=text
    )
    keys = {(e.name, e.type) for e in found.entities}
    assert len(keys) == len(found.entities)
    assert {end for r in found.relations for end in (r.head, r.tail)} <= keys


def test_the_examples_are_supported_by_their_passages() -> None:
    for example in EXTRACTION.examples:
        blocks: Any = {block.kind: block.text for block in example.blocks}
        output = ExtractionOutput.model_validate_json(example.output)
        passage = Passage(id="p", document="p", ordinal=0, title=blocks.get("title", ""), text=blocks["passage"])
        found = grounded(output, passage, (), Schema())
        assert (len(found.entities), len(found.relations)) == (len(output.entities), len(output.relations))
