"""A local server that speaks the OpenAI API from a script, faults included.

    async def reply(body):
        return {"answer": "Paris"} if "capital" in body["messages"][-1]["content"] else Failure(503)

    async with ScriptedOpenAI(reply) as server:
        settings = Settings.load(base_url=server.base_url, model="scripted")
        ...
    assert server.in_flight == 0

It listens on a loopback port of its own and serves `/v1/models` and `/v1/chat/completions`, streamed and whole. Every answer
closes its connection. A reply is

- `Answer`: text or tool calls, at any pace, and cut off or stalled where the script says so;
- a string, which is an `Answer` of that text;
- a dictionary, which is the output that the request asks for: arguments of its first tool, or else JSON text;
- `Failure`: an HTTP status with the API's error body and any headers, such as `Retry-After`;
- `Garbage`: bytes sent as the body as they are, such as half a JSON object;
- `HangUp`: the connection is broken before the first byte.
"""

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http.client import responses
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

__all__ = [
    "Answer",
    "Call",
    "Failure",
    "Garbage",
    "Handler",
    "HangUp",
    "Received",
    "Reply",
    "ScriptedOpenAI",
    "in_turn",
]

MODEL = "scripted"
_MAX_HEAD = 65_536
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, anyio.IncompleteRead)


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` that are a string are sent as they are, valid JSON or not."""

    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True)
class Answer:
    """A completion, streamed word by word where the request asks for a stream.

    It begins after `delay_s` seconds, and `gap_s` seconds pass between two pieces. After `stall_after` pieces nothing more
    is sent, and the connection stays open; after `drop_after` pieces it is broken. An answer that is not streamed has one
    piece: with 0 it is the status line alone that arrives.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    delay_s: float = 0.0
    gap_s: float = 0.0
    stall_after: int | None = None
    drop_after: int | None = None


@dataclass(frozen=True)
class Failure:
    """An HTTP error."""

    status: int
    message: str = "the script says so"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Garbage:
    """A body that need be neither JSON nor a stream of events."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


@dataclass(frozen=True)
class HangUp:
    """The connection is broken without an answer."""


Reply = Answer | Failure | Garbage | HangUp | Mapping[str, Any] | str
Handler = Callable[[dict[str, Any]], Reply | Awaitable[Reply]]
"""From the body of a chat request to what is replied; it may wait."""


@dataclass
class Received:
    """One chat request: its headers, with lower-case names, its body, and how it ended.

    `answered`: the whole reply was sent; `disconnected`: the client left before; `broken`: the script broke it off.
    """

    headers: dict[str, str]
    body: dict[str, Any]
    end: Literal["open", "answered", "disconnected", "broken"] = "open"


def in_turn(*replies: Reply) -> Handler:
    """A handler that gives one reply after the other, and the last for ever."""
    left = list(replies)

    def reply(_body: dict[str, Any]) -> Reply:
        return left.pop(0) if len(left) > 1 else left[0]

    return reply


class _BreakOffError(Exception):
    """Raised where the script wants the connection broken."""


class ScriptedOpenAI:
    """The server, running within `async with`; `requests` are the chat requests so far, `in_flight` how many are open.

    With `api_key`, other keys are refused with 401. An exception of the handler is answered with 500, and raised when the
    block ends.
    """

    def __init__(self, handler: Handler, *, api_key: str | None = None) -> None:
        self.requests: list[Received] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.base_url = ""
        self._handler = handler
        self._key = api_key
        self._stack = AsyncExitStack()
        self._faults: list[Exception] = []
        self._ended = anyio.Event()

    async def __aenter__(self) -> Self:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(listener)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(listener.serve, self._connected)
            self._stack = stack.pop_all()
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio, not of a database
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        if self._faults and error is None:
            raise self._faults[0]

    async def idle(self) -> None:
        """Return when no request is open; within `anyio.fail_after` this checks that callers leave when they should."""
        while self.in_flight:
            await self._ended.wait()

    async def _connected(self, stream: SocketStream) -> None:
        async with stream:
            try:
                source = BufferedByteReceiveStream(stream)
                method, path, headers = _head(await source.receive_until(b"\r\n\r\n", _MAX_HEAD))
                content = await source.receive_exactly(int(headers.get("content-length", 0)))
                await self._route(stream, f"{method} {path}", headers, content)
            except _GONE:
                return

    async def _route(self, stream: SocketStream, what: str, headers: dict[str, str], content: bytes) -> None:
        if self._key is not None and headers.get("authorization") != f"Bearer {self._key}":
            await _fail(stream, Failure(401, "Incorrect API key provided."))
        elif what == "GET /v1/models":
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "hoptrail"}
            await _send(stream, 200, json.dumps({"object": "list", "data": [model]}).encode())
        elif what == "POST /v1/chat/completions":
            await self._chat(stream, Received(headers, json.loads(content)))
        else:
            await _fail(stream, Failure(404, f"There is no {what}."))

    async def _chat(self, stream: SocketStream, request: Received) -> None:
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, stream, request, tasks.cancel_scope)
                try:
                    await _reply(stream, request.body, await self._decide(request.body))
                    request.end = "answered"
                except _BreakOffError:
                    request.end = "broken"
                    await anyio.aclose_forcefully(stream)
                except _GONE:
                    request.end = "disconnected"
                tasks.cancel_scope.cancel()
        finally:
            self.in_flight -= 1
            self._ended.set()
            self._ended = anyio.Event()

    async def _watch(self, stream: SocketStream, request: Received, scope: anyio.CancelScope) -> None:
        """Stop answering when the client closes its end."""
        try:
            while True:
                await stream.receive()
        except _GONE:
            if request.end == "open":
                request.end = "disconnected"
            scope.cancel()

    async def _decide(self, body: dict[str, Any]) -> Reply:
        try:
            given = self._handler(body)
            return await given if isinstance(given, Awaitable) else given
        except Exception as error:  # noqa: BLE001 - whatever the script raises is shown where it is looked for
            self._faults.append(error)
            return Failure(500, f"The script raised {type(error).__name__}: {error}")


def _head(raw: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, target, _version = first.split(" ")
    pairs = (line.split(":", 1) for line in lines if line)
    return method, urlsplit(target).path, {name.strip().lower(): value.strip() for name, value in pairs}


async def _reply(stream: ByteStream, body: dict[str, Any], reply: Reply) -> None:
    match reply:
        case Failure():
            await _fail(stream, reply)
        case Garbage():
            await _send(stream, reply.status, reply.body, {"Content-Type": reply.content_type})
        case HangUp():
            raise _BreakOffError
        case Answer():
            await (_stream if body.get("stream") else _whole)(stream, body, reply)
        case str():
            await _reply(stream, body, Answer(reply))
        case _:
            await _reply(stream, body, _output(body, reply))


def _output(body: dict[str, Any], value: Mapping[str, Any]) -> Answer:
    tools = body.get("tools")
    if tools:
        return Answer(calls=(Call(tools[0]["function"]["name"], value),))
    return Answer(json.dumps(value))


async def _fail(stream: ByteStream, failure: Failure) -> None:
    error = {"message": failure.message, "type": "scripted", "param": None, "code": None}
    await _send(stream, failure.status, json.dumps({"error": error}).encode(), failure.headers)


async def _send(stream: ByteStream, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    given = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    await stream.send(_status_lines(status, given) + body)


def _status_lines(status: int, headers: Mapping[str, str]) -> bytes:
    given = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {responses.get(status, 'Scripted')}\r\nConnection: close\r\n{given}\r\n".encode(
        "latin-1"
    )


async def _whole(stream: ByteStream, body: dict[str, Any], answer: Answer) -> None:
    await anyio.sleep(answer.delay_s)
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = [_call(n, call) for n, call in enumerate(answer.calls)]
    choice = {"index": 0, "message": message, "finish_reason": _reason(answer), "logprobs": None}
    completion = {**_frame(body, "chat.completion"), "choices": [choice], "usage": _usage(body, answer)}
    content = json.dumps(completion).encode()
    await stream.send(_status_lines(200, {"Content-Type": "application/json", "Content-Length": str(len(content))}))
    await _fault(answer, 0)
    await stream.send(content)


async def _stream(stream: ByteStream, body: dict[str, Any], answer: Answer) -> None:
    await anyio.sleep(answer.delay_s)
    await stream.send(_status_lines(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}))
    frame = _frame(body, "chat.completion.chunk")
    for number, delta in enumerate(_deltas(answer)):
        await _fault(answer, number)
        await anyio.sleep(answer.gap_s if number else 0)
        await _event(stream, {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    await _fault(answer, math.inf)
    await _event(stream, {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": _reason(answer)}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        await _event(stream, {**frame, "choices": [], "usage": _usage(body, answer)})
    await _chunk(stream, b"data: [DONE]\n\n")
    await stream.send(b"0\r\n\r\n")


async def _fault(answer: Answer, sent: float) -> None:
    """Stall or break where `sent` pieces are as many as the script allows."""
    if answer.stall_after is not None and sent >= answer.stall_after:
        await anyio.sleep_forever()
    if answer.drop_after is not None and sent >= answer.drop_after:
        raise _BreakOffError


def _deltas(answer: Answer) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": piece} for piece in _pieces(answer.text)]
    return deltas + [{"tool_calls": [{"index": n, **_call(n, call)}]} for n, call in enumerate(answer.calls)]


def _pieces(text: str) -> list[str]:
    """`text` in words, each with the space before it."""
    return [word if n == 0 else f" {word}" for n, word in enumerate(text.split(" "))] if text else []


def _call(number: int, call: Call) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return {"id": f"call_{number}", "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _reason(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _frame(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": body.get("model", MODEL)}


def _usage(body: dict[str, Any], answer: Answer) -> dict[str, int]:
    """Words, which is what tokens are here."""
    asked = sum(len(str(message.get("content") or "").split()) for message in body.get("messages", ()))
    given = len(_deltas(answer))
    return {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given}


async def _event(stream: ByteStream, event: dict[str, Any]) -> None:
    await _chunk(stream, b"data: " + json.dumps(event).encode() + b"\n\n")


async def _chunk(stream: ByteStream, content: bytes) -> None:
    await stream.send(f"{len(content):x}\r\n".encode() + content + b"\r\n")
