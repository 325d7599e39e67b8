import json
from pathlib import Path
from typing import Any

import pytest

from hoptrail.client import Hoptrail
from hoptrail.config import Settings
from hoptrail.errors import ConfigurationError, ModelAccessError, ModelUnavailableError
from hoptrail.evals.answers import evaluate_answers
from hoptrail.evals.datasets import DataSet, Question
from hoptrail.testing.doubles import FakeTool, scripted_model
from hoptrail.tools.registry import ToolRegistry

DATA = DataSet(
    name="made",
    corpus=Path("none"),
    questions=tuple(
        Question(id=f"q{i}", question=f"What is {i}?", answers=(str(i),), supporting=(), hops=1 + i % 2)
        for i in range(4)
    ),
)


class Model:
    """Answers with the number asked for, and counts; raises for the questions in `failing`."""

    def __init__(self, failing: dict[str, Exception] | None = None) -> None:
        self.failing = failing or {}
        self.asked: list[str] = []

    def __call__(self, _: str, user: str) -> dict[str, Any]:
        question = user.split("[[question ")[1].split("\n")[1]
        number = question.removeprefix("What is ").rstrip("?")
        self.asked.append(number)
        if number in self.failing:
            raise self.failing[number]
        return {"summary": "s", "answer": f"It is {number}", "passages": [1]}


async def evaluate(model: Model, records: Path | None = None, data: DataSet = DATA, **settings: Any) -> dict[str, Any]:
    tools = ToolRegistry([FakeTool("text", lambda query: [f"passage on {query}"])])
    hop = Hoptrail(Settings.load(**settings), tools, model=scripted_model(model))
    return await evaluate_answers(data, data.questions, hop, planner="single", tool=None, records=records)


async def test_the_report_has_its_measures() -> None:
    report = await evaluate(Model())
    names = {"em", "f1", "str_acc", "all_evidence", "tokens", "calls", "seconds", "steps", "failed"}
    assert set(report["metrics"]) == names
    assert report["planner"] == "single"
    assert report["metrics"]["str_acc"] == 1
    assert report["metrics"]["em"] == report["metrics"]["failed"] == 0
    # given "it is N" (3 tokens), wanted "N": precision 1/3, recall 1
    assert report["metrics"]["f1"] == pytest.approx(0.5)
    assert report["metrics"]["calls"] == report["metrics"]["steps"] == 1
    assert report["metrics"]["tokens"] > 10
    assert {key: group["n"] for key, group in report["by_hops"].items()} == {"1": 2, "2": 2}


async def test_evidence_is_scored_by_document() -> None:
    tools = ToolRegistry([FakeTool("text", lambda _: ["only passage"])])
    document = (await tools.get("text").retrieve("q", k=1)).hits[0].document
    data = DATA.model_copy(update={"questions": (DATA.questions[0].model_copy(update={"supporting": (document,)}),)})
    hop = Hoptrail(Settings.load(), tools, model=scripted_model(Model()))
    report = await evaluate_answers(data, data.questions, hop, planner="single", tool=None)
    assert report["metrics"]["all_evidence"] == 1


async def test_a_stopped_evaluation_goes_on_where_it_was(tmp_path: Path) -> None:
    records = tmp_path / "deep" / "records.jsonl"
    whole = await evaluate(Model(), records)
    lines = records.read_text().splitlines(keepends=True)
    assert [json.loads(line)["id"] for line in lines] == ["q0", "q1", "q2", "q3"]
    assert json.loads(lines[0])["steps"][0]["documents"]
    records.write_text("".join(lines[:2]) + lines[2][:30])  # killed while writing the third

    model = Model()
    again = await evaluate(model, records)
    assert model.asked == ["2", "3"]
    assert again["metrics"]["str_acc"] == whole["metrics"]["str_acc"]
    assert [json.loads(line)["id"] for line in records.read_text().splitlines()] == ["q0", "q1", "q2", "q3"]

    model = Model()
    assert (await evaluate(model, records))["questions"] == again["questions"]
    assert model.asked == []


async def test_a_run_that_fails_counts_nothing_and_is_tried_again(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    report = await evaluate(Model({"1": ModelUnavailableError("away")}), records)
    assert report["n"] == 4
    assert report["metrics"]["str_acc"] == 0.75
    assert report["questions"]["q1"]["failed"] == 1
    assert report["questions"]["q1"]["str_acc"] == 0

    model = Model()
    report = await evaluate(model, records)
    assert model.asked == ["1"]
    assert report["metrics"]["str_acc"] == 1


async def test_a_system_that_is_not_set_up_is_no_measurement() -> None:
    with pytest.raises(ModelAccessError, match="wrong key"):
        await evaluate(Model({"0": ModelAccessError("wrong key")}))


async def test_records_of_another_system_are_refused(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    await evaluate(Model(), records)
    before = records.read_bytes()
    with pytest.raises(ConfigurationError, match="line 1: of another system") as raised:
        await evaluate(Model(), records, passages_per_step=7)
    assert "--records" in str(raised.value)
    assert records.read_bytes() == before


@pytest.mark.parametrize("content", ['{"n": 3}', '{\n "n": 3\n}', "notes\nof mine", '{"id": "q0"}\n'])
async def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path, content: str) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text(content)
    with pytest.raises(ConfigurationError, match="line 1: no outcome of an evaluation"):
        await evaluate(Model(), records)
    assert records.read_text() == content


async def test_records_that_cannot_be_kept_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="Cannot write"):
        await evaluate(Model(), tmp_path / "file" / "records.jsonl")
