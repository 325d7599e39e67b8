"""From a run's events back to its answer.

The runtime itself makes the answer this way, so the events cannot say less than what was returned: a trace with full
content gives the same `Answer` again.
"""

from collections.abc import Iterable

from hoptrail.errors import TraceError
from hoptrail.runtime.answer import NOT_FOUND, Answer, StepResult, Usage
from hoptrail.runtime.events import (
    Event,
    ModelFinished,
    PlanCreated,
    PlanExtended,
    RunExpired,
    RunFinished,
    RunStarted,
    StepAnswered,
    StepBound,
    StepFailed,
    ToolFinished,
)
from hoptrail.runtime.plan import Plan
from hoptrail.tools.base import Hit

__all__ = ["answer_from_events", "usage_from_events"]


class _State:
    """What the events so far amount to."""

    def __init__(self, start: RunStarted) -> None:
        self.start = start
        self.plan: Plan | None = None
        self.summary = ""
        self.questions: dict[int, str] = {}
        self.retrieved: dict[int | None, ToolFinished] = {}
        self.steps: dict[int, StepResult] = {}
        self.hits: dict[str, Hit] = {}

    def apply(self, event: Event) -> None:
        match event:
            case PlanCreated():
                self.plan, self.summary = event.plan, event.summary
            case PlanExtended() if self.plan is not None:
                self.plan = self.plan.extended(event.steps)
            case StepBound(step=int(step)):
                self.questions[step] = event.question
            case ToolFinished():
                self.retrieved[event.step] = event
                for hit in event.hits:
                    self.hits.setdefault(hit.id, hit)
            case StepAnswered(step=int(step)):
                self.steps[step] = self._answered(step, event)
            case StepFailed(step=int(step)):
                self.steps[step] = StepResult(id=step, question=self.questions.get(step, ""), error=event.message)
            case _:
                pass

    def _answered(self, step: int, event: StepAnswered) -> StepResult:
        found = self.retrieved.get(step)
        return StepResult(
            id=step,
            question=self.questions.get(step, ""),
            answer=event.answer,
            summary=event.summary,
            citations=event.citations,
            evidence=found.hits if found else (),
            tool=found.tool if found else None,
        )

    def finish(self, end: RunFinished | RunExpired) -> Answer:
        plan = self.plan or Plan.single(self.start.question)
        return Answer(
            run_id=end.run_id,
            question=self.start.question,
            text=end.text,
            citations=end.citations,
            planner=self.start.planner,
            plan=plan,
            initial_summary=self.summary,
            steps=tuple(self.steps[i] for i in plan.order if i in self.steps),
            evidence=tuple(self.hits.values()),
            usage=end.usage,
            abstained=end.abstained,
            partial=end.partial,
            reason=end.reason,
        )


def answer_from_events(events: Iterable[Event]) -> Answer:
    """The answer of the run that `events` are the whole record of.

    Raises:
        TraceError: The events do not start a run, or the run gave no answer (it failed, was cancelled, or goes on).
    """
    state: _State | None = None
    for event in events:
        if isinstance(event, RunStarted):
            state = _State(event)
        elif state is None:
            raise TraceError(f"The events start with {event.type}, not with run.started: the first lines are missing.")
        elif isinstance(event, RunFinished | RunExpired):
            return state.finish(event)
        else:
            state.apply(event)
    raise TraceError("The events end without an answer: the run failed, was cancelled, or has not ended.")


def usage_from_events(events: Iterable[Event], seconds: float) -> Usage:
    """The sum of all model calls; `seconds` is the run's own time."""
    used = [event.usage for event in events if isinstance(event, ModelFinished)]
    return Usage(
        calls=sum(u.calls for u in used),
        input_tokens=sum(u.input_tokens for u in used),
        output_tokens=sum(u.output_tokens for u in used),
        cost=sum(u.cost for u in used),
        seconds=seconds,
    )


def known_answer(results: dict[int, StepResult], plan: Plan | None) -> str:
    """The best answer known when a run is stopped early: that of the plan's only last step, if it has ended with one."""
    sinks = plan.sinks if plan else ()
    result = results.get(sinks[0]) if len(sinks) == 1 else None
    return result.answer if result else NOT_FOUND
