import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.indexing import index
from hoptrail.errors import CorpusError, CorpusNotFoundError
from hoptrail.models.base import Embedder

Encoder = Callable[[], Embedder]


@pytest.fixture
def folder(mini_corpus: Path, tmp_path: Path) -> Path:
    """A corpus of the test's own, to be damaged."""
    return Path(shutil.copytree(mini_corpus, tmp_path / "corpus"))


def ranking(corpus: Corpus, query: str = "Who is the father?") -> list[tuple[str, float]]:
    return corpus.search("passage", corpus.encode_query(query), 20)


def index_folder(folder: Path) -> Path:
    (found,) = [p for p in (folder / "vectors" / "passage" / "default").iterdir() if p.is_dir()]
    return found


def test_no_corpus(tmp_path: Path, encoder: Encoder) -> None:
    with pytest.raises(CorpusNotFoundError, match="hoptrail index"):
        Corpus.open(tmp_path / "nowhere", encoder)
    (tmp_path / "corpus.sqlite3").touch()
    with pytest.raises(CorpusNotFoundError):
        Corpus.open(tmp_path, encoder)


def test_passages_by_id(mini_corpus: Path, mini: Path, encoder: Encoder) -> None:
    rows = [json.loads(line) for line in mini.read_text(encoding="utf-8").splitlines()]
    corpus = Corpus.open(mini_corpus, encoder)
    assert {p.id: (p.title, p.text) for p in corpus.iter_passages()} == {r["id"]: (r["title"], r["text"]) for r in rows}
    wanted = [rows[7]["id"], "no-such-passage", rows[3]["id"]]
    assert [p.id for p in corpus.passages(wanted)] == [rows[7]["id"], rows[3]["id"]]
    assert corpus.passage("no-such-passage") is None
    found = corpus.passage(rows[7]["id"])
    assert found is not None
    assert found.text == rows[7]["text"]
    assert len(corpus.passages([f"none-{i}" for i in range(2_000)] + wanted)) == 2
    corpus.close()


def test_opening_for_words_alone_loads_no_encoder_and_no_vectors(mini_corpus: Path) -> None:
    code = (
        "import sys, pathlib; from hoptrail.config import Settings; from hoptrail.corpus.corpus import Corpus\n"
        "from hoptrail.tools.registry import open_tools\n"
        f"corpus = Corpus.open(pathlib.Path({str(mini_corpus)!r}), lambda: 1 / 0)\n"
        "print(corpus.count, len(open_tools(corpus, Settings()).describe()), corpus.status().complete)\n"
        "print({'torch', 'chromadb', 'sentence_transformers', 'scipy', 'bm25s'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.splitlines() == ["50 5 True", "set()"], done.stderr


def test_searches_are_exact(mini_corpus: Path, mini: Path, encoder: Encoder) -> None:
    corpus = Corpus.open(mini_corpus, encoder)
    passages = list(corpus.iter_passages())
    matrix = encoder().encode([p.content for p in passages])
    questions = [json.loads(line)["question"] for line in mini.with_suffix(".questions.jsonl").read_text().splitlines()]
    for question in questions:
        vector = corpus.encode_query(question)
        cosines = matrix @ vector
        ranked = sorted(range(50), key=lambda i: (-round(float(cosines[i]), 6), passages[i].id))
        for depth in (1, 3, 20, 50, 1_000):
            found = corpus.search("passage", vector, depth)
            assert [key for key, _ in found] == [passages[i].id for i in ranked[:depth]]
            np.testing.assert_allclose([score for _, score in found], cosines[ranked[:depth]], atol=2e-6)
    corpus.close()


def test_vectors_that_cannot_be_searched_for(mini_corpus: Path, encoder: Encoder) -> None:
    corpus = Corpus.open(mini_corpus, encoder)
    assert corpus.search("passage", np.full(384, np.nan, np.float32), 5) == []
    assert corpus.search("passage", np.ones(384, np.float32), 0) == []
    zero = corpus.search("passage", np.zeros(384, np.float32), 5)
    assert np.isfinite([score for _, score in zero]).all()
    corpus.close()
    with pytest.raises(CorpusError, match="closed"):
        corpus.search("passage", np.ones(384, np.float32), 5)


def damage_nothing(found: Path) -> None:
    pass


def remove_all(found: Path) -> None:
    shutil.rmtree(found.parents[2])


def remove_graph(found: Path) -> None:
    (segment,) = [p for p in found.iterdir() if p.is_dir()]
    shutil.rmtree(segment)


def cut_graph(found: Path) -> None:
    for file in found.rglob("*.bin"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scramble_rows(found: Path) -> None:
    (found / "chroma.sqlite3").write_bytes(b"\x00" * 10_000)


def remove_size(found: Path) -> None:
    (found / "size").unlink()


def leave_drafts(found: Path) -> None:
    (found.parent / "123.draft").mkdir()
    (found.parent / f"{found.name}.draft").mkdir()
    (found / "chroma.sqlite3").unlink()


@pytest.mark.parametrize(
    "damage", [damage_nothing, remove_all, remove_graph, cut_graph, scramble_rows, remove_size, leave_drafts]
)
def test_a_damaged_index_is_built_again_from_the_rows(
    damage: Callable[[Path], None], folder: Path, mini_corpus: Path, encoder: Encoder
) -> None:
    whole = Corpus.open(mini_corpus, encoder)
    expected = ranking(whole)
    whole.close()
    damage(index_folder(folder))
    for _ in range(2):
        corpus = Corpus.open(folder, encoder)
        assert ranking(corpus) == expected
        corpus.close()


def test_an_index_of_other_rows_is_not_used(folder: Path, encoder: Encoder, tmp_path: Path) -> None:
    """The database restored from a copy, or made anew, beside the indexes of another history."""
    (folder / "corpus.sqlite3").unlink()
    rows = [json.dumps({"id": f"new-{i}", "text": f"Sentence number {i}."}) for i in range(50)]
    (tmp_path / "new.jsonl").write_text("\n".join(rows), encoding="utf-8")
    index([tmp_path / "new.jsonl"], folder, encoder)
    corpus = Corpus.open(folder, encoder)
    assert all(key.startswith("new-") for key, _ in ranking(corpus))
    corpus.close()
    index_folder(folder)  # only one is left


def test_an_open_corpus_follows_what_is_indexed(folder: Path, encoder: Encoder, tmp_path: Path) -> None:
    corpus, second = Corpus.open(folder, encoder), Corpus.open(folder, encoder)
    before = ranking(corpus, "a zeppelin over the fjord")
    ranking(second)
    (tmp_path / "z.txt").write_text("A zeppelin flew over the fjord.", encoding="utf-8")
    during: list[list[tuple[str, float]]] = []
    revision = corpus.revision

    def search(done: int, total: int, note: str) -> None:
        during.append(ranking(corpus, "a zeppelin over the fjord"))

    index([tmp_path / "z.txt"], folder, encoder, progress=search)
    assert during
    assert all(found == before for found in during)
    assert corpus.revision != revision
    assert ranking(corpus, "a zeppelin over the fjord")[0][0] == "z.txt"
    corpus.close()
    assert ranking(second, "a zeppelin over the fjord")[0][0] == "z.txt"
    second.close()
    corpus.close()


def test_threads_search_while_another_indexes(folder: Path, encoder: Encoder, tmp_path: Path) -> None:
    corpus = Corpus.open(folder, encoder)
    vector = corpus.encode_query("the capital of the islands")
    expected = corpus.search("passage", vector, 5)
    wrong: list[object] = []
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            try:
                found = [pair for pair in corpus.search("passage", vector, 20) if not pair[0].startswith("odd")]
            except Exception as error:  # noqa: BLE001
                wrong.append(error)
                return
            if found[:5] != expected:
                wrong.append(found)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(4):
        (tmp_path / f"odd{number}.txt").write_text(f"Nothing of interest, part {number}.", encoding="utf-8")
        index([tmp_path / f"odd{number}.txt"], folder, encoder)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert not wrong
    corpus.close()
