import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from small_parts import HashEncoder, WordExtractor

from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.embeddings import sentence_id
from hoptrail.corpus.extraction import ExtractedEntity, ExtractedRelation, Extraction, ExtractionFailure, ExtractionStop
from hoptrail.corpus.graph import entity_id, relation_id
from hoptrail.corpus.indexing import IndexReport, index
from hoptrail.corpus.merging import merged
from hoptrail.corpus.types import Passage
from hoptrail.errors import BudgetExceededError, CorpusMismatchError

TEXTS = {
    "a": "Ada Lovelace met Charles Babbage in 1833. She wrote to Charles Babbage.",
    "b": "Charles Babbage built the Difference Engine in 1822. It was never finished.",
    "c": "The Difference Engine stands in London.",
}
ADA, BABBAGE, ENGINE, LONDON = (
    entity_id(name, "NAME") for name in ("Ada Lovelace", "Charles Babbage", "Difference Engine", "London")
)


def put(folder: Path, texts: dict[str, str], extractor: WordExtractor | None = None) -> IndexReport:
    rows = [json.dumps({"id": key, "title": "", "text": text}) for key, text in texts.items()]
    (folder / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return index([folder / "rows.jsonl"], folder / "corpus", HashEncoder, extractor=extractor or WordExtractor())


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    report = put(tmp_path, TEXTS)
    assert (report.extracted, report.unextracted, report.stopped) == (3, 0, None)
    assert report.embedded == {"passage": 3, "entity": 7, "relation": 4, "sentence": 5}
    opened = Corpus.open(tmp_path / "corpus", HashEncoder)
    yield opened
    opened.close()


def test_entities_are_merged_over_passages(corpus: Corpus) -> None:
    babbage, nothing, engine = corpus.entities([BABBAGE]), corpus.entities(["no-such-id"]), corpus.entities([ENGINE])
    assert nothing == []
    assert (babbage[0].name, babbage[0].type, babbage[0].passages) == ("Charles Babbage", "NAME", ("a", "b"))
    assert babbage[0].attributes == {"year": ("1822", "1833")}
    assert engine[0].passages == ("b",)
    assert [e.id for e in corpus.entities([LONDON, "?", ADA])] == [LONDON, ADA]
    everything = list(corpus.iter_entities())
    assert [e.id for e in everything] == sorted(e.id for e in everything)
    assert len(everything) == 7
    assert corpus.entities_of(["c", "none"]) == {
        "c": tuple(sorted((LONDON, entity_id("The Difference Engine", "NAME")))),
        "none": (),
    }


def test_relations_are_directed_and_have_sources(corpus: Corpus) -> None:
    met = relation_id("met", ADA, BABBAGE)
    (relation,) = corpus.relations([met])
    assert (relation.head_name, relation.label, relation.tail_name) == ("Ada Lovelace", "met", "Charles Babbage")
    assert relation.passages == ("a",)
    assert relation.content == "Ada Lovelace met Charles Babbage"
    found = corpus.relations_of(BABBAGE)
    assert {r.content for r in found} == {
        "Ada Lovelace met Charles Babbage",
        "She wrote to Charles Babbage",
        "Charles Babbage built the Difference Engine",
    }
    assert [r.id for r in found] == sorted(r.id for r in found)
    assert [r.id for r in corpus.iter_relations()] == sorted(r.id for r in corpus.iter_relations())
    assert corpus.relations_of("none") == []


def test_mentions_say_where(corpus: Corpus) -> None:
    found = [tuple(m) for m in corpus.iter_mentions()]
    assert found == sorted(found)
    assert (BABBAGE, "a", 0, 1) in found
    assert (BABBAGE, "a", 1, 1) in found
    assert corpus.sentences([sentence_id("a", 1), sentence_id("b", 7), sentence_id("z", 0)]) == {
        "a\n1": "She wrote to Charles Babbage."
    }


def test_entities_by_name_in_any_case(corpus: Corpus) -> None:
    assert corpus.entities_named(["ADA lovelace!", "nobody", ""]) == {"ADA lovelace!": [ADA], "nobody": [], "": []}
    assert len(corpus.entities_named([f"name {i}" for i in range(2_000)])) == 2_000


@pytest.mark.parametrize(
    ("kind", "query", "best"),
    [
        ("passage", TEXTS["b"], "b"),
        ("entity", "London (NAME)", LONDON),
        ("relation", "Ada Lovelace met Charles Babbage", relation_id("met", ADA, BABBAGE)),
        ("sentence", "She wrote to Charles Babbage.", "a\n1"),
    ],
)
def test_every_kind_can_be_searched(corpus: Corpus, kind: str, query: str, best: str) -> None:
    found = corpus.search(kind, HashEncoder().encode([query])[0], 2)
    assert found[0] == (best, pytest.approx(1.0, abs=1e-5))
    assert len(found) == 2


def test_the_status_counts(corpus: Corpus) -> None:
    status = corpus.status()
    assert (status.documents, status.passages, status.sentences, status.entities, status.relations) == (3, 3, 5, 7, 4)
    assert (status.unextracted, status.unembedded, status.extractor, status.complete) == (0, 0, "words/v1", True)


def test_a_failed_passage_is_tried_again_and_blocks_nothing(tmp_path: Path) -> None:
    extractor = WordExtractor()
    extractor.failing = {"b"}
    report = put(tmp_path, TEXTS, extractor)
    assert (report.extracted, report.unextracted) == (2, 1)
    corpus = Corpus.open(tmp_path / "corpus", HashEncoder)
    assert corpus.status().unextracted == 1
    assert corpus.search("passage", HashEncoder().encode([TEXTS["b"]])[0], 1)[0][0] == "b"
    assert corpus.entities_of(["b"]) == {"b": ()}
    extractor.failing = set()
    report = put(tmp_path, TEXTS, extractor)
    assert (report.unchanged, report.extracted, report.unextracted) == (3, 1, 0)
    assert extractor.read == {"a": 1, "b": 2, "c": 1}
    assert corpus.status().unextracted == 0
    assert BABBAGE in corpus.entities_of(["b"])["b"]
    assert corpus.entities([BABBAGE])[0].attributes == {"year": ("1822", "1833")}
    # The vector is that of all its attributes.
    found = dict(corpus.search("entity", HashEncoder().encode([corpus.entities([BABBAGE])[0].content])[0], 6))
    assert found[BABBAGE] == pytest.approx(1.0, abs=1e-5)
    corpus.close()


class Stopping(WordExtractor):
    """Does not try the last passage."""

    def extract(self, passages: Sequence[Passage]) -> list[Extraction | ExtractionFailure | ExtractionStop]:  # type: ignore[override]
        stop = ExtractionStop(BudgetExceededError("cost", cap=1, used=1, asked=1))
        return [*super().extract(passages[:-1]), stop]


def test_a_stop_keeps_what_was_done(tmp_path: Path) -> None:
    report = put(tmp_path, TEXTS, Stopping())
    assert isinstance(report.stopped, BudgetExceededError)
    assert (report.extracted, report.unextracted) == (2, 0)
    extractor = WordExtractor()
    assert put(tmp_path, TEXTS, extractor).extracted == 1
    assert list(extractor.read) == ["c"]


def test_another_extractor_is_refused_with_both_names(tmp_path: Path) -> None:
    put(tmp_path, TEXTS)
    other = WordExtractor()
    other.name = "words/v2"
    with pytest.raises(CorpusMismatchError, match=r"extractor 'words/v1'.*'words/v2'"):
        put(tmp_path, TEXTS, other)
    with pytest.raises(CorpusMismatchError, match=r"extractor 'words/v1'.*'none'"):
        index([tmp_path / "rows.jsonl"], tmp_path / "corpus", HashEncoder)


def test_a_changed_document_takes_with_it_what_only_it_said(corpus: Corpus, tmp_path: Path) -> None:
    extractor = WordExtractor()
    put(tmp_path, {"a": "Ada Lovelace died in 1852.", "b": TEXTS["b"]}, extractor)
    assert list(extractor.read) == ["a"]
    assert corpus.relations([relation_id("met", ADA, BABBAGE)]) == []
    assert corpus.entities([ADA])[0].attributes == {"year": ("1852",)}
    assert corpus.entities([BABBAGE])[0].attributes == {"year": ("1822",)}
    assert corpus.entities_named(["She"]) == {"She": []}
    for kind, entity in (("entity", ADA), ("entity", BABBAGE)):
        content = corpus.entities([entity])[0].content
        assert corpus.search(kind, HashEncoder().encode([content])[0], 1)[0] == (entity, pytest.approx(1, abs=1e-5))
    assert corpus.status().unembedded == 0


def test_names_are_merged_after_they_are_made_plain() -> None:
    found = Extraction(
        sentences=("One.", "  ", "Three\x00\ud800."),
        entities=(
            ExtractedEntity(name=" \u201cAnne\u2019s  House\u201d,", type="PLACE", mentions=(0, 0, 2, 9)),
            ExtractedEntity(
                name="Anne's House", type="PLACE", attributes=(("Kind", "inn"), ("Kind", " inn "), ("", "x"))
            ),
            ExtractedEntity(name="anne's house", type="PLACE"),
            ExtractedEntity(name="...", type="PLACE"),
            ExtractedEntity(name="x" * 501, type="PLACE"),
        ),
        relations=(
            ExtractedRelation(label="near", head=("Anne's House", "PLACE"), tail=("anne's house", "PLACE")),
            ExtractedRelation(label=" near.", head=("\u201cAnne's House", "PLACE"), tail=("anne's house", "PLACE")),
            ExtractedRelation(label="near", head=("anne's house", "PLACE"), tail=("Anne's House", "PLACE")),
            ExtractedRelation(label="--", head=("Anne's House", "PLACE"), tail=("anne's house", "PLACE")),
            ExtractedRelation(label="near", head=("Anne's House", "PLACE"), tail=("Nowhere", "PLACE")),
        ),
    )
    rows = merged([("p", found)])
    assert [e["name"] for e in rows.entities.values()] == ["Anne's House", "anne's house"]
    assert [(s["ordinal"], s["text"]) for s in rows.sentences] == [(0, "One."), (2, "Three \ufffd.")]
    assert [(m["sentence"], m["count"]) for m in rows.mentions] == [(0, 2), (2, 1), (-1, 1)]
    assert [(a["key"], a["value"]) for a in rows.attributes] == [("Kind", "inn")]
    assert [r["label"] for r in rows.relations.values()] == ["near", "near"]
    assert len(rows.relation_sources) == 2


def test_a_corpus_of_the_first_version_keeps_its_vectors(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    vectors = HashEncoder().encode(list(TEXTS.values()))
    with sqlite3.connect(tmp_path / "corpus" / "corpus.sqlite3") as raw:
        raw.executescript(FIRST_VERSION)
        for (key, text), vector in zip(TEXTS.items(), vectors, strict=True):
            raw.execute("INSERT INTO documents VALUES ('default', ?, '', '', 'old')", (key,))
            raw.execute("INSERT INTO passages VALUES ('default', ?, ?, 0, '', ?)", (key, key, text))
            raw.execute("INSERT INTO vectors VALUES ('default', ?, ?)", (key, vector.astype("<f4").tobytes()))
    raw.close()
    corpus = Corpus.open(tmp_path / "corpus", HashEncoder)
    assert corpus.status().unembedded == 0
    assert corpus.search("passage", vectors[1], 1) == [("b", pytest.approx(1, abs=1e-5))]
    assert len(corpus.search("passage", vectors[0], 9)) == 3
    # The digests of documents are others, but the passages are the same: their vectors stay.
    report = put(tmp_path, TEXTS)
    assert (report.updated, report.embedded["passage"], report.extracted) == (3, 0, 3)
    assert corpus.status().extractor == "words/v1"
    corpus.close()


FIRST_VERSION = """
CREATE TABLE manifest (namespace VARCHAR(200) NOT NULL, key VARCHAR(100) NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (namespace, key));
CREATE TABLE documents (namespace VARCHAR(200) NOT NULL, id TEXT NOT NULL, title TEXT NOT NULL, source TEXT NOT NULL,
    digest VARCHAR(64) NOT NULL, PRIMARY KEY (namespace, id));
CREATE TABLE passages (namespace VARCHAR(200) NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL,
    ordinal INTEGER NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (namespace, id),
    FOREIGN KEY (namespace, document) REFERENCES documents (namespace, id) ON DELETE CASCADE);
CREATE INDEX passages_by_document ON passages (namespace, document);
CREATE TABLE vectors (namespace VARCHAR(200) NOT NULL, passage TEXT NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (namespace, passage),
    FOREIGN KEY (namespace, passage) REFERENCES passages (namespace, id) ON DELETE CASCADE);
INSERT INTO manifest VALUES ('', 'format', '1'), ('default', 'chunking', 'sentences-1000/rows-6000/v1'),
    ('default', 'embedding_model', 'hashed-words'), ('default', 'normalisation', 'L2'), ('default', 'dimension', '32'),
    ('default', 'revision', '7'), ('default', 'settled', '7');
"""
