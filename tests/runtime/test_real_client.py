"""The true openai client against a local server that answers by script, faults included."""

import json
import time
from typing import Any

import anyio
import pytest
from helpers import check_log, final_reply, plan_reply, question_of, step_reply

from hoptrail.client import Hoptrail
from hoptrail.config import OutputMode, Settings
from hoptrail.errors import ModelAccessError, ModelUnavailableError
from hoptrail.testing.doubles import FakeTool, RecordingSink
from hoptrail.testing.openai_server import Answer, Failure, ScriptedOpenAI, in_turn
from hoptrail.tools.registry import ToolRegistry


def open_hop(base_url: str, sink: RecordingSink, **overrides: Any) -> Hoptrail:
    chosen = {"base_url": base_url, "model": "scripted", "api_key": "sk-test-secret", **overrides}
    tools = ToolRegistry([FakeTool("text", lambda query: [f"Ilse Brandvold of Voss: {query}"])])
    return Hoptrail(Settings.load(**chosen), tools, sinks=(sink,))


def two_hops(body: dict[str, Any]) -> dict[str, Any]:
    system, user = body["messages"][0]["content"], body["messages"][-1]["content"]
    if system.startswith("You plan"):
        return plan_reply(("Who sang Harbour Lights?", []), ("Where was <dep:0> born?", [0]))
    if system.startswith("A question"):
        return final_reply("Voss")
    return step_reply("Ilse Brandvold" if question_of(user).startswith("Who") else "Voss")


@pytest.mark.parametrize("mode", ["auto", "tool", "native", "prompted"])
async def test_every_output_mode_works_over_the_wire(mode: OutputMode) -> None:
    sink = RecordingSink()
    async with ScriptedOpenAI(two_hops) as server, open_hop(server.base_url, sink, output_mode=mode) as hop:
        answer = await hop.ask("Where was the singer of Harbour Lights born?")
    assert (answer.text, answer.usage.calls) == ("Voss", 4)
    assert [step.answer for step in answer.steps] == ["Ilse Brandvold", "Voss"]
    check_log(sink.events)
    assert "".join(e.text for e in sink.events if e.type == "answer.delta") == "Voss"


async def test_an_overloaded_endpoint_is_tried_again_and_its_wait_kept() -> None:
    sink = RecordingSink()
    replies = in_turn(Failure(503), Failure(429, headers={"Retry-After": "1"}), step_reply("Voss"))
    async with ScriptedOpenAI(replies) as server, open_hop(server.base_url, sink) as hop:
        answer = await hop.ask("Q?", planner="single")
    assert answer.text == "Voss"
    retries = [e for e in sink.events if e.type == "model.retried"]
    assert [(e.attempt, e.reason) for e in retries] == [(1, "HTTP 503"), (2, "HTTP 429")]
    assert retries[1].wait == 1.0
    check_log(sink.events)


@pytest.mark.parametrize(
    ("failure", "error", "says"),
    [
        (Failure(401), ModelAccessError, "HOPTRAIL_API_KEY"),
        (Failure(404), ModelAccessError, "HOPTRAIL_MODEL"),
        (Failure(400), ModelAccessError, "400"),
        (Failure(500), ModelUnavailableError, "500"),
    ],
)
async def test_a_refusal_fails_the_run_in_one_line(failure: Failure, error: type[Exception], says: str) -> None:
    sink = RecordingSink()
    async with ScriptedOpenAI(lambda _: failure) as server, open_hop(server.base_url, sink, retry_attempts=1) as hop:
        for planner in ("dag", "single"):
            with pytest.raises(error, match=says) as caught:
                await hop.ask("Q?", planner=planner)
            assert "\n" not in str(caught.value)
            assert "secret" not in str(caught.value)
    assert "secret" not in json.dumps([e.model_dump(mode="json") for e in sink.events])


async def test_an_endpoint_that_is_not_there_fails_the_run() -> None:
    async with open_hop("http://127.0.0.1:9/v1", RecordingSink(), retry_attempts=2) as hop:
        with pytest.raises(ModelUnavailableError, match="HOPTRAIL_BASE_URL"):
            await hop.ask("Q?")


async def test_a_stream_that_stalls_after_one_token_is_left() -> None:
    sink = RecordingSink()

    def reply(body: dict[str, Any]) -> Any:
        if body.get("stream"):
            return Answer(json.dumps(final_reply("Voss")), stall_after=1)
        return two_hops(body)

    started = time.monotonic()
    async with (
        ScriptedOpenAI(reply) as server,
        open_hop(server.base_url, sink, stream_idle_s=0.3, output_mode="native") as hop,
    ):
        answer = await hop.ask("Q?")
        await anyio.sleep(0.5)
        assert server.in_flight == 0
    assert time.monotonic() - started < 10
    assert [step.answer for step in answer.steps] == ["Ilse Brandvold", "Voss"]
    assert answer.partial
    assert "sent nothing for 0.3 s" in (answer.reason or "")
    assert [e.error for e in sink.events if e.type == "model.finished"][-1] == "ModelStalledError"
    check_log(sink.events)


@pytest.mark.parametrize("streamed", [False, True])
async def test_nothing_is_in_flight_after_a_cancellation(streamed: bool) -> None:
    sink = RecordingSink()

    def reply(body: dict[str, Any]) -> Any:
        if bool(body.get("stream")) == streamed:
            return Answer("{}", stall_after=0)
        return two_hops(body)

    async with ScriptedOpenAI(reply) as server, open_hop(server.base_url, sink) as hop:
        with anyio.move_on_after(0.5):
            await hop.ask("Q?")
        assert sink.types()[-1] == "run.cancelled"
        await anyio.sleep(0.5)
        assert server.in_flight == 0
    check_log(sink.events)
