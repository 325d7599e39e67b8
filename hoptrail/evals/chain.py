"""Gold decompositions through the runtime: what retrieval reaches when the plan is right.

MuSiQue's decomposition becomes the plan, its `#n` the slots. `bound`: every step answers with the gold answer, so slots are
filled rightly. `unbound`: the same plan with the slots taken out of its questions. `whole`: one retrieval of the whole
question with as many passages as the plan would use. `all_evidence` is 1 when every gold passage was retrieved by some step.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from hoptrail.client import Hoptrail
from hoptrail.errors import ConfigurationError
from hoptrail.evals.datasets import DataSet, Question
from hoptrail.evals.metrics import all_evidence, distinct, recall
from hoptrail.evals.report import report
from hoptrail.runtime.answer import StepResult
from hoptrail.runtime.context import Draft, RunContext
from hoptrail.runtime.plan import Plan, Step
from hoptrail.runtime.slots import remove_slots, slots
from hoptrail.tools.base import Evidence

__all__ = ["Binding", "GoldPlanner", "evaluate_chain", "gold_plan"]

Binding = Literal["on", "off", "whole"]
_REFERENCE = re.compile(r"#([1-9])(?![0-9])")


class GoldPlanner:
    """Gives a plan that is known beforehand, and its last step's answer."""

    name = "gold"
    description = "The plan of the data set."
    extends = False

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def plan(self, run: RunContext) -> Plan:  # noqa: ARG002
        """The plan."""
        return self._plan

    async def extend(self, run: RunContext, plan: Plan, result: StepResult) -> Sequence[Step]:  # noqa: ARG002
        """Nothing."""
        return ()

    async def answer(self, run: RunContext, plan: Plan, results: Mapping[int, StepResult]) -> Draft:  # noqa: ARG002
        """The last step's answer."""
        return Draft(results[len(plan.steps) - 1].answer)


def _in_words(question: str) -> str:
    """`subject >> relation`, as MuSiQue writes hops taken from a graph, as the words "relation subject"."""
    subject, marked, relation = question.partition(">>")
    return f"{relation.strip()} {subject.strip()}" if marked else question


def gold_plan(question: Question, *, bound: bool = True) -> Plan:
    """The decomposition of `question` as a plan; `#n` becomes a slot, or is taken out where not `bound`."""
    steps = []
    for number, hop in enumerate(question.decomposition):
        text = _REFERENCE.sub(lambda m: f"<dep:{int(m[1]) - 1}>", _in_words(hop.question))
        needed = tuple(sorted(slots(text)))
        steps.append(Step(id=number, question=text if bound else remove_slots(text) or hop.question, depends_on=needed))
    return Plan(question=question.question, steps=tuple(steps))


async def evaluate_chain(
    data: DataSet,
    questions: Sequence[Question],
    hop: Hoptrail,
    *,
    tool: str,
    binding: Binding,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The report of gold plans with `tool` and the passages per step that `hop` is set to.

    Questions without a decomposition are left out. Measures: `all_evidence` and `recall` over the union of all steps'
    passages, `passages` retrieved.

    Raises:
        ConfigurationError: No question has a decomposition.
    """
    chosen = [q for q in questions if q.decomposition]
    if not chosen:
        raise ConfigurationError(f"Set {data.name} gives no decompositions: `chain` cannot run it.")
    rows = []
    started = time.perf_counter()
    for question in chosen:
        ranked = await _retrieved(question, hop, tool, binding)
        rows.append(
            {
                "all_evidence": all_evidence(ranked, question.supporting),
                "recall": recall(ranked, question.supporting, len(ranked)),
                "passages": float(len(ranked)),
            }
        )
        progress()
    seconds = (time.perf_counter() - started) / len(chosen)
    settings = {"binding": binding, "answers": "gold", "passages_per_step": hop.settings.passages_per_step}
    return report(data.name, chosen, rows, tool=tool, planner="gold", seconds=seconds, settings=settings)


async def _retrieved(question: Question, hop: Hoptrail, tool: str, binding: Binding) -> list[str]:
    """The documents found, each once, by step and rank."""
    if binding == "whole":
        k = hop.settings.passages_per_step * len(question.decomposition)
        evidence = await hop.tools.get(tool).retrieve(question.question, k=k)
        return distinct(hit.document for hit in evidence.hits)
    planner = GoldPlanner(gold_plan(question, bound=binding == "on"))
    run = hop.prepare(question.question, planner=planner, tool=tool, answer_step=_gold_answers(question))
    answer = await run.execute()
    return distinct(hit.document for step in answer.steps for hit in step.evidence)


def _gold_answers(question: Question) -> Callable[[RunContext, Step, str, Evidence], Any]:
    async def answer_step(_: RunContext, step: Step, asked: str, evidence: Evidence) -> StepResult:
        gold = question.decomposition[step.id].answer
        return StepResult(id=step.id, question=asked, answer=gold, evidence=evidence.hits, tool=evidence.tool)

    return answer_step
