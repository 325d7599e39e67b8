"""A steady pace of calls, for endpoints that allow so many a minute."""

import anyio

__all__ = ["Pace"]

_MINUTE_S = 60.0


class Pace:
    """Lets callers go one after the other, evenly, `per_minute` in any minute; `None` is no limit."""

    def __init__(self, per_minute: int | None) -> None:
        self._gap = _MINUTE_S / per_minute if per_minute else 0.0
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for one's turn."""
        if self._gap:
            at = max(anyio.current_time(), self._next)
            self._next = at + self._gap
            await anyio.sleep_until(at)
