"""Typed model calls outside of a run: within a budget, at a pace, malformed output asked for once more."""

from typing import TypeVar

import anyio
from pydantic import BaseModel
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelResponse

from hoptrail.config import Settings
from hoptrail.errors import BudgetExceededError, ModelOutputError
from hoptrail.models.base import LanguageModel
from hoptrail.models.budget import Budget, Reservation
from hoptrail.models.outputs import parse_output, response_text
from hoptrail.models.pace import Pace
from hoptrail.models.prices import Prices
from hoptrail.models.requests import bounded, correction, estimate_tokens, messages_of, options_of
from hoptrail.prompts.base import Rendered

__all__ = ["TypedCaller"]

T = TypeVar("T", bound=BaseModel)
_ATTEMPTS = 2


class TypedCaller:
    """Calls `model` for typed outputs; calls may run side by side on one event loop.

    Raises:
        ConfigurationError: The budget has a cap on money, but no price of the model is known.
    """

    def __init__(self, model: LanguageModel, settings: Settings, budget: Budget) -> None:
        self.model = model
        self._settings = settings
        self._budget = budget
        self._prices = Prices.of(model, settings)
        self._pace = Pace(settings.requests_per_minute)
        self._held = 0
        self._settled = anyio.Event()

    async def ask(self, rendered: Rendered[T]) -> T:
        """The model's output for `rendered`; of one that was cut off at its longest, what is complete.

        Raises:
            ModelError: The call failed after its retries, or gave no usable output.
            BudgetExceededError: The call would exceed a cap; it was not sent.
        """
        messages = messages_of(rendered, self.model.output_mode)
        for attempt in range(1, _ATTEMPTS + 1):
            response = await self._send(rendered, messages)
            if response.finish_reason == "content_filter":
                raise ModelOutputError(f"Model {self.model.name} declined to answer prompt {rendered.name!r}.")
            try:
                return parse_output(rendered, response_text(response), cut=response.finish_reason == "length")
            except ModelOutputError as error:
                if attempt == _ATTEMPTS:
                    raise
                messages = [*messages, correction(error)]
        raise AssertionError  # pragma: no cover - there is at least one attempt

    async def _send(self, rendered: Rendered[T], messages: list[ModelMessage]) -> ModelResponse:
        most = self._settings.max_output_tokens
        estimate = estimate_tokens(messages, rendered)
        held = await self._reserve(estimate, most)
        # A call that fails or is cancelled on its way may still be billed for its input.
        asked, written = estimate, 0
        try:
            await self._pace.turn()
            with bounded(self.model, self._settings.model_timeout_s):
                options = options_of(rendered, self.model, max_output_tokens=most)
                response = await model_request(self.model.model, messages, **options)
            asked = response.usage.input_tokens or estimate
            written = response.usage.output_tokens or len(response_text(response)) // 4
            return response
        finally:
            held.settle(tokens=asked + written, cost=self._prices.cost(asked, written))
            self._held -= 1
            self._settled.set()
            self._settled = anyio.Event()

    async def _reserve(self, estimate: int, most: int) -> Reservation:
        """Hold a call's worst case; while others hold theirs, what they do not use may be enough for it."""
        while True:
            try:
                held = self._budget.reserve(tokens=estimate + most, cost=self._prices.cost(estimate, most))
            except BudgetExceededError:
                if not self._held:
                    raise
                await self._settled.wait()
            else:
                self._held += 1
                return held
