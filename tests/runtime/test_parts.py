"""Small parts of the runtime: citations, outputs, plans, traces, the executor's growth."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from helpers import final_reply, open_hop, plan_reply, step_reply
from hypothesis import given
from hypothesis import strategies as st

from hoptrail.errors import ModelOutputError, PlanError, TraceError
from hoptrail.models.outputs import parse_output, partial_text
from hoptrail.prompts.step import render_step
from hoptrail.runtime.answer import StepResult
from hoptrail.runtime.citations import number_citations, supporting
from hoptrail.runtime.context import Draft
from hoptrail.runtime.executor import execute
from hoptrail.runtime.fold import answer_from_events
from hoptrail.runtime.plan import Plan, Step
from hoptrail.runtime.trace import read_trace
from hoptrail.testing.doubles import RecordingSink
from hoptrail.tools.base import Hit

HITS = (
    Hit(id="a", document="a", title="Voss", text="Voss is a town. It lies in Norway.", score=0.9),
    Hit(id="b", document="b", title="Bergen", text="Bergen is a city.", score=0.8),
)
REQUEST = render_step("q", [("t", "x")], (), guided=False)


@pytest.mark.parametrize(
    ("answer", "summary", "named", "expected"),
    [
        ("Norway", "", [1], ("a",)),
        ("Norway", "", [2], ("a",)),
        ("Norway", "", [], ("a",)),
        ("Sweden", "", [1, 2], ()),
        ("Nor", "", [1], ()),
        ("yes", "Voss is a town in Norway.", [1], ("a",)),
        ("yes", "Something else entirely happened.", [1], ()),
        ("Bergen", "", [2, 2, 7, 0, -1], ("b",)),
    ],
)
def test_only_passages_that_hold_the_answer_are_cited(
    answer: str, summary: str, named: list[int], expected: tuple[str, ...]
) -> None:
    assert supporting(HITS, answer, summary, named) == expected


def test_citations_are_numbered_once_and_quote_the_sentence() -> None:
    steps = [
        StepResult(id=i, question="Where?", answer="Norway", citations=("a", "zz"), evidence=HITS) for i in range(2)
    ]
    cited = number_citations(steps, "Norway")
    assert [(c.number, c.id, c.step) for c in cited] == [(1, "a", 0)]
    assert "Norway" in cited[0].quote


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "x"}',
        'Sure! {"answer": "x"} Done.',
        '```json\n{"answer": "x"}\n```',
        '{"answer": "x\n", "summary": "two\nlines"}',
    ],
)
def test_an_object_is_found_in_what_a_model_writes(text: str) -> None:
    assert parse_output(REQUEST, text).answer.strip() == "x"


@pytest.mark.parametrize("text", ["", "x", "[1]", '{"answer": 1}', '{"summary": "x"}', "{" * 50_000, "null"])
def test_anything_else_is_an_output_error(text: str) -> None:
    with pytest.raises(ModelOutputError):
        parse_output(REQUEST, text)


@given(st.text(max_size=50))
def test_partial_text_only_ever_grows_towards_the_whole(answer: str) -> None:
    whole = json.dumps({"reasoning": "r", "answer": answer})
    seen = [partial_text(whole[:n], "answer") for n in range(len(whole) + 1)]
    assert seen[-1] == answer.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
    assert all(len(a) <= len(b) for a, b in pairwise(seen))


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [Step(id=1, question="a")],
        [Step(id=0, question=" ")],
        [Step(id=0, question="a", depends_on=(0,))],
        [Step(id=0, question="a", depends_on=(3,))],
        [Step(id=0, question="a <dep:1>"), Step(id=1, question="b")],
        [Step(id=0, question="a", depends_on=(1,)), Step(id=1, question="b", depends_on=(0,))],
        [Step(id=0, question="a"), Step(id=1, question="b", depends_on=(0, 0))],
    ],
)
def test_a_plan_that_breaks_a_rule_cannot_be_made(steps: list[Step]) -> None:
    with pytest.raises(PlanError):
        Plan(question="q", steps=tuple(steps))


def test_a_plan_is_drawn_without_breaking_its_labels() -> None:
    plan = Plan(
        question="q", steps=(Step(id=0, question='a "b" <c>'), Step(id=1, question="d <dep:0>", depends_on=(0,)))
    )
    assert plan.mermaid().splitlines()[1:] == [
        '    s0["0: a &quot;b&quot; &lt;c&gt;"]',
        '    s1["1: d &lt;dep:0&gt;"]',
        "    s0 --> s1",
    ]


async def test_a_plan_can_grow_while_it_runs() -> None:
    async def run_step(step: Step, results: Any) -> StepResult:
        await anyio.lowlevel.checkpoint()
        return StepResult(id=step.id, question=step.question, answer="x")

    async def extend(plan: Plan, result: StepResult) -> list[Step]:
        await anyio.lowlevel.checkpoint()
        # Two roots end together; each adds one step, and neither may take the other's id.
        return [Step(id=len(plan.steps), question="more", depends_on=(result.id,))] if result.id < 2 else []

    results: dict[int, StepResult] = {}
    plan = await execute(
        Plan(question="q", steps=(Step(id=0, question="a"), Step(id=1, question="b"))),
        run_step,
        results=results,
        extend=extend,
    )
    assert [step.depends_on for step in plan.steps] == [(), (), (0,), (1,)]
    assert sorted(results) == [0, 1, 2, 3]


class Growing:
    """A planner that adds one step and then a broken one."""

    name, description, extends = "growing", "", True

    async def plan(self, run: Any) -> Plan:
        return Plan.single(run.question)

    async def extend(self, run: Any, plan: Plan, result: StepResult) -> list[Step]:
        if result.id == 0:
            return [Step(id=1, question="And <dep:0>?", depends_on=(0,))]
        return [Step(id=7, question="out of order")]

    async def answer(self, run: Any, plan: Plan, results: Any) -> Draft:
        return Draft(results[1].answer)


async def test_a_planner_extends_through_the_run_and_its_faults_are_told() -> None:
    sink = RecordingSink()
    answer = await open_hop(lambda name, user: step_reply("x"), sink=sink).ask("Q?", planner=Growing())
    assert (answer.text, len(answer.plan.steps)) == ("x", 2)
    assert [t for t in sink.types() if t.startswith("plan.")] == ["plan.created", "plan.extended", "plan.rejected"]


async def test_a_sink_that_fails_does_not_end_the_run() -> None:
    def broken(event: Any) -> None:
        raise RuntimeError("disk full")

    hop = open_hop(lambda name, user: step_reply("x"))
    hop._sinks.append(broken)
    assert (await hop.ask("Q?", planner="single")).text == "x"


async def test_a_trace_with_a_torn_end_is_read_up_to_it(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"

    def reply(name: str, user: str) -> Any:
        return (
            plan_reply(("a \ud800?", []))
            if name == "plan"
            else final_reply("x")
            if name == "synthesis"
            else step_reply("x")
        )

    hop = open_hop(reply, trace=file)
    first, second = await hop.ask("Q1?"), await hop.ask("Q2?")
    await hop.aclose()
    runs = read_trace(file)
    assert [answer_from_events(events) for events in runs.values()] == [first, second]
    data = file.read_bytes()
    file.write_bytes(data[:-30])
    torn = read_trace(file)[second.run_id]
    with pytest.raises(TraceError, match="without an answer"):
        answer_from_events(torn)
    file.write_bytes(data.split(b"\n", 1)[1])
    with pytest.raises(TraceError, match="line 1"):
        read_trace(file)
