"""A run's event log: numbers events, hands them to sinks, and lets any number of readers follow from any point."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import anyio
import structlog

from hoptrail.runtime.events import BaseEvent, Event, RunCancelled, RunExpired, RunFailed, RunFinished

__all__ = ["EventLog", "Sink"]

Sink = Callable[[Event], None]
"""Called with every event as it happens, on the event loop: it must return quickly and never block."""

_TERMINAL = (RunFinished, RunFailed, RunCancelled, RunExpired)
_logger = structlog.get_logger("hoptrail")


class EventLog:
    """The events of one run, in order.

    `emit` is synchronous, so numbering needs no lock and a terminal event can be written while a run is being
    cancelled. After the terminal event nothing more is taken.
    """

    def __init__(self, run_id: str, sinks: Sequence[Sink] = ()) -> None:
        self.run_id = run_id
        self.events: list[Event] = []
        self.closed = False
        self._sinks = list(sinks)
        self._changed: anyio.Event | None = None

    def emit(self, kind: type[BaseEvent], **fields: Any) -> None:
        """Append one event of class `kind`; ignored once the run has ended."""
        if self.closed:
            return
        event = cast("Event", kind(run_id=self.run_id, seq=len(self.events), time=time.time(), **fields))
        self.events.append(event)
        if isinstance(event, _TERMINAL):
            self.closed = True
        for sink in tuple(self._sinks):
            self._deliver(sink, event)
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _deliver(self, sink: Sink, event: Event) -> None:
        try:
            sink(event)
        except Exception as error:  # noqa: BLE001 - an observer must never end the run it observes
            self._sinks.remove(sink)
            _logger.warning(
                "event sink failed and was removed", run_id=self.run_id, error=f"{type(error).__name__}: {error}"
            )

    async def follow(self, seq: int = 0) -> AsyncIterator[Event]:
        """Events from `seq` on, those to come included, until the terminal one."""
        while (event := await self.wait_for(seq)) is not None:
            yield event
            seq += 1

    async def wait_for(self, seq: int) -> Event | None:
        """Event number `seq`, or `None` where the run has ended before it."""
        while seq >= len(self.events):
            if self.closed:
                return None
            if self._changed is None:
                self._changed = anyio.Event()
            await self._changed.wait()
        return self.events[seq]
