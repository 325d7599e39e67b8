import gzip
import json
from pathlib import Path

import pytest

from hoptrail.errors import ConfigurationError
from hoptrail.evals.datasets import DataSet

GOOD = b'{"id": "a", "question": "Who?", "supporting": ["p"], "hops": 2}\n'


def load(folder: Path, questions: bytes, suffix: str = ".jsonl") -> DataSet:
    (folder / "x.corpus.jsonl").write_text('{"id": "p", "text": "t"}\n')
    (folder / f"x.questions{suffix}").write_bytes(questions)
    return DataSet.load(folder, "x")


@pytest.mark.parametrize(
    ("name", "count"),
    [("musique", 127), ("musique_train", 193), ("2wiki", 386), ("hotpotqa", 479), ("northwind", 124)],
)
def test_the_shared_sets_are_read_whole(shared_data: Path, name: str, count: int) -> None:
    loaded = DataSet.load(shared_data, name)
    assert len(loaded.questions) == count
    assert all(q.supporting and q.answers and q.hops for q in loaded.questions)


def test_a_set_that_names_neither_hops_nor_passages_is_read(shared_data: Path) -> None:
    loaded = DataSet.load(shared_data, "graphrag_bench_medical")
    assert {(q.hops, q.supporting) for q in loaded.questions} == {(None, ())}


def test_a_question_keeps_its_decomposition(small_set: Path) -> None:
    question = next(q for q in DataSet.load(small_set, "small").questions if q.id == "2hop__116027_376978")
    assert [(hop.question, hop.answer) for hop in question.decomposition] == [
        ("The director of Jump for Glory is who?", "Raoul Walsh"),
        ("#1 >> spouse", "Miriam Cooper"),
    ]
    assert {hop.passage for hop in question.decomposition} == set(question.supporting)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{oops", "line 2: not JSON"),
        (b"[1]", "line 2: not an object"),
        (b'{"id": "b"}', "line 2: question: Field required"),
        (b'{"id": "b", "question": 3}', "line 2: question: Input should be a valid string"),
        (b'{"id": "b", "question": "q", "decomposition": [{}]}', "line 2: decomposition.0.question: Field required"),
        (b'{"id": "b", "question": "\xff"}', "line 2: not UTF-8"),
        (b'{"id": "a", "question": "q"}', "line 2: id 'a' was used before"),
    ],
)
def test_a_fault_is_named_by_file_and_line(tmp_path: Path, line: bytes, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        load(tmp_path, GOOD + line + b"\n")
    assert str(tmp_path / "x.questions.jsonl") in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_ends_early_is_named(tmp_path: Path) -> None:
    rows = b"".join(b'{"id": "%d", "question": "Who?"}\n' % i for i in range(1000))
    with pytest.raises(ConfigurationError, match=r"line \d+: cannot be read"):
        load(tmp_path, gzip.compress(rows)[:-200], ".jsonl.gz")


def test_blank_lines_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    assert [q.id for q in load(tmp_path, b"\xef\xbb\xbf" + GOOD + b"\n \n").questions] == ["a"]


@pytest.mark.parametrize("name", ["nothing", "../x"])
def test_an_absent_set_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no {name}.questions.jsonl.gz"):
        DataSet.load(tmp_path, name)


def test_a_set_without_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no questions"):
        load(tmp_path, b"")


def test_a_sample_is_drawn_by_its_seed_and_keeps_the_order(tmp_path: Path) -> None:
    loaded = load(tmp_path, b"".join(b'{"id": "%03d", "question": "q"}\n' % i for i in range(200)))
    drawn = [q.id for q in loaded.sample(20, 1)]
    assert drawn == sorted(drawn)
    assert len(set(drawn)) == 20
    assert drawn == [q.id for q in loaded.sample(20, 1)] != [q.id for q in loaded.sample(20, 2)]
    assert loaded.sample(None, 1) == loaded.sample(500, 1) == loaded.questions


def beir(
    folder: Path, qrels: str = "query-id\tcorpus-id\tscore\n1\tp\t1\n1\tq\t2\n2\tp\t0\n", split: str = "test"
) -> Path:
    inside = folder / "b"
    (inside / "qrels").mkdir(parents=True, exist_ok=True)
    (inside / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": str(i), "text": f"q{i}"}) + "\n" for i in (1, 2, 3))
    )
    (inside / "corpus.jsonl").write_text(json.dumps({"_id": "p", "text": "t"}) + "\n")
    (inside / "qrels" / f"{split}.tsv").write_text(qrels)
    return folder


def test_a_beir_folder_gives_the_judged_queries(tmp_path: Path) -> None:
    loaded = DataSet.load(beir(tmp_path), "b")
    assert [(q.id, q.question, q.supporting) for q in loaded.questions] == [("1", "q1", ("p", "q"))]
    assert loaded.corpus == tmp_path / "b" / "corpus.jsonl"


def test_beir_judgements_may_lack_a_header_and_be_of_another_split(tmp_path: Path) -> None:
    loaded = DataSet.load(beir(tmp_path, "3\tp\t1\n", split="train"), "b")
    assert [q.id for q in loaded.questions] == ["3"]


def test_the_test_split_is_preferred(tmp_path: Path) -> None:
    beir(tmp_path, "2\tp\t1\n", split="dev")
    assert [q.id for q in DataSet.load(beir(tmp_path), "b").questions] == ["1"]


@pytest.mark.parametrize("qrels", ["query-id\tcorpus-id\tscore\n1\tp\tx\n", "1\tp\t1\n1 p 1\n"])
def test_a_faulty_judgement_is_named_by_line(tmp_path: Path, qrels: str) -> None:
    with pytest.raises(ConfigurationError, match=r"test\.tsv, line 2: not query id"):
        DataSet.load(beir(tmp_path, qrels), "b")


def test_missing_judgements_and_faulty_queries_are_named(tmp_path: Path) -> None:
    beir(tmp_path)
    (tmp_path / "b" / "queries.jsonl").write_text('{"_id": "1"}\n')
    with pytest.raises(ConfigurationError, match=r"queries\.jsonl, line 1: a query needs"):
        DataSet.load(tmp_path, "b")
    (tmp_path / "b" / "qrels" / "test.tsv").unlink()
    with pytest.raises(ConfigurationError, match=r"no test\.tsv"):
        DataSet.load(tmp_path, "b")
