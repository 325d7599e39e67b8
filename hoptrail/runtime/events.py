"""The events of a run: typed, frozen, discriminated by `type`, JSON-serialisable.

A run's events carry `seq` 0, 1, 2, … without gaps, start with `run.started` and end with exactly one of `run.finished`,
`run.failed`, `run.cancelled` and `run.expired`. Every `tool.started` is followed by `tool.finished` or `tool.failed` of the
same `call`, every `model.started` by a `model.finished`, every `step.ready` by `step.answered` or `step.failed`.

`Text` marks what comes from questions, documents or models, so that traces can leave it out or hash it.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, TypeAdapter

from hoptrail.runtime.answer import Citation, Usage
from hoptrail.runtime.plan import Plan, Step
from hoptrail.tools.base import Hit

__all__ = [
    "AnswerDelta",
    "BaseEvent",
    "Event",
    "ModelFinished",
    "ModelRetried",
    "ModelStarted",
    "PlanCreated",
    "PlanExtended",
    "PlanRejected",
    "PlanRepaired",
    "RunCancelled",
    "RunExpired",
    "RunFailed",
    "RunFinished",
    "RunStarted",
    "StepAnswered",
    "StepBound",
    "StepFailed",
    "StepReady",
    "Terminal",
    "ToolFailed",
    "ToolFallback",
    "ToolFinished",
    "ToolStarted",
    "parse_event",
]


class BaseEvent(BaseModel):
    """What all events share; `time` is seconds since the epoch, `step` the step it belongs to, if any."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    seq: int
    time: float
    step: int | None = None


class RunStarted(BaseEvent):
    """A run began; `settings` holds what shaped it, without secrets."""

    type: Literal["run.started"] = "run.started"
    question: str
    planner: str
    settings: dict[str, Any]


class PlanCreated(BaseEvent):
    """The plan that will be run, with the initial summary I_0."""

    type: Literal["plan.created"] = "plan.created"
    plan: Plan
    summary: str


class PlanRepaired(BaseEvent):
    """The planner's plan broke rules and was repaired; `repairs` lists how."""

    type: Literal["plan.repaired"] = "plan.repaired"
    repairs: tuple[str, ...]


class PlanRejected(BaseEvent):
    """A plan was unusable and the run goes on with the single-step plan, or an extension was and it goes on without."""

    type: Literal["plan.rejected"] = "plan.rejected"
    reason: str


class PlanExtended(BaseEvent):
    """The planner appended steps while the plan was running."""

    type: Literal["plan.extended"] = "plan.extended"
    steps: tuple[Step, ...]


class StepReady(BaseEvent):
    """A step's last predecessor has ended."""

    type: Literal["step.ready"] = "step.ready"


class StepBound(BaseEvent):
    """A step's slots were filled; `question` is what is retrieved and asked."""

    type: Literal["step.bound"] = "step.bound"
    question: str
    values: dict[int, str]


class StepAnswered(BaseEvent):
    """A step ended; `answer` is "Information not found" when its evidence had none."""

    type: Literal["step.answered"] = "step.answered"
    answer: str
    summary: str
    citations: tuple[str, ...]


class StepFailed(BaseEvent):
    """A step raised, timed out or was cancelled; its dependents proceed without its answer."""

    type: Literal["step.failed"] = "step.failed"
    error: str
    message: str


class ToolStarted(BaseEvent):
    """A retrieval began."""

    type: Literal["tool.started"] = "tool.started"
    call: int
    tool: str
    query: str
    k: int


class ToolFinished(BaseEvent):
    """A retrieval ended; `hits` may be empty."""

    type: Literal["tool.finished"] = "tool.finished"
    call: int
    tool: str
    hits: tuple[Hit, ...]
    seconds: float


class ToolFailed(BaseEvent):
    """A retrieval raised, timed out or was cancelled."""

    type: Literal["tool.failed"] = "tool.failed"
    call: int
    tool: str
    error: str
    message: str
    seconds: float


class ToolFallback(BaseEvent):
    """The next tool of the chain takes over."""

    type: Literal["tool.fallback"] = "tool.fallback"
    failed: str
    next: str
    reason: Literal["failed", "no hits"]


class ModelStarted(BaseEvent):
    """A model call was sent; its budget is reserved."""

    type: Literal["model.started"] = "model.started"
    call: int
    model: str
    prompt: str
    version: str


class ModelFinished(BaseEvent):
    """A model call ended; `error` is `None` when it gave the requested output."""

    type: Literal["model.finished"] = "model.finished"
    call: int
    model: str
    usage: Usage
    error: str | None = None
    message: str = ""


class ModelRetried(BaseEvent):
    """A model call is tried again: after a transport or status error, or because its output was not in form."""

    type: Literal["model.retried"] = "model.retried"
    call: int
    attempt: int
    wait: float
    reason: str


class AnswerDelta(BaseEvent):
    """The next piece of the answer's text."""

    type: Literal["answer.delta"] = "answer.delta"
    text: str


class _WithAnswer(BaseEvent):
    text: str
    citations: tuple[Citation, ...]
    usage: Usage
    abstained: bool
    partial: bool
    reason: str | None = None


class RunFinished(_WithAnswer):
    """The run ended by itself."""

    type: Literal["run.finished"] = "run.finished"


class RunExpired(_WithAnswer):
    """The run's deadline passed; what is known by then is the answer."""

    type: Literal["run.expired"] = "run.expired"


class RunFailed(BaseEvent):
    """The run could not be done at all."""

    type: Literal["run.failed"] = "run.failed"
    error: str
    message: str
    usage: Usage


class RunCancelled(BaseEvent):
    """The caller cancelled the run."""

    type: Literal["run.cancelled"] = "run.cancelled"
    usage: Usage


Terminal = RunFinished | RunFailed | RunCancelled | RunExpired

Event = Annotated[
    RunStarted
    | PlanCreated
    | PlanRepaired
    | PlanRejected
    | PlanExtended
    | StepReady
    | StepBound
    | StepAnswered
    | StepFailed
    | ToolStarted
    | ToolFinished
    | ToolFailed
    | ToolFallback
    | ModelStarted
    | ModelFinished
    | ModelRetried
    | AnswerDelta
    | Terminal,
    Discriminator("type"),
]

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


def parse_event(data: dict[str, Any]) -> Event:
    """An event from its JSON object.

    Raises:
        pydantic.ValidationError: The object is no event.
    """
    return _ADAPTER.validate_python(data)
