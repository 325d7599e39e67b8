"""What a run returns."""

from pydantic import BaseModel, ConfigDict

from hoptrail.runtime.plan import Plan
from hoptrail.tools.base import Hit

__all__ = ["NOT_FOUND", "Answer", "Citation", "StepResult", "Usage"]

NOT_FOUND = "Information not found"
"""The answer of a step or a run that found none (ConRAG, section 3.3)."""


class Usage(BaseModel):
    """What a run or a model call has used; `cost` is US dollars, 0 where no price is known."""

    model_config = ConfigDict(frozen=True)

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


class Citation(BaseModel):
    """A passage that supports the answer: retrieved in this run, by `step` (`None` for the planner's own retrieval)."""

    model_config = ConfigDict(frozen=True)

    number: int
    id: str
    document: str
    title: str
    quote: str
    step: int | None = None


class StepResult(BaseModel):
    """How one step ended.

    `question` is the bound question; `summary` is what its dependents are shown, empty when the step failed or found
    nothing; `citations` are ids of retrieved passages that support the answer; `error` says why a step failed.
    """

    model_config = ConfigDict(frozen=True)

    id: int
    question: str
    answer: str = NOT_FOUND
    summary: str = ""
    citations: tuple[str, ...] = ()
    evidence: tuple[Hit, ...] = ()
    tool: str | None = None
    error: str | None = None

    @property
    def found(self) -> bool:
        """Whether the step has an answer."""
        return self.answer != NOT_FOUND


class Answer(BaseModel):
    """The outcome of a run.

    `abstained`: no answer was found and `text` says so. `partial`: the run was stopped early (`reason` says by what) or
    a part of it failed; `steps`, `evidence` and `usage` hold what was known by then. `initial_summary` is I_0.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    question: str
    text: str
    citations: tuple[Citation, ...] = ()
    planner: str
    plan: Plan
    initial_summary: str = ""
    steps: tuple[StepResult, ...] = ()
    evidence: tuple[Hit, ...] = ()
    usage: Usage = Usage()
    abstained: bool = False
    partial: bool = False
    reason: str | None = None
