"""A scripted language model, tools made of functions, and a sink that keeps events."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from hoptrail.runtime.events import Event
from hoptrail.tools.base import Evidence, Hit

__all__ = ["FakeTool", "RecordingSink", "prompt_of", "scripted_model"]

Reply = dict[str, Any] | str


class RecordingSink:
    """Keeps every event it is given, in `events`."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Keep `event`."""
        self.events.append(event)

    def types(self) -> list[str]:
        """The events' types, in order."""
        return [event.type for event in self.events]


class FakeTool:
    """A tool whose answer is a function of the query: texts, which become hits in that order, or an exception."""

    description = "A tool for tests."

    def __init__(self, name: str, find: Callable[[str], Sequence[str] | Awaitable[Sequence[str]]]) -> None:
        self.name = name
        self.queries: list[str] = []
        self._find = find

    async def retrieve(self, query: str, *, k: int) -> Evidence:
        """The first `k` of what the function finds."""
        self.queries.append(query)
        found = self._find(query)
        texts = await found if isinstance(found, Awaitable) else found
        hits = [
            Hit(id=_identity(text), document=_identity(text), title="", text=text, score=1 / (n + 1))
            for n, text in enumerate(dict.fromkeys(texts))
        ]
        return Evidence(query=query, tool=self.name, hits=tuple(hits[:k]))


def _identity(text: str) -> str:
    """The same text has the same id whichever tool finds it; the id does not show the text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def prompt_of(messages: list[ModelMessage]) -> tuple[str, str]:
    """Which of hoptrail's prompts a request is (`plan`, `step` or `synthesis`), and its last user text."""
    last = messages[-1]
    text = "".join(str(part.content) for part in last.parts if isinstance(part, UserPromptPart))
    instructions = (last.instructions or "") if isinstance(last, ModelRequest) else ""
    for name, start in (
        ("plan", "You plan how"),
        ("step", "You answer a question"),
        ("synthesis", "A question was split"),
    ):
        if instructions.startswith(start):
            return name, text
    return "", text


def scripted_model(reply: Callable[[str, str], Reply | Awaitable[Reply]]) -> FunctionModel:
    """A model that answers with what `reply` gives for the prompt's name and the user text.

    A dictionary is sent as the requested output, a string as it stands.
    """

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given = reply(*prompt_of(messages))
        output = await given if isinstance(given, Awaitable) else given
        tools = info.output_tools
        if isinstance(output, dict) and tools:
            return ModelResponse(parts=[ToolCallPart(tools[0].name, json.dumps(output))])
        return ModelResponse(parts=[TextPart(output if isinstance(output, str) else json.dumps(output))])

    return FunctionModel(answer, model_name="scripted")
