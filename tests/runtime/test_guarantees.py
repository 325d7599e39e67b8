"""Random plans under random faults: one terminal event, nothing left in flight, caps kept, citations resolved."""

import asyncio
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from helpers import TERMINAL, check_log, final_reply, open_hop, plan_reply, question_of, step_reply
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrail.errors import HoptrailError
from hoptrail.runtime.plan import Plan
from hoptrail.testing.doubles import FakeTool, RecordingSink

FAULTS = ("ok", "ok", "ok", "raise", "empty", "hang", "garbage", "slow", "not found")


@dataclass
class Case:
    """A plan, what goes wrong at each of its steps in tool and model, and from outside."""

    dependencies: list[list[int]]
    tool_faults: list[str]
    model_faults: list[str]
    planning: str
    cancel_after: float | None
    deadline: float
    max_calls: int | None
    streamed: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 7))
    dependencies = [draw(st.lists(st.integers(0, i - 1), unique=True, max_size=3)) if i else [] for i in range(count)]
    faults = st.lists(st.sampled_from(FAULTS), min_size=count, max_size=count)
    return Case(
        dependencies,
        draw(faults),
        draw(faults),
        draw(st.sampled_from(["ok", "ok", "ok", "garbage", "raise", "hang"])),
        draw(st.none() | st.floats(0, 0.08)),
        draw(st.floats(0.01, 0.2)),
        draw(st.none() | st.integers(0, 10)),
        draw(st.booleans()),
    )


class Flight:
    """Counts what is in flight, and does to a call what the case says."""

    def __init__(self) -> None:
        self.now = 0

    async def go(self, fault: str) -> str:
        self.now += 1
        try:
            if fault == "raise":
                raise RuntimeError("fault")
            if fault == "hang":
                await anyio.sleep_forever()
            if fault == "slow":
                await anyio.sleep(0.02)
            return fault
        finally:
            self.now -= 1


def _model(case: Case, flight: Flight) -> Any:
    async def reply(name: str, user: str) -> Any:
        fault = case.planning if name != "step" else case.model_faults[_number(question_of(user), case)]
        await flight.go(fault)
        if fault == "garbage":
            return "prose, no object"
        if name == "plan":
            return plan_reply(*((f"q{i} {_slots(d)}", d) for i, d in enumerate(case.dependencies)))
        if name == "synthesis":
            return final_reply("found")
        return step_reply("Information not found" if fault == "not found" else "found", passages=[1, 99, -1])

    return reply


def _tool(name: str, case: Case, flight: Flight) -> FakeTool:
    async def find(query: str) -> list[str]:
        fault = case.tool_faults[_number(query, case)]
        await flight.go(fault)
        return [] if fault == "empty" else [f"found in {name}: {query}", "another passage"]

    return FakeTool(name, find)


def _slots(dependencies: list[int]) -> str:
    return " ".join(f"<dep:{j}>" for j in dependencies)


def _number(text: str, case: Case) -> int:
    digits = text.removeprefix("q").split(" ")[0]
    return int(digits) if digits.isdigit() and int(digits) < len(case.dependencies) else 0


async def _run(case: Case, sink: RecordingSink) -> Flight:
    flight = Flight()
    hop = open_hop(
        _model(case, flight),
        _tool("text", case, flight),
        _tool("lexical", case, flight),
        sink=sink,
        run_deadline_s=case.deadline,
        tool_timeout_s=0.05,
        model_timeout_s=0.05,
        max_calls=case.max_calls,
        model_concurrency=2,
    )
    with anyio.move_on_after(case.cancel_after):
        try:
            if case.streamed:
                async with hop.stream("Q?") as run:
                    answer = await run.answer()
            else:
                answer = await hop.ask("Q?")
        except HoptrailError:
            assert sink.types()[-1] == "run.failed"
        else:
            _check_answer(answer, sink)
    await hop.aclose()
    return flight


def _check_answer(answer: Any, sink: RecordingSink) -> None:
    retrieved = {hit.id for e in sink.events if e.type == "tool.finished" for hit in e.hits}
    assert {citation.id for citation in answer.citations} <= retrieved
    assert [c.number for c in answer.citations] == list(range(1, len(answer.citations) + 1))
    assert isinstance(answer.plan, Plan)
    assert {step.id for step in answer.steps} <= {step.id for step in answer.plan.steps}


@settings(max_examples=150)
@given(cases())
def test_any_run_ends_once_and_leaves_nothing(case: Case) -> None:
    sink = RecordingSink()

    async def main() -> None:
        before = asyncio.all_tasks()
        flight = await _run(case, sink)
        assert flight.now == 0
        assert asyncio.all_tasks() == before

    asyncio.run(main())
    check_log(sink.events)
    assert sum(e.type in TERMINAL for e in sink.events) == 1
    if case.max_calls is not None:
        assert sum(e.type == "model.started" for e in sink.events) <= case.max_calls


@settings(max_examples=60)
@given(cases())
def test_steps_begin_when_their_last_predecessor_ends(case: Case) -> None:
    sink = RecordingSink()
    case.cancel_after, case.deadline, case.max_calls, case.planning = None, 5.0, None, "ok"
    asyncio.run(_run(case, sink))
    ended = {e.step: e.seq for e in sink.events if e.type in {"step.answered", "step.failed"}}
    ready = {e.step: e.seq for e in sink.events if e.type == "step.ready"}
    assert set(ready) == set(range(len(case.dependencies)))
    for step, parents in enumerate(case.dependencies):
        assert all(ended[parent] < ready[step] for parent in parents)


async def test_a_skewed_diamond_ends_on_its_critical_path() -> None:
    seconds = {"q0": 0.1, "q1": 0.1, "q2": 0.3, "q3": 0.0}

    async def find(query: str) -> list[str]:
        await anyio.sleep(seconds.get(query.split(" ", maxsplit=1)[0], 0.0))
        return ["x"]

    def reply(name: str, user: str) -> Any:
        if name == "plan":
            return plan_reply(("q0", []), ("q1 <dep:0>", [0]), ("q2", []), ("q3 <dep:1> <dep:2>", [1, 2]))
        return final_reply("x") if name == "synthesis" else step_reply("x")

    sink = RecordingSink()
    await open_hop(reply, FakeTool("text", find), sink=sink).ask("Q?")
    times = {(e.type, e.step): e.time for e in sink.events}
    # Its own order, not the clock, is what a busy machine cannot change: q1 begins while q2 still runs.
    assert times["step.ready", 1] < times["step.answered", 2]
    assert times["step.ready", 3] >= times["step.answered", 2]


@pytest.mark.parametrize("calls", [10])
async def test_a_cap_on_money_holds_for_calls_at_once(calls: int) -> None:
    """Ten steps at once, each worth about a tenth of what the first would need: the sum never passes the cap."""
    sink = RecordingSink()

    async def reply(name: str, user: str) -> Any:
        if name == "plan":
            return plan_reply(*((f"q{i}", []) for i in range(calls)))
        await anyio.sleep(0.01)
        return final_reply("x") if name == "synthesis" else step_reply("x")

    # At a thousand dollars a million tokens a call reserves more than a dollar for its output alone.
    answer = await open_hop(reply, sink=sink, max_cost=6.0, input_price=100.0, output_price=1000.0).ask("Q?")
    assert answer.usage.cost <= 6.0
    assert "MAX_COST" in (answer.reason or "")
    refused = [e for e in sink.events if e.type == "step.failed" and e.error == "BudgetExceededError"]
    assert 0 < len(refused) < calls
