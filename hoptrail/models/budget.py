"""What model calls may cost: reserved before a call, settled after it, so a cap holds under any concurrency."""

from dataclasses import dataclass, field

from hoptrail.errors import BudgetExceededError

__all__ = ["Budget", "Estimate", "Reservation"]


@dataclass(frozen=True)
class Estimate:
    """What calls that are still to be made will take; money is US dollars, `None` where no price is known.

    The `most_` figures are those that are reserved: every call as long as it may be, each in form at the first attempt.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    most_tokens: int = 0
    cost: float | None = 0.0
    most_cost: float | None = 0.0


@dataclass
class Budget:
    """Caps on model calls, tokens and money (US dollars); `None` is no cap.

    All methods are synchronous and run on one event loop, so check and reservation are one step.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    held_tokens: int = field(default=0, repr=False)
    held_cost: float = field(default=0.0, repr=False)

    def reserve(self, *, tokens: int, cost: float) -> "Reservation":
        """Hold one call of at most `tokens` and `cost`.

        Raises:
            BudgetExceededError: What is used and held, and this call, would be above a cap; nothing is held then.
        """
        _check("calls", self.max_calls, self.calls, 1)
        _check("tokens", self.max_tokens, self.tokens + self.held_tokens, tokens)
        _check("cost", self.max_cost, self.cost + self.held_cost, cost)
        self.calls += 1
        self.held_tokens += tokens
        self.held_cost += cost
        return Reservation(self, tokens, cost)


@dataclass
class Reservation:
    """What one call holds until it is settled or released; either may be called once, later calls do nothing."""

    budget: Budget
    tokens: int
    cost: float
    open: bool = True

    def settle(self, *, tokens: int, cost: float) -> None:
        """Replace what is held by what the call really used."""
        if self._close():
            self.budget.tokens += tokens
            self.budget.cost += cost

    def release(self) -> None:
        """Give back a call that was never sent."""
        if self._close():
            self.budget.calls -= 1

    def _close(self) -> bool:
        if not self.open:
            return False
        self.open = False
        self.budget.held_tokens -= self.tokens
        self.budget.held_cost -= self.cost
        return True


def _check(unit: str, cap: float | None, used: float, asked: float) -> None:
    # The tolerance keeps ten calls of 0.1 within a cap of 1.0 in spite of binary fractions.
    if cap is not None and used + asked > cap + 1e-9:
        raise BudgetExceededError(unit, cap=cap, used=used, asked=asked)
