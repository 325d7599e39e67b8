"""The link index against the rows it is built from, the names in a query, and the bridge view."""

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.extraction import ExtractedEntity, Extraction, Extractor
from hoptrail.corpus.graph import link_name
from hoptrail.corpus.indexing import index
from hoptrail.corpus.links import Links, titles_of
from hoptrail.corpus.types import Passage
from hoptrail.models.base import Embedder
from hoptrail.tools.bridge import bridge_scores
from hoptrail.tools.consensus import ConsensusTool
from hoptrail.tools.names import names_in
from hoptrail.tools.views import Views


@pytest.fixture(scope="module")
def links(graph_corpus: Corpus) -> Links:
    return Views(graph_corpus, hits=16).links()


def test_titles() -> None:
    assert set(titles_of("The Emu (beer)")) == {"emu (beer", "emu"}
    assert set(titles_of("Springfield, Illinois")) == {"springfield, illinois", "springfield"}
    assert list(titles_of("()")) == []


def test_it_holds_what_the_rows_say(graph_corpus: Corpus, links: Links) -> None:
    kinds = {entity.id: entity for entity in graph_corpus.iter_entities()}
    expected: dict[str, set[str]] = defaultdict(set)
    for mention in graph_corpus.iter_mentions():
        entity = kinds[mention.entity]
        if entity.type != "DATE":
            expected[link_name(entity.name)].add(mention.passage)
    for passage in graph_corpus.iter_passages():
        for name in titles_of(passage.title):
            expected[name].add(passage.id)
    for entity in kinds.values():
        for alias in entity.attributes.get("also", ()):
            expected[link_name(alias)] |= set(entity.passages)
    numbers = links.find(list(expected))
    assert numbers.keys() == expected.keys()
    for name, number in numbers.items():
        assert {links.ids[i] for i in links.mentions.of(number)} == expected[name], name
    assert len(links.hashes) == len(expected)


def test_its_two_ways_agree(links: Links) -> None:
    forth = {(row, int(column)) for row in range(len(links.ids)) for column in links.names.of(row)}
    back = {(int(column), row) for row in range(len(links.hashes)) for column in links.mentions.of(row)}
    assert forth == back
    titled = {(int(c), row) for row in range(len(links.hashes)) for c in links.titles.of(row)}
    assert titled <= forth


def test_vectors_are_the_passages(graph_corpus: Corpus, links: Links) -> None:
    vector = graph_corpus.encode_query("Which river is it?")
    found = dict(graph_corpus.search("passage", vector, 50))
    by_links = dict(zip(links.ids, links.vectors @ vector, strict=True))
    assert found == pytest.approx(by_links, abs=2e-6)


KNOWN = {"The Emu", "Western Australia", "Emu", "Perth", "Emma of Austria's"}


def find(names: list[str]) -> dict[str, str]:
    return {name: name for name in names if name in KNOWN}


def test_the_longest_names_are_taken_and_none_twice() -> None:
    assert names_in("Who brews The Emu in Western Australia?", find) == ["The Emu", "Western Australia"]
    assert names_in("", find) == []


def test_possessives_and_lone_words() -> None:
    assert names_in("What is Perth's river?", find) == ["Perth"]
    assert names_in("What is perth like?", find) == []
    assert names_in("Perth is what?", find) == []


def test_names_of_the_corpus_are_found(links: Links, mini: Path) -> None:
    questions = [json.loads(line) for line in mini.with_suffix(".questions.jsonl").read_text().splitlines()]
    assert sum(bool(names_in(question["question"], links.find)) for question in questions) >= 5


class Named:
    """Names what a passage's text lists between bars."""

    name = "bars/v1"

    def extract(self, passages: list[Passage]) -> list[Extraction]:
        return [
            Extraction(entities=tuple(ExtractedEntity(name=n, type="THING") for n in p.text.split("|")[1:-1]))
            for p in passages
        ]

    def close(self) -> None:
        pass


def built(rows: list[tuple[str, str]], tmp_path: Path, encoder: Callable[[], Embedder]) -> Corpus:
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(json.dumps({"id": t.lower(), "title": t, "text": x}) for t, x in rows))
    extractor = Named()
    assert isinstance(extractor, Extractor)
    index([source], tmp_path / "c", encoder, extractor=extractor)
    return Corpus.open(tmp_path / "c", encoder)


def test_a_name_leads_to_its_passage_and_less_to_those_that_mention_it(
    tmp_path: Path, encoder: Callable[[], Embedder]
) -> None:
    corpus = built(
        [
            ("Film", "A film by |Anna Bell|."),
            ("Anna Bell", "She was born."),
            ("Other", "Also |Anna Bell|."),
            ("Far", "No."),
        ],
        tmp_path,
        encoder,
    )
    links = Views(corpus, hits=4).links()
    vector = corpus.encode_query("film")
    scores = bridge_scores(links, vector, {"film": 1.0}, [])
    assert scores["anna bell"] == 1.0
    assert scores["other"] < 1.0
    assert scores.keys() == {"anna bell", "other"}
    asked = names_in("Who is Anna Bell?", links.find)
    assert len(asked) == 1
    assert bridge_scores(links, vector, {"film": 1.0}, asked) == {}
    assert bridge_scores(links, vector, {}, []) == {}
    assert bridge_scores(links, vector, {"gone": 1.0}, []) == {}
    corpus.close()


async def test_a_corpus_without_passages_or_names_is_searched_all_the_same(
    tmp_path: Path, encoder: Callable[[], Embedder]
) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    index([tmp_path / "empty.jsonl"], tmp_path / "c", encoder, extractor=Named())
    corpus = Corpus.open(tmp_path / "c", encoder)
    assert (await ConsensusTool(corpus, Settings()).retrieve("Anna Bell", k=3)).hits == ()
    assert np.size(Views(corpus, hits=4).links().hashes) == 0
    corpus.close()
    (tmp_path / "d").mkdir()
    plain = built([("Sea", "water")], tmp_path / "d", encoder)
    assert [hit.text for hit in (await ConsensusTool(plain, Settings()).retrieve("a sea", k=3)).hits] == ["water"]
    plain.close()
