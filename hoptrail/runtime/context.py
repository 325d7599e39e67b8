"""What planners and steps are given of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from hoptrail.config import Settings
from hoptrail.runtime.answer import NOT_FOUND, StepResult
from hoptrail.runtime.calls import ModelCaller
from hoptrail.runtime.events import AnswerDelta
from hoptrail.runtime.log import EventLog
from hoptrail.runtime.plan import Plan, Step
from hoptrail.runtime.retrieval import Retriever
from hoptrail.tools.base import Hit

__all__ = ["Draft", "Planner", "RunContext"]


@dataclass
class RunContext:
    """One run, as its planner and steps see it.

    `tool` is the tool that the caller asked for, if any; a planner does not choose another one then. `results` fills as
    steps end; `initial_summary` (I_0) and `initial_evidence` come from the planner; `told` is the answer text passed on so
    far.
    """

    question: str
    settings: Settings
    log: EventLog
    retriever: Retriever
    caller: ModelCaller
    tool: str | None = None
    plan: Plan | None = None
    initial_summary: str = ""
    initial_evidence: tuple[Hit, ...] = ()
    results: dict[int, StepResult] = field(default_factory=dict)
    told: str = ""

    def tell(self, text: str) -> None:
        """Pass on the next piece of the answer as it is written (`answer.delta`)."""
        self.told += text
        self.log.emit(AnswerDelta, text=text)


@dataclass(frozen=True)
class Draft:
    """The final answer as a planner gives it; citations are added by the runtime."""

    text: str = NOT_FOUND
    failed: str | None = None
    """Why the last call failed, if it did."""


@runtime_checkable
class Planner(Protocol):
    """From a question to a plan, and from the answered plan to the answer.

    A planner reads and sets the context, calls models and tools through it, and emits `plan.repaired` and `plan.rejected`
    itself; everything else is the runtime's. Text of documents reaches it as data only.
    """

    @property
    def name(self) -> str:
        """The registered name, a short lower-case word."""
        ...

    @property
    def description(self) -> str:
        """One sentence for people and routers."""
        ...

    @property
    def extends(self) -> bool:
        """Whether the plan may grow while it runs; `extend` is never called otherwise."""
        ...

    async def plan(self, run: RunContext) -> Plan:
        """The plan to run; sets `run.initial_summary` and `run.initial_evidence` where it has them."""
        ...

    async def extend(self, run: RunContext, plan: Plan, result: StepResult) -> Sequence[Step]:
        """Steps to append now that `result` is known; ids continue the plan's. Empty for a fixed plan."""
        ...

    async def answer(self, run: RunContext, plan: Plan, results: Mapping[int, StepResult]) -> Draft:
        """The final answer from what the steps found."""
        ...
