"""One retrieval through a chain of tools: the next tool takes over when one fails or finds nothing."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

import anyio

from hoptrail.config import Settings
from hoptrail.errors import HoptrailError, ToolError, ToolTimeoutError
from hoptrail.runtime.events import ToolFailed, ToolFallback, ToolFinished, ToolStarted
from hoptrail.runtime.log import EventLog
from hoptrail.tools.base import Evidence
from hoptrail.tools.registry import ToolRegistry

__all__ = ["Retriever"]


@dataclass
class Retriever:
    """Retrieves for one run."""

    tools: ToolRegistry
    settings: Settings
    log: EventLog
    limiter: anyio.CapacityLimiter
    _numbers: Iterator[int] = field(default_factory=count)

    def chain(self, tool: str | None) -> tuple[str, ...]:
        """The tools to try, in order: `tool` (the default for `None`), then the configured fallbacks that exist."""
        first = tool or self.settings.tool
        others = [name for name in self.settings.fallback_tools if name in self.tools.names]
        return tuple(dict.fromkeys([first, *others]))

    async def retrieve(
        self, query: str, *, tool: str | None = None, step: int | None = None, k: int | None = None
    ) -> Evidence:
        """Evidence from the first tool of the chain that finds any; empty evidence when all run and none does.

        Raises:
            ToolError: Every tool of the chain failed; the message is the first failure's.
        """
        chain = self.chain(tool)
        first_error: HoptrailError | None = None
        empty: Evidence | None = None
        for name, following in zip(chain, (*chain[1:], None), strict=True):
            reason: Literal["failed", "no hits"] = "no hits"
            try:
                evidence = await self._call(name, query, step, k or self.settings.passages_per_step)
            except HoptrailError as error:
                first_error, reason = first_error or error, "failed"
            else:
                if evidence.hits:
                    return evidence
                empty = empty or evidence
            if following is not None:
                self.log.emit(ToolFallback, step=step, failed=name, next=following, reason=reason)
        if empty is not None:
            return empty
        raise first_error or ToolError("There is no retrieval tool to call: set HOPTRAIL_TOOL.")

    async def _call(self, name: str, query: str, step: int | None, k: int) -> Evidence:
        async with self.limiter:
            number = next(self._numbers)
            self.log.emit(ToolStarted, step=step, call=number, tool=name, query=query, k=k)
            started = time.perf_counter()
            try:
                evidence = await self._bounded(name, query, k)
            except BaseException as error:
                self.log.emit(
                    ToolFailed,
                    step=step,
                    call=number,
                    tool=name,
                    error=type(error).__name__ if isinstance(error, HoptrailError) else "Cancelled",
                    message=str(error) if isinstance(error, HoptrailError) else "",
                    seconds=time.perf_counter() - started,
                )
                raise
            self.log.emit(
                ToolFinished,
                step=step,
                call=number,
                tool=name,
                hits=evidence.hits,
                seconds=time.perf_counter() - started,
            )
            return evidence

    async def _bounded(self, name: str, query: str, k: int) -> Evidence:
        """Call the tool within its time; whatever it raises comes out as one of hoptrail's errors."""
        evidence: object = None
        try:
            with anyio.move_on_after(self.settings.tool_timeout_s) as scope:
                evidence = await self.tools.get(name).retrieve(query, k=k)
        except HoptrailError:
            raise
        except Exception as error:
            raise ToolError(
                f"Tool {name!r} raised {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            ) from error
        if isinstance(evidence, Evidence):
            return evidence
        if scope.cancelled_caught:
            raise ToolTimeoutError(name, self.settings.tool_timeout_s)
        raise ToolError(f"Tool {name!r} returned {type(evidence).__name__} where Evidence is asked for.")
