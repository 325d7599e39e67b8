"""What several runtime tests build on."""

from collections.abc import Sequence
from typing import Any

from hoptrail.client import Hoptrail
from hoptrail.config import Settings
from hoptrail.runtime.events import Event
from hoptrail.testing.doubles import FakeTool, RecordingSink, scripted_model
from hoptrail.tools.registry import ToolRegistry

TERMINAL = {"run.finished", "run.failed", "run.cancelled", "run.expired"}


def plan_reply(*steps: tuple[str, list[int]], summary: str = "I0") -> dict[str, Any]:
    return {
        "summary": summary,
        "steps": [{"id": i, "question": q, "depends_on": d, "tool": "text"} for i, (q, d) in enumerate(steps)],
    }


def step_reply(answer: str, summary: str = "", passages: Sequence[int] = (1,)) -> dict[str, Any]:
    return {"summary": summary or f"It is {answer}.", "answer": answer, "passages": list(passages)}


def final_reply(answer: str) -> dict[str, Any]:
    return {"reasoning": "so", "answer": answer}


def question_of(user: str) -> str:
    """The question block of a request."""
    return user.split("[[question ")[1].split("\n")[1]


def open_hop(
    reply: Any, *tools: FakeTool, sink: RecordingSink | None = None, model: Any = None, **overrides: Any
) -> Hoptrail:
    registry = ToolRegistry(tools or (FakeTool("text", lambda query: [f"passage about {query}"]),))
    sinks = () if sink is None else (sink,)
    return Hoptrail(
        Settings.load(**{"tool": "text", **overrides}), registry, model=model or scripted_model(reply), sinks=sinks
    )


def check_log(events: Sequence[Event]) -> None:
    """The promises that hold for the log of any run."""
    assert [event.seq for event in events] == list(range(len(events)))
    assert events[0].type == "run.started"
    assert [event.type in TERMINAL for event in events] == [False] * (len(events) - 1) + [True]
    for started, ends, key in (
        ("tool.started", {"tool.finished", "tool.failed"}, "call"),
        ("model.started", {"model.finished"}, "call"),
        ("step.ready", {"step.answered", "step.failed"}, "step"),
    ):
        begun = [getattr(event, key) for event in events if event.type == started]
        ended = [getattr(event, key) for event in events if event.type in ends]
        assert sorted(begun) == sorted(ended), started
        assert len(set(begun)) == len(begun), started
