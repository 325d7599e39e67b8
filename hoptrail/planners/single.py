"""Plain retrieval-augmented generation: one retrieval, one answer."""

from collections.abc import Mapping, Sequence

from hoptrail.runtime.answer import StepResult
from hoptrail.runtime.context import Draft, RunContext
from hoptrail.runtime.plan import Plan, Step

__all__ = ["SinglePlanner"]


class SinglePlanner:
    """The question itself is the only step, and the step's answer is the answer: one model call."""

    name = "single"
    description = "One retrieval with the question as it stands and one answer; for questions about one fact."
    extends = False

    async def plan(self, run: RunContext) -> Plan:
        """The single-step plan; no model call."""
        return Plan.single(run.question, run.tool)

    async def extend(self, run: RunContext, plan: Plan, result: StepResult) -> Sequence[Step]:  # noqa: ARG002
        """Nothing."""
        return ()

    async def answer(self, run: RunContext, plan: Plan, results: Mapping[int, StepResult]) -> Draft:  # noqa: ARG002
        """The step's own answer."""
        return Draft(results[0].answer)
