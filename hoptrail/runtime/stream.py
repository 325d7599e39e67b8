"""A run in the background, followed event by event."""

import asyncio
import functools
import weakref
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import anyio

from hoptrail.runtime.answer import Answer
from hoptrail.runtime.events import Event
from hoptrail.runtime.log import EventLog
from hoptrail.runtime.run import Run

__all__ = ["RunStream"]


class RunStream:
    """An async iterator over a run's events that owns the run.

        async with hop.stream("Who …?") as run:
            async for event in run:
                ...
            answer = await run.answer()

    Leaving the block, or dropping the stream, cancels a run that has not ended. `events(seq)` gives the events again from
    any point, to any number of readers.
    """

    def __init__(self, run: Run) -> None:
        self._log: EventLog = run.context.log
        run.begin()
        # The task keeps the run alive but not this object, so that a stream nobody holds can be noticed and cancelled.
        self._task = asyncio.get_running_loop().create_task(run.execute(), name=f"hoptrail {self._log.run_id}")
        self._task.add_done_callback(functools.partial(_ended, run))
        self._finalizer = weakref.finalize(self, _cancel, asyncio.get_running_loop(), self._task)
        self._next = 0

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._log.run_id

    def events(self, seq: int = 0) -> AsyncIterator[Event]:
        """The events from number `seq` on, past ones first, until the terminal one."""
        return self._log.follow(seq)

    async def answer(self) -> Answer:
        """Wait for the run's end.

        Raises:
            HoptrailError: The run failed.
            asyncio.CancelledError: The run was cancelled.
        """
        return await asyncio.shield(self._task)

    async def cancel(self) -> None:
        """Cancel the run and wait until nothing of it is in flight; does nothing once it has ended."""
        self._task.cancel()
        # The caller may be in a scope that is being cancelled itself; the run must still be seen to its end.
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self._task])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        # No generator: one that a caller's time limit interrupts would be closed, and the rest of the run with it.
        event = await self._log.wait_for(self._next)
        if event is None:
            raise StopAsyncIteration
        self._next += 1
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.cancel()


def _cancel(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Answer]") -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)


def _ended(run: Run, task: "asyncio.Task[Answer]") -> None:
    # A task that is cancelled before its first step never gets to write its own end.
    run.abandon()
    # Mark a failure as seen: the log has it, and a reader of events need not ask for the answer.
    if not task.cancelled():
        task.exception()
