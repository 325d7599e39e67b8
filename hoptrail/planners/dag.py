"""ConRAG's Constraint (section 3.3): evidence first, then one call for the summary I_0 and a dependency plan."""

from collections.abc import Mapping, Sequence

import anyio

from hoptrail.errors import HoptrailError, ModelOutputError, PlanError, ToolError
from hoptrail.prompts.plan import PlanOutput, render_plan
from hoptrail.prompts.synthesis import render_synthesis
from hoptrail.runtime.answer import StepResult
from hoptrail.runtime.context import Draft, RunContext
from hoptrail.runtime.events import PlanRejected, PlanRepaired
from hoptrail.runtime.memory import synthesis_summaries
from hoptrail.runtime.plan import Plan, Step
from hoptrail.runtime.repair import RawPlan, repair_plan

__all__ = ["DagPlanner"]


class DagPlanner:
    """Plans all steps at once, from what a first retrieval found."""

    name = "dag"
    description = "Splits the question into a dependency plan of sub-questions at once; for questions of several hops."
    extends = False

    async def plan(self, run: RunContext) -> Plan:
        """The model's plan, repaired where it breaks rules; the single-step plan where it is unusable."""
        settings = run.settings
        tools = run.retriever.tools.describe()
        guided = (await run.caller.ready()).guided
        try:
            if guided:
                output = await self._plan_beside_retrieval(run, tools)
            else:
                passages = await self._initial_evidence(run)
                request = render_plan(run.question, passages, tools, max_steps=settings.max_steps, guided=False)
                output = await run.caller.ask(request, attempts=1)
            raw = RawPlan.model_validate({"summary": output.summary, "steps": output.steps})
            run.initial_summary = " ".join(raw.summary.split())
            repaired = repair_plan(raw, run.question, tools=run.retriever.tools.names, max_steps=settings.max_steps)
        except (ModelOutputError, PlanError) as error:
            run.log.emit(PlanRejected, reason=str(error))
            return Plan.single(run.question, run.tool)
        if repaired.repairs:
            run.log.emit(PlanRepaired, repairs=repaired.repairs)
        return repaired.plan

    async def _plan_beside_retrieval(self, run: RunContext, tools: list[tuple[str, str]]) -> PlanOutput:
        """Ask a small model, which is shown no passages when it plans, while they are being retrieved."""
        request = render_plan(run.question, (), tools, max_steps=run.settings.max_steps, guided=True)
        # Kept until both have ended: out of the group they would come as a group of errors.
        errors: list[HoptrailError] = []

        async def retrieve() -> None:
            try:
                await self._initial_evidence(run)
            except HoptrailError as error:
                errors.insert(0, error)

        output = PlanOutput()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(retrieve)
            try:
                output = await run.caller.ask(request, attempts=1)
            except HoptrailError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return output

    async def _initial_evidence(self, run: RunContext) -> list[tuple[str, str]]:
        try:
            evidence = await run.retriever.retrieve(run.question, tool=run.tool)
        except ToolError:
            # Its events are on record; a plan can be made without evidence, and the steps will retrieve anew.
            return []
        run.initial_evidence = evidence.hits
        return [(hit.title, hit.text) for hit in evidence.hits]

    async def extend(self, run: RunContext, plan: Plan, result: StepResult) -> Sequence[Step]:  # noqa: ARG002
        """Nothing: the plan is whole from the start."""
        return ()

    async def answer(self, run: RunContext, plan: Plan, results: Mapping[int, StepResult]) -> Draft:
        """The synthesis over the answered plan; a plan that only asks the question itself is its own synthesis."""
        if plan.is_single:
            return Draft(results[0].answer)
        findings = [(results[i].question, results[i].answer) for i in plan.order]
        notes = synthesis_summaries(plan, run.initial_summary, results)
        guided = (await run.caller.ready()).guided
        request = render_synthesis(run.question, findings, notes, guided=guided)
        output = await run.caller.ask(request, field_name="answer", on_text=run.tell)
        return Draft(output.answer)
