"""Whatever is added, changed and deleted, in whatever order: the corpus is that of a build from nothing."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import servers
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from small_parts import HashEncoder, WordExtractor

from hoptrail.corpus import phases
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.deleting import delete
from hoptrail.corpus.indexing import index
from hoptrail.corpus.schema import KINDS
from hoptrail.tools.lexical import LexicalTool

NAMES = ("Ada Lovelace", "Charles Babbage", "London", "Difference Engine")
VERBS = ("met", "built", "left", "praised")
KEYS = tuple(f"document-{letter}" for letter in "abcdef")
QUERIES = ("Ada Lovelace met Charles Babbage", "London (NAME)", "who built it in 1833?")

sentences = st.builds(
    lambda one, verb, other, year: f"{one} {verb} {other} in {year}.",
    st.sampled_from(NAMES),
    st.sampled_from(VERBS),
    st.sampled_from(NAMES),
    st.integers(1830, 1836),
)
texts = st.lists(sentences, min_size=1, max_size=3).map(" ".join)


def seen(folder: Path) -> dict[str, Any]:
    """Everything that a corpus shows, its rankings included, as far as a graph index is exact."""
    corpus = Corpus.open(folder, HashEncoder)
    try:
        status = corpus.status()
        assert (status.unembedded, status.unextracted, status.complete) == (0, 0, True)
        return {
            "passages": list(corpus.iter_passages()),
            "entities": list(corpus.iter_entities()),
            "relations": list(corpus.iter_relations()),
            "mentions": list(corpus.iter_mentions()),
            "counts": (status.documents, status.sentences),
            **{
                f"{kind}: {query}": corpus.search(kind, vector, 20)
                for kind in KINDS
                for query, vector in zip(QUERIES, HashEncoder().encode(QUERIES), strict=True)
            },
        }
    finally:
        corpus.close()


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Equal rows, and equal rankings but for what the last digits of cosines make of them."""
    assert one.keys() == other.keys()
    for part, expected in other.items():
        if ":" not in part:
            assert one[part] == expected, part
            continue
        np.testing.assert_allclose([s for _, s in one[part]], [s for _, s in expected], atol=2e-6, err_msg=part)
        edge = expected[-1][1] if expected else 0.0
        for key, score in set(one[part]) ^ set(expected):
            known = dict(one[part]).get(key, edge), dict(expected).get(key, edge)
            assert abs(known[0] - known[1]) <= 2e-6, (part, key, score)


class Histories(RuleBasedStateMachine):
    """Documents as they should be, beside a corpus that went through everything."""

    served = False
    """Whether servers hold the corpora."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="hoptrail-history-"))
        self.documents: dict[str, str] = {}
        self.marks: set[str] = set()
        self.written = 0
        self.open: list[Corpus] = []

    @initialize(batch=st.sampled_from([1, 2, 1_000]))
    def begin(self, batch: int) -> None:
        phases._BATCH_PASSAGES = phases._BATCH_EXTRACTIONS = phases._BATCH_TEXTS = batch

    @rule(
        new=st.dictionaries(st.sampled_from(KEYS), texts, min_size=1, max_size=4),
        failing=st.sampled_from([(), KEYS[:3]]),
    )
    def put(self, new: dict[str, str], failing: tuple[str, ...]) -> None:
        """Add or change documents, each with a word of its own that is in no other and in no former version."""
        for key, text in new.items():
            self.written += 1
            mark = f"Qx{self.written:04}zw"
            self.marks.add(mark)
            self.documents[key] = f"{text} {mark} was seen."
        self._index(self.folder / "corpus", {key: self.documents[key] for key in new}, failing)

    @rule(new=st.sets(st.sampled_from(KEYS), min_size=1))
    def put_again(self, new: set[str]) -> None:
        """Nothing changes, but what failed to be extracted is tried again."""
        self._index(self.folder / "corpus", {key: self.documents[key] for key in new & self.documents.keys()})

    @precondition(lambda self: self.documents)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone = data.draw(st.sets(st.sampled_from(sorted(self.documents)), min_size=1))
        report = delete(sorted(gone), self.folder / "corpus", HashEncoder)
        assert report.documents == len(gone)
        for key in gone:
            del self.documents[key]
        self._check_erased()

    @precondition(lambda self: self.documents)
    @rule(kind=st.sampled_from(KINDS))
    def read(self, kind: str) -> None:
        """Search by meaning and by words, from a corpus that stays open meanwhile."""
        if not self.open:
            self.open.append(Corpus.open(self.folder / "corpus", HashEncoder))
        corpus = self.open[0]
        found = corpus.search(kind, HashEncoder().encode(["Ada met"])[0], 50)
        if kind == "passage":
            assert {key for key, _ in found} == set(self.documents)
        hits = LexicalTool(corpus)._search("Ada Charles London Difference", 50)
        assert {hit.document for hit in hits} == set(self.documents)

    @rule()
    def reopen(self) -> None:
        while self.open:
            self.open.pop().close()

    def teardown(self) -> None:
        try:
            if self.written:
                self._compare()
        finally:
            self.reopen()
            shutil.rmtree(self.folder)

    def _compare(self) -> None:
        self._index(self.folder / "corpus", {})
        self._check_erased()
        self._index(self.folder / "fresh", dict(reversed(self.documents.items())))
        assert_same(seen(self.folder / "corpus"), seen(self.folder / "fresh"))

    def _index(self, corpus: Path, documents: dict[str, str], failing: tuple[str, ...] = ()) -> None:
        rows = [json.dumps({"id": key, "title": "", "text": text}) for key, text in documents.items()]
        (self.folder / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
        extractor = WordExtractor()
        extractor.failing = set(failing)
        index([self.folder / "rows.jsonl"], corpus, HashEncoder, extractor=extractor)

    def _check_erased(self) -> None:
        """No file of the corpus holds a word, a name or a vector of what is gone."""
        live = {word for text in self.documents.values() for word in text.split()}
        gone = [mark.encode() for mark in self.marks - live]
        gone += [mark.lower() for mark in gone]
        gone += [key.encode() for key in KEYS if key not in self.documents]
        gone += [HashEncoder().encode([f"{mark.decode()} (NAME)"]).tobytes() for mark in gone if mark.startswith(b"Qx")]
        files = ((str(file), file.read_bytes()) for file in (self.folder / "corpus").rglob("*") if file.is_file())
        contents = [*files, *(servers.contents(self.folder / "corpus") if self.served else ())]
        for place, content in contents:
            assert [mark for mark in gone if mark in content] == [], place
        for mark in self.marks & live:
            assert any(mark.encode() in content for _, content in contents)


@pytest.mark.timeout(600)
def test_any_history_is_that_of_a_build_from_nothing(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Histories, "served", backend == "servers")
    for name in ("_BATCH_PASSAGES", "_BATCH_EXTRACTIONS", "_BATCH_TEXTS"):
        monkeypatch.setattr(phases, name, getattr(phases, name))  # put back what the machine sets
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=6,
            stateful_step_count=8,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.reuse, Phase.generate],  # a history is short, and shrinking it would take minutes
        ),
    )
