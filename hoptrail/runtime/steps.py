"""How one step is run: bind its slots, retrieve, answer from the evidence, and never raise."""

from collections.abc import Awaitable, Callable, Mapping

import anyio

from hoptrail.errors import DeadlineExceededError, HoptrailError
from hoptrail.prompts.step import render_step
from hoptrail.runtime.answer import NOT_FOUND, StepResult
from hoptrail.runtime.citations import supporting
from hoptrail.runtime.context import RunContext
from hoptrail.runtime.events import StepAnswered, StepBound, StepFailed, StepReady
from hoptrail.runtime.memory import memory, slot_values
from hoptrail.runtime.plan import Step
from hoptrail.runtime.slots import bind, slot_value
from hoptrail.tools.base import Evidence

__all__ = ["AnswerStep", "StepRunner", "answer_from_evidence"]

AnswerStep = Callable[[RunContext, Step, str, Evidence], Awaitable[StepResult]]
"""Answers one step from its bound question and its evidence."""


class StepRunner:
    """Runs the steps of one run; an instance is the executor's `run_step`.

    A step that fails gives "Information not found" and no summary, whatever happened in it, so that its dependents and
    the run go on. Only cancellation passes through, once the step's end is on record.
    """

    def __init__(self, run: RunContext, answer_step: AnswerStep | None = None) -> None:
        self._run = run
        self._answer_step = answer_step or answer_from_evidence

    async def __call__(self, step: Step, results: Mapping[int, StepResult]) -> StepResult:
        """The step's result; its events are `step.ready`, `step.bound` and `step.answered` or `step.failed`."""
        log = self._run.log
        log.emit(StepReady, step=step.id)
        values = slot_values(step, results)
        question = bind(step.question, values)
        log.emit(StepBound, step=step.id, question=question, values=values)
        try:
            result = await self._bounded(step, question)
        except Exception as error:  # noqa: BLE001 - a step must not end the run, whatever a tool or model raised
            return self._failed(step, question, error)
        except BaseException:
            log.emit(StepFailed, step=step.id, error="Cancelled", message="The run ended before this step did.")
            raise
        log.emit(StepAnswered, step=step.id, answer=result.answer, summary=result.summary, citations=result.citations)
        return result

    async def _bounded(self, step: Step, question: str) -> StepResult:
        seconds = self._run.settings.step_deadline_s
        if seconds is None:
            return await self._work(step, question)
        with anyio.move_on_after(seconds):
            return await self._work(step, question)
        raise DeadlineExceededError("step", seconds)

    async def _work(self, step: Step, question: str) -> StepResult:
        evidence = await self._run.retriever.retrieve(question, tool=self._run.tool or step.tool, step=step.id)
        return await self._answer_step(self._run, step, question, evidence)

    def _failed(self, step: Step, question: str, error: Exception) -> StepResult:
        known = isinstance(error, HoptrailError)
        message = str(error) if known else f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        self._run.log.emit(StepFailed, step=step.id, error=type(error).__name__, message=message)
        return StepResult(id=step.id, question=question, error=message)


async def answer_from_evidence(run: RunContext, step: Step, question: str, evidence: Evidence) -> StepResult:
    """Ask the model for the step's answer, unless it would see nothing at all."""
    notes = memory(step, run.initial_summary, run.results)
    if not evidence.hits and not notes:
        return StepResult(id=step.id, question=question, tool=evidence.tool)
    guided = (await run.caller.ready()).guided
    passages = [(hit.title, hit.text) for hit in evidence.hits]
    request = render_step(question, passages, notes, guided=guided)
    # The answer of a single-step plan is the run's answer, so it is streamed as such.
    on_text = run.tell if run.plan is not None and run.plan.is_single else None
    output = await run.caller.ask(request, step=step.id, field_name="answer", on_text=on_text)
    answer = slot_value(output.answer)
    if is_not_found(answer):
        return StepResult(
            id=step.id, question=question, summary=output.summary.strip(), evidence=evidence.hits, tool=evidence.tool
        )
    return StepResult(
        id=step.id,
        question=question,
        answer=answer,
        summary=output.summary.strip(),
        citations=supporting(evidence.hits, answer, output.summary, output.passages),
        evidence=evidence.hits,
        tool=evidence.tool,
    )


def is_not_found(answer: str) -> bool:
    """Whether `answer` says that there is none, whatever the letter case and punctuation."""
    return answer.strip(" .!\"'").casefold() in {NOT_FOUND.casefold(), "", "unknown", "n/a", "none", "not found"}
