"""The scripted server, driven by the true openai client."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from hoptrail.testing.openai_server import Answer, Call, Failure, Garbage, HangUp, ScriptedOpenAI, in_turn

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "what is it"}]}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "give", "parameters": {"type": "object"}}}


@asynccontextmanager
async def client_of(server: ScriptedOpenAI, key: str = "k") -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key=key, max_retries=0, timeout=5) as client:
        yield client


async def settled(server: ScriptedOpenAI) -> None:
    with anyio.fail_after(1):
        await server.idle()


async def collect(stream: openai.AsyncStream[ChatCompletionChunk], pieces: list[str | None]) -> None:
    async for chunk in stream:
        pieces.append(chunk.choices[0].delta.content)  # noqa: PERF401 - what came before a break is wanted


async def test_whole_and_streamed_answers_say_the_same() -> None:
    async with ScriptedOpenAI(lambda body: "one two  three") as server, client_of(server) as client:
        whole = await client.chat.completions.create(**ASK)
        stream = await client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert whole.choices[0].message.content == streamed == "one two  three"
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage == chunks[-1].usage
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == 3
    assert [request.end for request in server.requests] == ["answered", "answered"]
    assert server.requests[0].body["messages"] == ASK["messages"]
    assert server.requests[0].headers["authorization"] == "Bearer k"


async def test_a_dictionary_is_the_output_that_was_asked_for() -> None:
    async with ScriptedOpenAI(lambda body: {"answer": "Rome"}) as server, client_of(server) as client:
        as_text = await client.chat.completions.create(**ASK)
        as_tool = await client.chat.completions.create(**ASK, tools=[TOOL])
        stream = await client.chat.completions.create(**ASK, tools=[TOOL], stream=True)
        deltas = [chunk.choices[0].delta async for chunk in stream]
    assert json.loads(as_text.choices[0].message.content or "") == {"answer": "Rome"}
    [call] = as_tool.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("give", {"answer": "Rome"})
    assert as_tool.choices[0].finish_reason == "tool_calls"
    [streamed] = [part for delta in deltas for part in delta.tool_calls or []]
    assert streamed.function is not None
    assert streamed.function.arguments == call.function.arguments


async def test_arguments_may_be_cut_off() -> None:
    reply = Answer(calls=(Call("give", '{"answer": "Ro'),))
    async with ScriptedOpenAI(lambda body: reply) as server, client_of(server) as client:
        answer = await client.chat.completions.create(**ASK, tools=[TOOL])
    [call] = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.arguments == '{"answer": "Ro'


async def test_models_are_listed_and_other_paths_are_not_found() -> None:
    async with ScriptedOpenAI(lambda body: "x") as server, client_of(server) as client:
        assert [model.id async for model in client.models.list()] == ["scripted"]
        with pytest.raises(openai.NotFoundError):
            await client.embeddings.create(model="m", input="x")


async def test_a_wrong_key_is_refused() -> None:
    async with ScriptedOpenAI(lambda body: "x", api_key="right") as server:
        async with client_of(server, "wrong") as client:
            with pytest.raises(openai.AuthenticationError, match="Incorrect API key"):
                await client.chat.completions.create(**ASK)
        assert server.requests == []
        async with client_of(server, "right") as client:
            await client.chat.completions.create(**ASK)
        assert len(server.requests) == 1


async def test_failures_come_in_turn_with_their_headers() -> None:
    handler = in_turn(Failure(429, "slow down", {"Retry-After": "7"}), Failure(503), "at last")
    async with ScriptedOpenAI(handler) as server, client_of(server) as client:
        with pytest.raises(openai.RateLimitError, match="slow down") as limited:
            await client.chat.completions.create(**ASK)
        assert limited.value.response.headers["retry-after"] == "7"
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(**ASK)
        for _ in range(2):
            assert (await client.chat.completions.create(**ASK)).choices[0].message.content == "at last"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_broken_connection_is_not_the_clients_doing(stream: bool) -> None:
    for reply in (HangUp(), Answer("one two", drop_after=1 if stream else 0)):
        async with ScriptedOpenAI(lambda body, reply=reply: reply) as server, client_of(server) as client:
            with pytest.raises(openai.APIConnectionError):  # noqa: PT012 - it may break in either
                answer = await client.chat.completions.create(**ASK, stream=stream)
                if isinstance(answer, openai.AsyncStream):
                    [chunk async for chunk in answer]
            await settled(server)
        assert [request.end for request in server.requests] == ["broken"]


async def test_pieces_before_a_break_arrive() -> None:
    seen: list[str | None] = []
    async with ScriptedOpenAI(lambda body: Answer("a b c d", drop_after=2)) as server, client_of(server) as client:
        stream = await client.chat.completions.create(**ASK, stream=True)
        with pytest.raises(openai.APIConnectionError):
            await collect(stream, seen)
    assert seen == ["a", " b"]


async def test_a_stall_lasts_until_the_client_leaves() -> None:
    async with ScriptedOpenAI(lambda body: Answer("a b c", stall_after=1)) as server, client_of(server) as client:
        stream = await client.chat.completions.create(**ASK, stream=True)
        seen: list[str | None] = []
        with anyio.move_on_after(0.2) as watch:
            await collect(stream, seen)
        assert (seen, watch.cancelled_caught, server.in_flight) == (["a"], True, 1)
        await stream.close()
        await settled(server)
        assert server.requests[0].end == "disconnected"


async def test_leaving_stops_a_handler_that_waits() -> None:
    ended = anyio.Event()

    async def slow(body: dict[str, Any]) -> str:
        try:
            await anyio.sleep(30)
        finally:
            ended.set()
        return "never"

    async with ScriptedOpenAI(slow) as server, client_of(server) as client:
        with anyio.move_on_after(0.1):
            await client.chat.completions.create(**ASK)
        with anyio.fail_after(1):
            await ended.wait()
        await settled(server)
        assert server.requests[0].end == "disconnected"


async def test_garbage_is_sent_as_it_is() -> None:
    half = b'{"id": "x", "choices": [{"mess'
    async with ScriptedOpenAI(lambda body: Garbage(half)) as server:
        async with httpx2.AsyncClient() as client:
            answer = await client.post(f"{server.base_url}/chat/completions", json=ASK)
        async with client_of(server) as openai_client:
            with pytest.raises(json.JSONDecodeError):
                await openai_client.chat.completions.create(**ASK)
    assert answer.content == half


async def test_requests_in_flight_are_counted_and_paced() -> None:
    async with (
        ScriptedOpenAI(lambda body: Answer("a b c", delay_s=0.1, gap_s=0.05)) as server,
        client_of(server) as client,
    ):

        async def ask() -> None:
            [chunk async for chunk in await client.chat.completions.create(**ASK, stream=True)]

        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
        took = anyio.current_time() - began
        await settled(server)
    assert server.most_in_flight == 5
    assert 0.2 <= took < 1.5


async def test_a_faulty_script_is_reported_when_the_block_ends() -> None:
    def faulty(body: dict[str, Any]) -> str:
        raise KeyError("no such question")

    with pytest.raises(KeyError, match="no such question"):  # noqa: PT012 - it is raised when the block ends
        async with ScriptedOpenAI(faulty) as server, client_of(server) as client:
            with pytest.raises(openai.InternalServerError, match="KeyError"):
                await client.chat.completions.create(**ASK)


async def test_closing_ends_what_is_open() -> None:
    async with openai.AsyncOpenAI(base_url="http://x/v1", api_key="k", max_retries=0) as client:
        async with ScriptedOpenAI(lambda body: Answer("a b", stall_after=1)) as server:
            client.base_url = server.base_url
            stream = await client.chat.completions.create(**ASK, stream=True)
        assert server.in_flight == 0
        with pytest.raises(openai.APIConnectionError), anyio.fail_after(2):
            [chunk async for chunk in stream]
