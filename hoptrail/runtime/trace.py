"""Execution-trace logs: one event a line, JSON, written through structlog.

A trace with full content gives the run back (`answer_from_events`); with content off or hashed it keeps its shape: ids,
times, scores, tokens, errors' types, but no text of a question, a document or a model.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import structlog
from pydantic import ValidationError

from hoptrail.config import TraceContent
from hoptrail.errors import ConfigurationError, PlanError, TraceError
from hoptrail.runtime.events import Event, ToolFallback, parse_event
from hoptrail.runtime.log import Sink

__all__ = ["read_trace", "redact", "trace_sink"]

_CONTENT = frozenset(
    {"answer", "message", "query", "question", "quote", "reason", "repairs", "summary", "text", "title", "values"}
)
_ADDED = frozenset({"level", "timestamp", "logger"})


@contextmanager
def trace_sink(path: Path, content: TraceContent = "full") -> Iterator[Sink]:
    """A sink that appends every event to the file at `path`, which is made if absent.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
        _end_torn_line(path, file)
    except OSError as error:
        raise ConfigurationError(f"Cannot write the trace to {path}: {error.strerror}. Choose another file.") from None
    with file:
        yield _writer(file, content)


def _end_torn_line(path: Path, file: BinaryIO) -> None:
    """Begin on a line of our own where an earlier process was killed within its last one."""
    if file.tell():
        with path.open("rb") as before:
            before.seek(-1, 2)
            if before.read(1) != b"\n":
                file.write(b"\n")


def _writer(file: BinaryIO, content: TraceContent) -> Sink:
    logger = structlog.wrap_logger(
        structlog.BytesLogger(file),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.EventRenamer("type"),
            structlog.processors.JSONRenderer(serializer=_to_bytes),
        ],
        wrapper_class=structlog.BoundLogger,
        cache_logger_on_first_use=True,
    )

    def write(event: Event) -> None:
        data = redact(event, content)
        logger.info(data.pop("type"), **data)

    return write


def _to_bytes(data: dict[str, Any], **_: Any) -> bytes:
    # Documents may hold lone surrogates; escaped, they survive and the line stays valid UTF-8.
    return json.dumps(data, separators=(",", ":")).encode()


def redact(event: Event, content: TraceContent) -> dict[str, Any]:
    """The event as JSON data, its text left out (`off`), replaced by a short hash (`hashed`), or as it is (`full`)."""
    data: dict[str, Any] = event.model_dump(mode="json")
    if content == "full" or isinstance(event, ToolFallback):
        return data
    replace = _left_out if content == "off" else _hashed
    return {key: _walk(key, value, replace, within=False) for key, value in data.items()}


def _walk(key: str, value: Any, replace: Callable[[str], str], *, within: bool) -> Any:
    within = within or key in _CONTENT
    if isinstance(value, str):
        return replace(value) if within and value else value
    if isinstance(value, dict):
        return {k: _walk(str(k), v, replace, within=within) for k, v in value.items()}
    if isinstance(value, list):
        return [_walk(key, item, replace, within=within) for item in value]
    return value


def _left_out(_: str) -> str:
    return "[left out]"


def _hashed(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_trace(path: Path) -> dict[str, list[Event]]:
    """The events in the file by run id, runs in the order of their first line; a torn line is passed over.

    Raises:
        TraceError: The file cannot be read, or a line is no event.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise TraceError(f"Cannot read the trace {path}: {error.strerror}.") from None
    runs: dict[str, list[Event]] = {}
    for number, event in _events(path, lines):
        events = runs.setdefault(event.run_id, [])
        if event.seq != len(events):
            raise TraceError(
                f"{path}, line {number}: event {event.seq} of run {event.run_id} follows event {len(events) - 1}."
            )
        events.append(event)
    return runs


def _events(path: Path, lines: list[bytes]) -> Iterable[tuple[int, Event]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            # A line that a kill has torn; what is missing of its run shows in the run's numbering or its end.
            continue
        try:
            event = parse_event({key: value for key, value in data.items() if key not in _ADDED})
        except (AttributeError, ValidationError, PlanError):
            raise TraceError(f"{path}, line {number}: not an event of a hoptrail trace.") from None
        yield number, event
