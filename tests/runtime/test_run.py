"""Runs end to end with a scripted model: plans, fallbacks, deadlines, budgets, cancellation."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from helpers import check_log, final_reply, open_hop, plan_reply, question_of, step_reply

from hoptrail.errors import (
    CorpusMismatchError,
    HoptrailError,
    ModelAccessError,
    QuestionError,
    UnknownPlannerError,
    UnknownToolError,
)
from hoptrail.models.retries import translate
from hoptrail.prompts.step import STEP
from hoptrail.runtime.answer import NOT_FOUND
from hoptrail.runtime.fold import answer_from_events
from hoptrail.runtime.trace import read_trace
from hoptrail.testing.doubles import FakeTool, RecordingSink

TWO_HOPS = plan_reply(("Who sang Harbour Lights?", []), ("Where was <dep:0> born?", [0]))


def two_hops(name: str, user: str) -> Any:
    if name == "plan":
        return TWO_HOPS
    if name == "synthesis":
        return final_reply("Voss")
    return step_reply("Ilse Brandvold" if question_of(user).startswith("Who sang") else "Voss")


def passages(query: str) -> list[str]:
    return [f"Ilse Brandvold of Voss: {query}", f"other {query}"]


async def test_a_plan_is_run_with_its_slots_bound() -> None:
    sink, tool = RecordingSink(), FakeTool("text", passages)
    answer = await open_hop(two_hops, tool, sink=sink).ask("Where was the singer of Harbour Lights born?")
    assert answer.text == "Voss"
    assert [step.answer for step in answer.steps] == ["Ilse Brandvold", "Voss"]
    assert tool.queries[1:] == ["Who sang Harbour Lights?", "Where was Ilse Brandvold born?"]
    assert (answer.abstained, answer.partial, answer.initial_summary) == (False, False, "I0")
    assert answer.usage.calls == 4
    retrieved = {hit.id for hit in answer.evidence}
    assert [c.number for c in answer.citations] == [1, 2]
    assert {c.id for c in answer.citations} <= retrieved
    check_log(sink.events)
    assert "".join(e.text for e in sink.events if e.type == "answer.delta") == "Voss"


async def test_memory_is_the_direct_predecessors_summaries_only() -> None:
    seen: dict[str, str] = {}

    def reply(name: str, user: str) -> Any:
        if name == "plan":
            return plan_reply(("a?", []), ("b <dep:0>?", [0]), ("c?", []), ("d <dep:1> <dep:2>?", [2, 1]))
        if name == "synthesis":
            return final_reply("x")
        asked = question_of(user)
        seen[asked[0]] = user
        return step_reply(asked[0].upper(), summary=f"summary-{asked[0]}")

    await open_hop(reply).ask("Q?")
    assert "- I0" in seen["a"]
    assert "summary-" not in seen["a"]
    assert "summary-a" in seen["b"]
    memory = seen["d"].split("[[memory")[1]
    assert memory.index("I0") < memory.index("summary-c") < memory.index("summary-b")
    assert "summary-a" not in memory


@pytest.mark.parametrize(
    ("written", "event"),
    [
        ("I would first look for the singer and then for the town.", "plan.rejected"),
        ({"summary": "", "steps": []}, "plan.rejected"),
        ({"steps": "one, two"}, "plan.rejected"),
        (plan_reply(("a <dep:1>?", [1]), ("b <dep:0>?", [0])), "plan.rejected"),
        (plan_reply(("a?", [0]), ("b <dep:0>?", [])), "plan.repaired"),
        (plan_reply(("a?", [7]), ("b <dep:9>?", [])), "plan.repaired"),
        ({"steps": [{"id": 3, "question": "a?", "tool": "web"}, {"id": 3, "question": "b $100?"}]}, "plan.repaired"),
        (plan_reply(*((f"q{i}?", []) for i in range(200))), "plan.repaired"),
        (
            '```json\n{"summary": "", "steps": [{"id": 0, "question": "a\nb?", "depends_on": [], "tool": "text"}]}\n```',
            None,
        ),
        ("[" * 5000, "plan.rejected"),
        ('{"steps": [', "plan.rejected"),
        ("", "plan.rejected"),
    ],
)
async def test_a_hostile_plan_is_repaired_or_degraded(written: Any, event: str | None) -> None:
    sink = RecordingSink()

    def reply(name: str, user: str) -> Any:
        return written if name == "plan" else final_reply("x") if name == "synthesis" else step_reply("x")

    answer = await open_hop(reply, sink=sink).ask("Q?")
    assert answer.text == "x"
    assert {e for e in sink.types() if e in {"plan.rejected", "plan.repaired"}} == ({event} if event else set())
    if event == "plan.rejected":
        assert answer.plan.is_single
    check_log(sink.events)


async def test_an_answer_that_looks_like_a_slot_stays_text() -> None:
    tool = FakeTool("text", passages)

    def reply(name: str, user: str) -> Any:
        if name == "plan":
            return plan_reply(("a?", []), ("b?", []), ("c <dep:0>?", [0, 1]))
        return final_reply("x") if name == "synthesis" else step_reply("<dep:1> {0} $1")

    answer = await open_hop(reply, tool).ask("Q?")
    assert answer.steps[2].question == "c <dep:1> {0} $1?"


@pytest.mark.parametrize("planner", ["dag", "single"])
@pytest.mark.parametrize("planned", ["prose", plan_reply(("What is <dep:0>?", []))])
async def test_a_question_that_looks_like_a_slot_is_asked(planner: str, planned: Any) -> None:
    def reply(name: str, user: str) -> Any:
        return planned if name == "plan" else final_reply("x") if name == "synthesis" else step_reply("x")

    for overrides in ({}, {"max_calls": 0}, {"run_deadline_s": 0.0001}):
        sink = RecordingSink()
        answer = await open_hop(reply, sink=sink, **overrides).ask("What is <dep:0>?", planner=planner)
        assert answer.question == "What is <dep:0>?"
        assert answer.text in {"x", NOT_FOUND}
        check_log(sink.events)


async def test_the_next_tool_takes_over() -> None:
    sink = RecordingSink()

    def broken(query: str) -> list[str]:
        raise KeyError(query)

    tools = FakeTool("text", broken), FakeTool("lexical", passages), FakeTool("empty", lambda _: [])
    answer = await open_hop(two_hops, *tools, sink=sink).ask("Q?", planner="single")
    assert answer.steps[0].tool == "lexical"
    assert [(e.failed, e.next, e.reason) for e in sink.events if e.type == "tool.fallback"] == [
        ("text", "lexical", "failed")
    ]
    sink.events.clear()
    await open_hop(two_hops, *tools, sink=sink).ask("Q?", planner="single", tool="empty")
    assert [(e.failed, e.reason) for e in sink.events if e.type == "tool.fallback"] == [
        ("empty", "no hits"),
        ("text", "failed"),
    ]


async def test_a_failed_step_is_not_found_and_its_dependents_go_on() -> None:
    sink = RecordingSink()

    def find(query: str) -> list[str]:
        if query.startswith("Who sang"):
            raise OSError("disk on fire")
        return passages(query)

    answer = await open_hop(two_hops, FakeTool("text", find), FakeTool("lexical", find), sink=sink).ask("Q?")
    assert (answer.steps[0].answer, answer.steps[0].summary) == (NOT_FOUND, "")
    assert "disk on fire" in (answer.steps[0].error or "")
    assert answer.steps[1].answer == "Voss"
    assert answer.steps[1].question == "Where was Who sang Harbour Lights born?"
    assert answer.partial
    check_log(sink.events)


async def test_a_step_that_never_returns_is_stopped_by_its_deadline() -> None:
    sink = RecordingSink()

    async def find(query: str) -> list[str]:
        if query.startswith("Who sang"):
            await anyio.sleep_forever()
        return passages(query)

    hop = open_hop(two_hops, FakeTool("text", find), sink=sink, step_deadline_s=0.05)
    answer = await hop.ask("Q?")
    assert "did not end within 0.05 s" in (answer.steps[0].error or "")
    assert answer.steps[1].answer == "Voss"
    check_log(sink.events)


async def test_the_runs_deadline_gives_what_is_known() -> None:
    sink = RecordingSink()

    async def reply(name: str, user: str) -> Any:
        if name == "step" and "born" in question_of(user):
            await anyio.sleep_forever()
        return two_hops(name, user)

    answer = await open_hop(reply, sink=sink, run_deadline_s=0.3).ask("Q?")
    assert (answer.text, answer.partial, answer.abstained) == (NOT_FOUND, True, True)
    assert answer.steps[0].answer == "Ilse Brandvold"
    assert answer.evidence
    assert answer.usage.calls == 3
    assert sink.types()[-1] == "run.expired"
    check_log(sink.events)


async def test_cancelling_the_caller_ends_the_run() -> None:
    sink, running = RecordingSink(), 0

    async def reply(name: str, user: str) -> Any:
        nonlocal running
        if name != "step":
            return two_hops(name, user)
        running += 1
        try:
            await anyio.sleep_forever()
        finally:
            running -= 1

    with anyio.move_on_after(0.2):
        await open_hop(reply, sink=sink).ask("Q?")
    assert running == 0
    assert sink.types()[-1] == "run.cancelled"
    check_log(sink.events)


@pytest.mark.parametrize(("cap", "value"), [("max_calls", 2), ("max_tokens", 1000), ("max_calls", 0)])
async def test_a_cap_stops_the_run_with_what_is_known(cap: str, value: int) -> None:
    sink = RecordingSink()
    answer = await open_hop(two_hops, sink=sink, **{cap: value}).ask("Q?")
    assert answer.partial
    assert cap.upper() in (answer.reason or "")
    assert answer.usage.calls <= 2
    check_log(sink.events)


async def test_a_cap_on_money_needs_a_price() -> None:
    with pytest.raises(HoptrailError, match="HOPTRAIL_INPUT_PRICE"):
        await open_hop(two_hops, max_cost=1.0).ask("Q?")
    answer = await open_hop(two_hops, max_cost=1e-9, input_price=1.0, output_price=1.0).ask("Q?")
    assert answer.usage.cost == 0
    assert "MAX_COST" in (answer.reason or "")


async def test_malformed_output_is_asked_for_once_more() -> None:
    sink, tries = RecordingSink(), 0

    def reply(name: str, user: str) -> Any:
        nonlocal tries
        tries += 1
        return "no json" if tries == 1 else step_reply("Voss")

    answer = await open_hop(reply, sink=sink).ask("Q?", planner="single")
    assert (answer.text, answer.usage.calls) == ("Voss", 2)
    assert "model.retried" in sink.types()


async def test_an_unusable_step_output_fails_the_step_only() -> None:
    answer = await open_hop(lambda name, user: "never json").ask("Q?")
    assert answer.abstained
    assert answer.partial


async def test_a_model_that_cannot_be_used_fails_the_run() -> None:
    sink = RecordingSink()

    def reply(name: str, user: str) -> Any:
        raise ModelAccessError("The endpoint refused the key.")

    for planner in ("dag", "single"):
        with pytest.raises(ModelAccessError):
            await open_hop(reply, sink=sink).ask("Q?", planner=planner)
        assert sink.types()[-1] == "run.failed"
        check_log(sink.events)
        sink.events.clear()


async def test_a_stream_can_be_followed_replayed_and_left(tmp_path: Path) -> None:
    hop = open_hop(two_hops, trace=tmp_path / "trace.jsonl")
    async with hop.stream("Q?") as run:
        events = [event async for event in run]
        answer = await run.answer()
    check_log(events)
    assert [event async for event in run.events(3)] == events[3:]
    await hop.aclose()
    recorded = read_trace(tmp_path / "trace.jsonl")[answer.run_id]
    assert recorded == events
    assert answer_from_events(recorded) == answer


async def test_leaving_a_stream_cancels_its_run() -> None:
    async def reply(name: str, user: str) -> Any:
        await anyio.sleep_forever()

    hop = open_hop(reply)
    async with hop.stream("Q?") as run:
        assert (await anext(run)).type == "run.started"
    assert [e async for e in run.events()][-1].type == "run.cancelled"
    async with hop.stream("Q?") as unread:
        pass
    check_log([e async for e in unread.events()])


@pytest.mark.parametrize("content", ["off", "hashed"])
async def test_a_redacted_trace_holds_no_text(tmp_path: Path, content: str) -> None:
    hop = open_hop(two_hops, FakeTool("text", passages), trace=tmp_path / "t.jsonl", trace_content=content)
    await hop.ask("Where was the singer of Harbour Lights born?")
    await hop.aclose()
    text = (tmp_path / "t.jsonl").read_text()
    for word in ("Harbour", "Voss", "Ilse", "singer", "other"):
        assert word not in text, word
    assert len(read_trace(tmp_path / "t.jsonl")) == 1


async def test_what_is_wrong_with_a_request_is_said_before_a_run_begins() -> None:
    hop = open_hop(two_hops)
    for question in ("", "  \n ", "x" * 100_000):
        with pytest.raises(QuestionError):
            await hop.ask(question)
    with pytest.raises(UnknownPlannerError, match="dag, single"):
        await hop.ask("Q?", planner="magic")
    with pytest.raises(UnknownToolError, match="text"):
        await hop.ask("Q?", tool="magic")


async def test_a_plan_can_be_had_without_running_it() -> None:
    tool = FakeTool("text", passages)
    plan = await open_hop(two_hops, tool).plan("Q?")
    assert [step.depends_on for step in plan.steps] == [(), (0,)]
    assert tool.queries == ["Q?"]


def test_the_prompts_and_the_runtime_agree_on_what_is_not_found() -> None:
    assert f'"{NOT_FOUND}"' in STEP.instructions


def test_errors_are_one_line_without_the_key() -> None:
    error = translate(OSError("no\nroute\nsk-secret" * 100), "m")
    assert "\n" not in str(error)
    assert len(str(error)) < 600


@pytest.mark.parametrize("guided", [True, False])
async def test_what_no_fallback_can_mend_is_told_as_it_is(guided: bool) -> None:
    def find(query: str) -> list[str]:
        raise CorpusMismatchError("corpus", "embedding_model", stored="a", given="b")

    with pytest.raises(CorpusMismatchError, match="embedding_model 'a'"):
        await open_hop(two_hops, FakeTool("text", find), guided=guided).ask("Q?")


async def test_a_small_model_plans_while_the_first_retrieval_runs() -> None:
    sink = RecordingSink()

    async def find(query: str) -> list[str]:
        await anyio.sleep(0.05)
        return passages(query)

    answer = await open_hop(two_hops, FakeTool("text", find), sink=sink, guided=True).ask("Q?")
    assert answer.text == "Voss"
    assert sink.types()[1:3] in (["model.started", "tool.started"], ["tool.started", "model.started"])
    assert (await open_hop(lambda name, user: "prose", guided=True).ask("Q?")).plan.is_single
    check_log(sink.events)


async def test_a_tool_that_returns_something_else_has_failed() -> None:
    sink, tool = RecordingSink(), FakeTool("text", passages)

    async def retrieve(query: str, *, k: int) -> Any:
        return ["no evidence"]

    tool.retrieve = retrieve  # type: ignore[method-assign]
    answer = await open_hop(two_hops, tool, sink=sink).ask("Q?", planner="single")
    assert "returned list" in (answer.reason or "")
    check_log(sink.events)


async def test_a_tools_own_timeout_is_not_taken_for_ours() -> None:
    def find(query: str) -> list[str]:
        raise TimeoutError("the database took too long")

    answer = await open_hop(two_hops, FakeTool("text", find)).ask("Q?", planner="single")
    assert "the database took too long" in (answer.reason or "")


async def test_a_reader_with_a_time_limit_can_go_on() -> None:
    async def reply(name: str, user: str) -> Any:
        await anyio.sleep(0.05)
        return two_hops(name, user)

    async with open_hop(reply).stream("Q?") as run:
        seen, timeouts = [], 0
        while not seen or not seen[-1].type.startswith("run.f"):
            try:
                seen.append(await asyncio.wait_for(anext(run), 0.01))
            except TimeoutError:
                timeouts += 1
    assert timeouts > 0
    check_log(seen)


async def test_a_closed_one_says_so() -> None:
    hop = open_hop(two_hops)
    await hop.aclose()
    await hop.aclose()
    with pytest.raises(HoptrailError, match="closed"):
        await hop.ask("Q?")


async def test_a_plan_has_the_runs_deadline_and_a_whole_log() -> None:
    async def reply(name: str, user: str) -> Any:
        await anyio.sleep_forever()

    sink = RecordingSink()
    with pytest.raises(HoptrailError, match="HOPTRAIL_RUN_DEADLINE_S"):
        await open_hop(reply, sink=sink, run_deadline_s=0.05).plan("Q?")
    check_log(sink.events)


async def test_a_trace_goes_on_after_a_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(b'{"run_id":"dead","seq":0,"ti')
    hop = open_hop(two_hops, trace=file)
    answer = await hop.ask("Q?")
    await hop.aclose()
    assert answer_from_events(read_trace(file)[answer.run_id]) == answer


async def test_lone_surrogates_of_a_model_are_replaced() -> None:
    answer = await open_hop(lambda name, user: step_reply("V\udcff\ud800oss")).ask("Q?", planner="single")
    assert answer.text == "V??oss"
    answer.model_dump_json()
