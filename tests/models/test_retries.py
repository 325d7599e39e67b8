"""Retries and the meaning of errors: the true openai client against the scripted server."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import openai
import pytest
from pydantic_ai import exceptions as ai
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest, ModelResponse

from hoptrail.config import Settings
from hoptrail.errors import ModelAccessError, ModelError, ModelFileError, ModelUnavailableError
from hoptrail.models import language, retries
from hoptrail.models.base import LanguageModel
from hoptrail.models.language import open_language_model
from hoptrail.models.retries import RetryNotice, retry_observer, translate
from hoptrail.testing.openai_server import Answer, Failure, Garbage, HangUp, Reply, ScriptedOpenAI, in_turn

KEY = "sk-very-secret-0123456789"
ASK = [ModelRequest.user_text_prompt("Who?")]


@asynccontextmanager
async def opened(base_url: str, **overrides: Any) -> AsyncIterator[LanguageModel]:
    model = await open_language_model(Settings.load(base_url=base_url, model="scripted", api_key=KEY, **overrides))
    try:
        yield model
    finally:
        await model.aclose()


@contextmanager
def notices() -> Iterator[list[RetryNotice]]:
    seen: list[RetryNotice] = []
    token = retry_observer.set(seen.append)
    try:
        yield seen
    finally:
        retry_observer.reset(token)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backoff without the time it takes; the waits are still told to the observer."""

    def quick(attempts: int, wrapped: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncBaseTransport:
        transport = retries.retrying_transport(attempts, wrapped)
        transport.config["sleep"] = lambda seconds: anyio.lowlevel.checkpoint()
        return transport

    monkeypatch.setattr(language, "retrying_transport", quick)


async def ask(model: LanguageModel) -> str:
    return text_of(await model_request(model.model, ASK))


def text_of(response: ModelResponse) -> str:
    return response.text or ""


async def failure(*replies: Reply, **overrides: Any) -> tuple[ModelError, ScriptedOpenAI]:
    """What a call comes to that the server answers so."""
    async with ScriptedOpenAI(in_turn(*replies)) as server, opened(server.base_url, **overrides) as model:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is, it is translated
            await ask(model)
        with anyio.fail_after(1):
            await server.idle()
    error = translate(raised.value, model.name)
    assert isinstance(error, ModelError)
    check_message(error)
    return error, server


def check_message(error: Exception) -> None:
    message = str(error)
    assert message.isprintable()
    assert len(message) <= 300
    assert "secret" not in message


async def test_an_outage_that_ends_is_not_noticed(no_waiting: None) -> None:
    handler = in_turn(*[Failure(503)] * 3, "at last")
    async with ScriptedOpenAI(handler) as server, opened(server.base_url) as model:
        with notices() as seen:
            assert await ask(model) == "at last"
    assert [request.end for request in server.requests] == ["answered"] * 4
    assert [(notice.attempt, notice.reason) for notice in seen] == [(n, "HTTP 503") for n in (1, 2, 3)]
    assert all(0 <= notice.wait_s <= 2**n for n, notice in enumerate(seen))
    assert len({str(request.body) for request in server.requests}) == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_status_that_may_pass_is_tried_again(no_waiting: None, status: int) -> None:
    async with ScriptedOpenAI(in_turn(Failure(status), "ok")) as server, opened(server.base_url) as model:
        assert await ask(model) == "ok"
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_refusal_is_not(status: int) -> None:
    error, server = await failure(Failure(status, "no"), "ok")
    assert isinstance(error, ModelAccessError)
    assert len(server.requests) == 1


async def test_attempts_end(no_waiting: None) -> None:
    for attempts in (1, 3):
        error, server = await failure(Failure(503), retry_attempts=attempts)
        assert isinstance(error, ModelUnavailableError)
        assert server.base_url.removesuffix("/v1") in str(error)
        assert "HTTP 503" in str(error)
        assert len(server.requests) == attempts


async def test_retry_after_in_seconds_is_kept() -> None:
    reply = Failure(429, headers={"Retry-After": "1"})
    async with ScriptedOpenAI(in_turn(reply, "ok")) as server, opened(server.base_url) as model:
        began = anyio.current_time()
        with notices() as seen:
            assert await ask(model) == "ok"
    assert 1.0 <= anyio.current_time() - began < 3.0
    assert seen == [RetryNotice(1, 1.0, "HTTP 429")]


@pytest.mark.parametrize(("seconds", "least", "most"), [(30, 28, 30), (7200, 60, 60), (-30, 0, 1)])
async def test_retry_after_as_a_date_is_kept_up_to_a_minute(
    no_waiting: None, seconds: int, least: float, most: float
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
    reply = Failure(503, headers={"Retry-After": date})
    async with ScriptedOpenAI(in_turn(reply, "ok")) as server, opened(server.base_url) as model:
        with notices() as seen:
            assert await ask(model) == "ok"
    assert least <= seen[0].wait_s <= most


@pytest.mark.parametrize("value", ["soon", "", "-5", "1.5", "99999999999999999999"])
async def test_a_strange_retry_after_does_no_harm(no_waiting: None, value: str) -> None:
    reply = Failure(503, headers={"Retry-After": value})
    async with ScriptedOpenAI(in_turn(reply, "ok")) as server, opened(server.base_url) as model:
        with notices() as seen:
            assert await ask(model) == "ok"
    assert 0 <= seen[0].wait_s <= 60


async def test_a_connection_that_breaks_is_tried_again(no_waiting: None) -> None:
    async with ScriptedOpenAI(in_turn(HangUp(), "ok")) as server, opened(server.base_url) as model:
        with notices() as seen:
            assert await ask(model) == "ok"
    assert [notice.reason for notice in seen] in (["RemoteProtocolError"], ["ReadError"])


async def test_an_endpoint_that_is_not_there(no_waiting: None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with notices() as seen:
            async with opened(f"{url}/v1") as model:
                with pytest.raises(ai.ModelAPIError) as raised:
                    await ask(model)
    error = translate(raised.value, model.name)
    assert isinstance(error, ModelUnavailableError)
    assert url in str(error)
    assert "HOPTRAIL_BASE_URL" in str(error)
    assert [notice.reason for notice in seen] == ["ConnectError"] * 3


async def test_an_answer_that_does_not_come_is_left(no_waiting: None) -> None:
    error, server = await failure(Answer("late", delay_s=30), model_timeout_s=0.2, retry_attempts=2)
    assert isinstance(error, ModelUnavailableError)
    assert "Timeout" in str(error)
    assert [request.end for request in server.requests] == ["disconnected"] * 2


async def test_a_stalled_stream_is_not_hidden() -> None:
    pieces: list[str] = []

    async def read(model: LanguageModel) -> None:
        async with model_request_stream(model.model, ASK) as stream:
            async for _ in stream:
                pieces.append(text_of(stream.get()))  # noqa: PERF401 - what came before the stall is wanted

    async with (
        ScriptedOpenAI(lambda body: Answer("one two three", stall_after=2)) as server,
        opened(server.base_url) as model,
    ):
        with notices() as seen, anyio.move_on_after(0.5) as watch:
            await read(model)
        with anyio.fail_after(0.5):
            await server.idle()
    assert watch.cancelled_caught
    assert pieces[-1] == "one two"
    assert (len(server.requests), seen) == (1, [])


async def test_a_stream_that_breaks_is_an_outage_and_not_sent_again() -> None:
    async def read(model: LanguageModel) -> None:
        async with model_request_stream(model.model, ASK) as stream:
            async for _ in stream:
                pass

    async with (
        ScriptedOpenAI(lambda body: Answer("one two three", drop_after=2)) as server,
        opened(server.base_url) as model,
    ):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is, it is translated
            await read(model)
    error = translate(raised.value, model.name)
    assert isinstance(error, ModelUnavailableError)
    check_message(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Garbage(b'{"id": "x", "choices": [{"mess'),
        Garbage(b"<html>login</html>", content_type="text/html"),
        Garbage(b"\xff\xfe"),
    ],
)
async def test_a_body_that_is_no_completion_is_an_error_of_the_model(reply: Garbage) -> None:
    error, server = await failure(reply)
    assert type(error) is ModelError
    assert len(server.requests) == 1


async def test_cancelling_during_a_wait_ends_it_at_once() -> None:
    reply = Failure(503, headers={"Retry-After": "30"})
    async with ScriptedOpenAI(lambda body: reply) as server, opened(server.base_url) as model:
        began = anyio.current_time()
        with anyio.move_on_after(0.2):
            await ask(model)
        assert anyio.current_time() - began < 0.7
    assert (len(server.requests), server.in_flight) == (1, 0)


async def test_observers_are_told_of_their_own_calls_only(no_waiting: None) -> None:
    heard: dict[str, int] = {}

    async def call(model: LanguageModel, name: str) -> None:
        with notices() as seen:
            await ask(model)
        heard[name] = len(seen)

    replies = in_turn(Failure(503), Failure(503), "ok")
    async with (
        ScriptedOpenAI(replies) as first,
        ScriptedOpenAI(lambda body: "ok") as second,
        opened(first.base_url) as one,
        opened(second.base_url) as other,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(call, one, "failing")
        tasks.start_soon(call, other, "sound")
    assert heard == {"failing": 2, "sound": 0}


async def test_a_wrong_key_is_told_so_without_it() -> None:
    message = f"Incorrect API key provided: {KEY}."
    for status in (401, 403):
        error, _ = await failure(Failure(status, message))
        assert isinstance(error, ModelAccessError)
        assert "refused the key" in str(error)
        assert "HOPTRAIL_API_KEY" in str(error)


async def test_an_unknown_model_is_told_so() -> None:
    error, _ = await failure(Failure(404, "The model `scripted` does not exist"))
    assert "HOPTRAIL_MODEL" in str(error)


async def test_a_request_that_is_too_long_is_told_so() -> None:
    error, _ = await failure(
        Failure(400, "the request exceeds the available context size (8192 tokens)\n" + "long " * 200)
    )
    assert isinstance(error, ModelAccessError)
    assert "HOPTRAIL_PASSAGES_PER_STEP" in str(error)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), ModelUnavailableError),
        (ConnectionResetError(104, "reset\nby peer"), ModelUnavailableError),
        (httpx2.ConnectTimeout(f"Bearer {KEY}\n"), ModelUnavailableError),
        (
            openai.APITimeoutError(request=httpx2.Request("POST", "https://me:secret@host/v1?key=secret")),
            ModelUnavailableError,
        ),
        (ai.UserError(f"key {KEY} is wrong " * 20), ModelAccessError),
        (ai.UnexpectedModelBehavior("odd\nanswer " * 100), ModelError),
        (RuntimeError(), ModelError),
        (ModelFileError("already one of ours"), ModelFileError),
    ],
)
def test_every_error_has_its_place_in_the_tree(error: Exception, kind: type[ModelError]) -> None:
    translated = translate(error, "m")
    assert type(translated) is kind
    check_message(translated)


def test_causes_that_go_in_circles_end() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert isinstance(translate(first, "m"), ModelError)
