import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.indexing import IndexReport, index
from hoptrail.corpus.types import Passage
from hoptrail.errors import CorpusError, CorpusLockedError, CorpusMismatchError, CorpusNotFoundError
from hoptrail.models.base import Embedder

ROOT = Path(__file__).parents[2]
Encoder = Callable[[], Embedder]


def figures(report: IndexReport) -> tuple[int, int, int, int, int]:
    return report.added, report.updated, report.unchanged, report.passages, len(report.failed)


def rows_of(folder: Path, encoder: Encoder) -> tuple[list[Passage], list[tuple[str, float]]]:
    """Everything that can be seen of a corpus: its passages and a ranking of all of them."""
    corpus = Corpus.open(folder, encoder)
    try:
        return list(corpus.iter_passages()), corpus.search("passage", corpus.encode_query("Who was the father?"), 1_000)
    finally:
        corpus.close()


def assert_same(one: Path, other: Path, encoder: Encoder) -> None:
    """The same passages and ranking; cosines may differ by what the encoder's batches make of them."""
    (passages, ranked), (expected, expected_ranked) = rows_of(one, encoder), rows_of(other, encoder)
    assert passages == expected
    assert [key for key, _ in ranked] == [key for key, _ in expected_ranked]
    np.testing.assert_allclose([score for _, score in ranked], [score for _, score in expected_ranked], atol=2e-6)


class Renamed:
    """The same encoder under another name."""

    name = "another-encoder"

    def __init__(self, encoder: Embedder) -> None:
        self.encode, self.dimension = encoder.encode, encoder.dimension


class Interrupting:
    """An encoder that fails at its third batch."""

    def __init__(self, encoder: Embedder) -> None:
        self.name, self.dimension, self.calls = encoder.name, encoder.dimension, 0
        self._encoder = encoder

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return self._encoder.encode(texts)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        return self._encoder.encode_query(text)


def test_indexing_twice_changes_nothing(mini: Path, encoder: Encoder, tmp_path: Path) -> None:
    assert figures(index([mini], tmp_path / "c", encoder)) == (50, 0, 0, 50, 0)
    before, status = rows_of(tmp_path / "c", encoder), Corpus.open(tmp_path / "c", encoder).status()
    assert figures(index([mini], tmp_path / "c", encoder)) == (0, 0, 50, 0, 0)
    assert rows_of(tmp_path / "c", encoder) == before
    assert Corpus.open(tmp_path / "c", encoder).status() == status
    assert (status.documents, status.passages, status.complete) == (50, 50, True)
    assert (status.embedding_model, status.dimension) == ("all-MiniLM-L6-v2", 384)


def test_any_order_and_batching_gives_the_same_corpus(
    mini: Path, encoder: Encoder, tmp_path: Path, mini_corpus: Path
) -> None:
    lines = mini.read_text(encoding="utf-8").splitlines()
    for number, part in enumerate((lines[30:], lines[:10], lines[5:35])):
        (tmp_path / f"{number}.jsonl").write_text("\n".join(reversed(part)), encoding="utf-8")
        index([tmp_path / f"{number}.jsonl"], tmp_path / "c", encoder)
    assert_same(tmp_path / "c", mini_corpus, encoder)


def test_changed_documents_are_replaced_and_new_ones_added(encoder: Encoder, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("The lighthouse was built in 1902. " * 60, encoding="utf-8")
    (docs / "b.txt").write_text("The ferry crosses the sound.", encoding="utf-8")
    first = index([docs], tmp_path / "c", encoder)
    assert (first.added, first.passages > 3) == (2, True)
    (docs / "a.txt").write_text("The lighthouse was torn down.", encoding="utf-8")
    (docs / "c.txt").write_text("The harbour froze.", encoding="utf-8")
    assert figures(index([docs], tmp_path / "c", encoder)) == (1, 1, 1, 2, 0)
    passages, ranked = rows_of(tmp_path / "c", encoder)
    assert [p.id for p in passages] == ["a.txt", "b.txt", "c.txt"]
    assert sorted(key for key, _ in ranked) == ["a.txt", "b.txt", "c.txt"]
    everything = b"".join(p.read_bytes() for p in (tmp_path / "c" / "indexes").rglob("*") if p.is_file())
    assert b"1902" not in everything


def test_progress_counts_up_to_all_passages(mini: Path, encoder: Encoder, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    index([mini], tmp_path / "c", encoder, progress=lambda *told: seen.append(told))
    assert all(done <= total for done, total, _ in seen)
    phases = list(dict.fromkeys(note for _, _, note in seen))
    assert phases == ["reading", "embedding", "building the vector indexes"]
    ends = []
    for phase in phases:
        counts = [done for done, _, note in seen if note == phase]
        assert counts == sorted(counts)
        ends.append(counts[-1])
    assert ends == [50, 50, 4]


def test_bad_documents_do_not_stop_the_others(mini: Path, encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "bad.pdf").write_bytes(os.urandom(3000))
    lines = [*mini.read_text(encoding="utf-8").splitlines()[:3], "{broken", '{"id": "x"}']
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    report = index([tmp_path / "bad.pdf", tmp_path / "rows.jsonl", tmp_path / "none"], tmp_path / "c", encoder)
    assert figures(report) == (3, 0, 0, 3, 4)


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["   \n\t"],
        ["\x00"],
        ["🧭🗺️", "👩‍👩‍👧"],
        ["12345", "0"],
        ["שלום עולם", "مرحبا بالعالم"],
        ["ok \ud800 lone", "nul \x00 inside"],
        ["same text", "same text", "same text"],
        ["\u200b", "\u202e", "\ufeff"],
        ["x" * 100_000],
        ["東京は日本の首都です。" * 200],
    ],
)
def test_corpora_of_odd_texts(encoder: Encoder, tmp_path: Path, texts: list[str]) -> None:
    rows = [json.dumps({"id": f"d{i}", "title": "", "text": text}) for i, text in enumerate(texts)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    report = index([tmp_path / "rows.jsonl"], tmp_path / "c", encoder)
    assert report.added + len(report.failed) == len(texts)
    passages, ranked = rows_of(tmp_path / "c", encoder)
    assert len(passages) == len(ranked) == report.passages
    assert np.isfinite([score for _, score in ranked]).all()


def test_equal_passages_are_ranked_by_id(encoder: Encoder, tmp_path: Path) -> None:
    """So many that a graph index does not reach all of them."""
    same = [json.dumps({"id": f"d{i:03}", "text": "The very same passage."}) for i in reversed(range(300))]
    other = [json.dumps({"id": f"a{i}", "text": f"Something else, number {i}."}) for i in range(20)]
    (tmp_path / "rows.jsonl").write_text("\n".join(same + other), encoding="utf-8")
    index([tmp_path / "rows.jsonl"], tmp_path / "c", encoder)
    corpus = Corpus.open(tmp_path / "c", encoder)
    vector = corpus.encode_query("the very same passage")
    for depth in (1, 5, 299, 1_000):
        found = [key for key, _ in corpus.search("passage", vector, depth)]
        assert found[:300] == [f"d{i:03}" for i in range(300)][:depth]
    assert len(found) == 320
    corpus.close()


def test_another_encoder_is_refused_with_both_names(
    mini: Path, encoder: Encoder, mini_corpus: Path, tmp_path: Path
) -> None:
    shutil.copytree(mini_corpus, tmp_path / "c")
    other = Renamed(encoder())
    with pytest.raises(CorpusMismatchError, match=r"all-MiniLM-L6-v2.*another-encoder"):
        index([mini], tmp_path / "c", lambda: other)
    corpus = Corpus.open(tmp_path / "c", lambda: other)
    with pytest.raises(CorpusMismatchError, match=r"all-MiniLM-L6-v2.*another-encoder"):
        corpus.encode_query("x")
    corpus.close()


def test_another_way_of_cutting_is_refused(
    mini: Path, encoder: Encoder, mini_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(mini_corpus, tmp_path / "c")
    monkeypatch.setattr("hoptrail.corpus.indexing.CHUNKING", "words-7")
    with pytest.raises(CorpusMismatchError, match=r"sentences-1000.*words-7"):
        index([mini], tmp_path / "c", encoder)


def test_one_writer_at_a_time(mini: Path, encoder: Encoder, tmp_path: Path) -> None:
    def intrude(done: int, total: int, note: str) -> None:
        with pytest.raises(CorpusLockedError):
            index([mini], tmp_path / "c", encoder)

    assert index([mini], tmp_path / "c", encoder, progress=intrude).added == 50
    assert index([mini], tmp_path / "c", encoder).unchanged == 50


def test_places_that_cannot_be_written(mini: Path, encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(CorpusError, match="Cannot write"):
        index([mini], tmp_path / "file", encoder)
    for name in ("../x", "", "A", "a/b", "x" * 65):
        with pytest.raises(CorpusError, match="namespace"):
            index([mini], tmp_path / "c", encoder, namespace=name)


def test_namespaces_are_tenants(mini: Path, encoder: Encoder, mini_corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(mini_corpus, tmp_path / "c")
    (tmp_path / "x.txt").write_text("Only for the other tenant.", encoding="utf-8")
    index([tmp_path / "x.txt"], tmp_path / "c", encoder, namespace="other")
    other = Corpus.open(tmp_path / "c", encoder, namespace="other")
    assert [key for key, _ in other.search("passage", other.encode_query("tenant"), 10)] == ["x.txt"]
    other.close()
    assert_same(tmp_path / "c", mini_corpus, encoder)
    with pytest.raises(CorpusNotFoundError):
        Corpus.open(tmp_path / "c", encoder, namespace="third")


def test_an_interrupted_run_keeps_its_batches(
    mini: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptrail.corpus.phases._BATCH_TEXTS", 10)
    failing = Interrupting(encoder())
    with pytest.raises(KeyboardInterrupt):
        index([mini], tmp_path / "c", lambda: failing)
    corpus = Corpus.open(tmp_path / "c", encoder)
    assert (corpus.count, corpus.status().unembedded, corpus.status().complete) == (50, 30, False)
    assert len(corpus.search("passage", corpus.encode_query("x"), 100)) == 20
    corpus.close()
    assert figures(index([mini], tmp_path / "c", encoder)) == (0, 0, 50, 30, 0)


CHILD = textwrap.dedent("""
    import os
    import sys
    from functools import partial
    from pathlib import Path
    import hoptrail.corpus.indexing as indexing, hoptrail.corpus.phases as phases, servers
    from hoptrail.corpus.place import Place
    from hoptrail.config import Settings
    from hoptrail.models.embeddings import open_embedder
    if servers.STORE in os.environ:
        Place.of = staticmethod(servers.served)
    phases._BATCH_PASSAGES = phases._BATCH_TEXTS = 5
    indexing.index(
        [Path(sys.argv[1])], Path(sys.argv[2]), partial(open_embedder, Settings()),
        progress=lambda done, total, note: print(done, note, flush=True),
    )
""")


@pytest.mark.parametrize("at", [(20, "reading"), (20, "embedding"), (0, "building")])
def test_a_killed_run_goes_on_where_it_stopped(
    at: tuple[int, str], mini: Path, encoder: Encoder, mini_corpus: Path, tmp_path: Path
) -> None:
    done, doing = at
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(mini), str(tmp_path / "c")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}"},
    )
    assert child.stdout is not None
    with child.stdout:
        assert any(line.startswith(f"{done} {doing}") for line in child.stdout)
        time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    report = index([mini], tmp_path / "c", encoder)
    assert report.unchanged >= (done if doing == "reading" else 50)
    if doing != "reading":
        assert report.passages <= 50 - done
    assert report.added + report.unchanged == 50
    assert_same(tmp_path / "c", mini_corpus, encoder)
