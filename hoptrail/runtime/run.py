"""One run, from its question to exactly one terminal event."""

import time
from dataclasses import dataclass
from typing import Any

import anyio
import structlog

from hoptrail.errors import (
    BudgetExceededError,
    ConfigurationError,
    HoptrailError,
    ModelAccessError,
    ModelError,
    ModelFileError,
    ModelUnavailableError,
)
from hoptrail.runtime.answer import NOT_FOUND, Answer, StepResult
from hoptrail.runtime.citations import number_citations
from hoptrail.runtime.context import Draft, Planner, RunContext
from hoptrail.runtime.events import (
    PlanCreated,
    PlanExtended,
    PlanRejected,
    RunCancelled,
    RunExpired,
    RunFailed,
    RunFinished,
    RunStarted,
)
from hoptrail.runtime.executor import Extend, execute
from hoptrail.runtime.fold import answer_from_events, known_answer, usage_from_events
from hoptrail.runtime.plan import Plan, Step
from hoptrail.runtime.steps import AnswerStep, StepRunner, is_not_found

__all__ = ["Run"]


@dataclass
class Run:
    """Drives a planner over a context and ends the context's log, whatever happens.

    `answer_step` replaces how steps are answered from their evidence (evaluation gives gold answers this way).
    """

    context: RunContext
    planner: Planner
    answer_step: AnswerStep | None = None
    started: float = 0.0

    def begin(self) -> None:
        """Put the run's start on record; `execute` does it where nobody did."""
        if not self.context.log.events:
            self.started = time.perf_counter()
            shape = _shape(self.context)
            self.context.log.emit(RunStarted, question=self.context.question, planner=self.planner.name, settings=shape)

    def abandon(self) -> None:
        """End the record of a run that was cancelled before it could do so itself."""
        self.context.log.emit(RunCancelled, usage=usage_from_events(self.context.log.events, self._seconds()))

    async def execute(self) -> Answer:
        """Run to the end.

        Raises:
            HoptrailError: The run failed as a whole (`run.failed`).
            asyncio.CancelledError: The caller cancelled it (`run.cancelled`).
        """
        log, settings = self.context.log, self.context.settings
        self.begin()
        with structlog.contextvars.bound_contextvars(run_id=log.run_id):
            try:
                with anyio.move_on_after(settings.run_deadline_s):
                    draft = await self._work()
                    self._end(RunFinished, draft)
                if not log.closed:
                    self._end(RunExpired, Draft(self._known()), f"the run's {settings.run_deadline_s:g} s were over")
            except Exception as error:
                raise self._fail(error) from error
            except BaseException:
                self.abandon()
                raise
        return answer_from_events(log.events)

    async def _work(self) -> Draft:
        run = self.context
        try:
            plan = await self.planner.plan(run)
        except BudgetExceededError as error:
            run.plan = Plan.single(run.question)
            return Draft(failed=str(error))
        run.plan = plan
        run.log.emit(PlanCreated, plan=plan, summary=run.initial_summary)
        run.plan = await execute(plan, StepRunner(run, self.answer_step), results=run.results, extend=self._extend())
        self._check_reachable()
        return await self._answer(run.plan)

    async def _answer(self, plan: Plan) -> Draft:
        run = self.context
        try:
            return await self.planner.answer(run, plan, run.results)
        except (ModelError, BudgetExceededError) as error:
            if _is_fatal(error) and not run.caller.succeeded:
                raise
            return Draft(self._known(), failed=str(error))

    def _extend(self) -> Extend | None:
        if not self.planner.extends:
            return None
        run = self.context

        async def extend(plan: Plan, result: StepResult) -> tuple[Step, ...]:
            run.plan = plan
            try:
                steps = tuple(await self.planner.extend(run, plan, result))
                run.plan = plan.extended(steps) if steps else plan
            except Exception as error:  # noqa: BLE001 - the steps already answered must not be lost
                reason = str(error) if isinstance(error, HoptrailError) else _unexpected(error)
                run.log.emit(PlanRejected, step=result.id, reason=f"The plan could not be extended. {reason}")
                return ()
            if steps:
                run.log.emit(PlanExtended, step=result.id, steps=steps)
            return steps

        return extend

    def _check_reachable(self) -> None:
        """Fail the run when no model call of it ever came back: that is an outage, not an unanswered question."""
        failed = self.context.caller.last_error
        if failed is not None and not self.context.caller.succeeded and _is_fatal(failed):
            raise failed

    def _known(self) -> str:
        return known_answer(self.context.results, self.context.plan)

    def _end(self, kind: type[RunFinished] | type[RunExpired], draft: Draft, reason: str | None = None) -> None:
        run = self.context
        text = NOT_FOUND if is_not_found(draft.text) else draft.text.strip()
        steps = [run.results[i] for i in (run.plan.order if run.plan else ()) if i in run.results]
        failures = [f"step {step.id}: {step.error}" for step in steps if step.error]
        why = reason or draft.failed or ("; ".join(failures) or None)
        if text.startswith(run.told) and text != run.told:
            run.tell(text[len(run.told) :])
        run.log.emit(
            kind,
            text=text,
            citations=() if text == NOT_FOUND else number_citations(steps, text),
            usage=usage_from_events(run.log.events, self._seconds()),
            abstained=text == NOT_FOUND,
            partial=why is not None,
            reason=why,
        )

    def _fail(self, error: Exception) -> HoptrailError:
        known = error if isinstance(error, HoptrailError) else HoptrailError(_unexpected(error))
        self.context.log.emit(
            RunFailed,
            error=type(error).__name__,
            message=str(known),
            usage=usage_from_events(self.context.log.events, self._seconds()),
        )
        return known

    def _seconds(self) -> float:
        return time.perf_counter() - self.started


def _is_fatal(error: HoptrailError) -> bool:
    return isinstance(error, ModelAccessError | ModelUnavailableError | ModelFileError | ConfigurationError)


def _unexpected(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return f"Unexpected {type(error).__name__} within a run ({text}): this is a fault of hoptrail or of a plug-in."


def _shape(run: RunContext) -> dict[str, Any]:
    """The settings that shaped the run, without secrets, paths and addresses."""
    hidden = {"api_key", "base_url", "corpus", "trace", "trace_content"}
    return {
        **run.settings.model_dump(mode="json", exclude=hidden),
        "tool": run.tool or run.settings.tool,
        "tools": list(run.retriever.tools.names),
    }
