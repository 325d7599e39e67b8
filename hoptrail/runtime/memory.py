"""What a step may see (ConRAG, section 3.3): the initial summary, then its direct predecessors' summaries, nothing else."""

from collections.abc import Mapping

from hoptrail.runtime.answer import StepResult
from hoptrail.runtime.plan import Plan, Step
from hoptrail.runtime.slots import slot_value, slots

__all__ = ["memory", "slot_values", "synthesis_summaries"]


def memory(step: Step, initial_summary: str, results: Mapping[int, StepResult]) -> tuple[str, ...]:
    """I_0 and the nonempty summaries of `step`'s direct predecessors, in the order of `depends_on`."""
    summaries = [initial_summary, *(results[parent].summary for parent in step.depends_on)]
    return tuple(summary for summary in summaries if summary.strip())


def slot_values(step: Step, results: Mapping[int, StepResult]) -> dict[int, str]:
    """What the slots of `step` are bound to.

    A predecessor without an answer leaves its own question instead: "Information not found" in a query would retrieve
    passages about missing information, while the question still names what is looked for.
    """
    values = {}
    for parent in slots(step.question):
        result = results[parent]
        values[parent] = slot_value(result.answer if result.found else result.question.rstrip("?"))
    return values


def synthesis_summaries(plan: Plan, initial_summary: str, results: Mapping[int, StepResult]) -> tuple[str, ...]:
    """I_0 and the nonempty summaries of all steps, in topological order."""
    summaries = [initial_summary, *(results[i].summary for i in plan.order if i in results)]
    return tuple(summary for summary in summaries if summary.strip())
