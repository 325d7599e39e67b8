"""The scheduler: a step starts the moment its own last predecessor ends, with no level barrier (ConRAG, section 3.3).

Ready steps are counted down rather than parked: every step of the plan is known from the start, and its task begins when
its count of unfinished predecessors reaches zero. This is what waiting tasks would do, without a task per waiting step,
and a plan can grow while it runs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio
from anyio.abc import TaskGroup

from hoptrail.runtime.answer import StepResult
from hoptrail.runtime.plan import Plan, Step

__all__ = ["Extend", "RunStep", "execute"]

RunStep = Callable[[Step, Mapping[int, StepResult]], Awaitable[StepResult]]
"""Runs one step given the results so far (all its predecessors' are among them); it never raises but for cancellation."""

Extend = Callable[[Plan, StepResult], Awaitable[Sequence[Step]]]
"""Called after each step; returns steps to append, with ids that continue the plan's."""


async def execute(
    plan: Plan, run_step: RunStep, *, results: dict[int, StepResult] | None = None, extend: Extend | None = None
) -> Plan:
    """Run every step of `plan` and return the plan as it has become.

    `results` is filled as steps end, so a caller that is cancelled keeps what was known by then. Steps that are in it
    at the start count as done.
    """
    execution = _Execution(plan, run_step, {} if results is None else results, extend)
    async with anyio.create_task_group() as tasks:
        execution.begin(tasks)
    return execution.plan


class _Execution:
    def __init__(self, plan: Plan, run_step: RunStep, results: dict[int, StepResult], extend: Extend | None) -> None:
        self.plan = plan
        self._run_step = run_step
        self._results = results
        self._extend = extend
        self._growing = anyio.Lock()
        self._waiting: dict[int, int] = {}
        self._dependents: dict[int, list[Step]] = {}

    def begin(self, tasks: TaskGroup) -> None:
        self._add(self.plan.steps, tasks)

    def _add(self, steps: Sequence[Step], tasks: TaskGroup) -> None:
        ready = []
        for step in steps:
            if step.id in self._results:
                continue
            missing = [parent for parent in step.depends_on if parent not in self._results]
            for parent in missing:
                self._dependents.setdefault(parent, []).append(step)
            if missing:
                self._waiting[step.id] = len(missing)
            else:
                ready.append(step)
        for step in ready:
            tasks.start_soon(self._run, step, tasks)

    async def _run(self, step: Step, tasks: TaskGroup) -> None:
        """Run `step`, and one of the steps it was the last to hold up in the same task; the others get their own."""
        current: Step | None = step
        while current is not None:
            result = await self._run_step(current, self._results)
            self._results[current.id] = result
            ready = self._released(current.id)
            current = ready.pop() if ready and self._extend is None else None
            for other in ready:
                tasks.start_soon(self._run, other, tasks)
            if self._extend is not None:
                await self._grow(result, tasks, self._extend)

    def _released(self, ended: int) -> list[Step]:
        """The steps whose last predecessor was `ended`."""
        ready = []
        for dependent in self._dependents.pop(ended, ()):
            self._waiting[dependent.id] -= 1
            if not self._waiting[dependent.id]:
                del self._waiting[dependent.id]
                ready.append(dependent)
        return ready

    async def _grow(self, result: StepResult, tasks: TaskGroup, extend: Extend) -> None:
        # One at a time: two steps that end together must not both continue the plan with the same ids.
        async with self._growing:
            steps = await extend(self.plan, result)
            if steps:
                self.plan = self.plan.extended(steps)
                self._add(steps, tasks)
