"""One model call: limits, budget, events, retries of malformed output, and a watch on stalled streams."""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar

import anyio
from pydantic import BaseModel
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import FunctionModel

from hoptrail.config import Settings
from hoptrail.errors import HoptrailError, ModelOutputError, ModelStalledError
from hoptrail.models.base import LanguageModel
from hoptrail.models.budget import Budget
from hoptrail.models.outputs import parse_output, partial_text, response_text
from hoptrail.models.prices import Prices
from hoptrail.models.requests import RequestOptions, bounded, correction, estimate_tokens, messages_of, options_of
from hoptrail.models.retries import RetryNotice, retry_observer
from hoptrail.prompts.base import Rendered
from hoptrail.runtime.answer import Usage
from hoptrail.runtime.events import ModelFinished, ModelRetried, ModelStarted
from hoptrail.runtime.log import EventLog

__all__ = ["ModelCaller"]

T = TypeVar("T", bound=BaseModel)
OnText = Callable[[str], None]


@dataclass
class ModelCaller:
    """Calls the run's language model.

    `succeeded` tells whether any call of the run has come back at all, `last_error` why the last one that failed did: a
    run whose every call is refused is a failed run, not an unanswered one.
    """

    open_model: Callable[[], Awaitable[LanguageModel]]
    settings: Settings
    log: EventLog
    budget: Budget
    limiter: anyio.CapacityLimiter
    succeeded: bool = False
    last_error: HoptrailError | None = None
    _prices: Prices | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    async def ready(self) -> LanguageModel:
        """The model, opened by the first call that needs it.

        Raises:
            ModelError: It cannot be opened.
            ConfigurationError: Its settings are wrong, or a money cap is set without a known price.
        """
        try:
            model = await self.open_model()
            if self._prices is None:
                self._prices = Prices.of(model, self.settings)
        except HoptrailError as error:
            self.last_error = error
            raise
        return model

    async def ask(
        self,
        rendered: Rendered[T],
        *,
        step: int | None = None,
        attempts: int = 2,
        field_name: str = "",
        on_text: OnText | None = None,
    ) -> T:
        """The model's output for `rendered`.

        Output that is not in form is asked for once more with the fault named, up to `attempts` in all. With `on_text`
        the first attempt is streamed and the string field `field_name` is handed over piece by piece as it is written.

        Raises:
            ModelError: The call failed after its retries, stalled, or gave no usable output.
            BudgetExceededError: The call would exceed a cap; it was not sent.
        """
        model = await self.ready()
        messages = messages_of(rendered, model.output_mode)
        for attempt in range(1, attempts + 1):
            number = next(self._numbers)
            try:
                return await self._attempt(_Call(number, model, rendered, messages, step), field_name, on_text)
            except ModelOutputError as error:
                # What was told of the answer stands; a second telling would repeat it.
                on_text = None
                if attempt == attempts:
                    raise
                self.log.emit(ModelRetried, step=step, call=number, attempt=attempt, wait=0.0, reason=str(error))
                messages = [*messages, correction(error)]
        raise AssertionError  # pragma: no cover - attempts is at least 1

    async def _attempt(self, call: "_Call[T]", field_name: str, on_text: OnText | None) -> T:
        estimate = estimate_tokens(call.messages, call.rendered)
        most = self.settings.max_output_tokens
        reserved = self.budget.reserve(tokens=estimate + most, cost=self._cost(estimate, most))
        try:
            await self.limiter.acquire_on_behalf_of(call)
        except BaseException:
            reserved.release()
            raise
        # A call that fails or is cancelled on its way may still be billed for its input.
        call.usage = Usage(calls=1, input_tokens=estimate, cost=self._cost(estimate, 0))
        self._emit(ModelStarted, call, model=call.model.name, prompt=call.rendered.name, version=call.rendered.version)
        started = time.perf_counter()
        error: BaseException | None = None
        try:
            return await self._send(call, field_name, on_text)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.limiter.release_on_behalf_of(call)
            call.usage = call.usage.model_copy(update={"seconds": time.perf_counter() - started})
            reserved.settle(tokens=call.usage.tokens, cost=call.usage.cost)
            self._finished(call, error)

    def _finished(self, call: "_Call[T]", error: BaseException | None) -> None:
        known = error if isinstance(error, HoptrailError) else None
        self.last_error = known or self.last_error
        self._emit(
            ModelFinished,
            call,
            model=call.model.name,
            usage=call.usage,
            error=None if error is None else type(known).__name__ if known else "Cancelled",
            message=str(known or ""),
        )

    async def _send(self, call: "_Call[T]", field_name: str, on_text: OnText | None) -> T:
        with self._observe_retries(call), bounded(call.model, self.settings.model_timeout_s):
            if on_text is not None and _streams(call.model):
                response = await self._stream(call, field_name, on_text)
            else:
                response = await model_request(call.model.model, call.messages, **self._options(call))
        self.succeeded = True
        call.usage = self._usage(response, call.usage.input_tokens)
        return parse_output(call.rendered, response_text(response))

    async def _stream(self, call: "_Call[T]", field_name: str, on_text: OnText) -> ModelResponse:
        """Stream the call; the time between two pieces, the first included, is bounded by the idle timeout."""
        idle = self.settings.stream_idle_s
        told = ""
        with anyio.CancelScope(deadline=anyio.current_time() + idle) as watch:
            async with model_request_stream(call.model.model, call.messages, **self._options(call)) as stream:
                async for _ in stream:
                    watch.deadline = anyio.current_time() + idle
                    text = partial_text(response_text(stream.get()), field_name)
                    if len(text) > len(told) and text.startswith(told):
                        on_text(text[len(told) :])
                        told = text
                return stream.get()
        raise ModelStalledError(call.model.name, idle)

    def _options(self, call: "_Call[T]") -> RequestOptions:
        return options_of(call.rendered, call.model, max_output_tokens=self.settings.max_output_tokens)

    @contextmanager
    def _observe_retries(self, call: "_Call[T]") -> Iterator[None]:
        def observe(notice: RetryNotice) -> None:
            self._emit(ModelRetried, call, attempt=notice.attempt, wait=notice.wait_s, reason=notice.reason)

        token = retry_observer.set(observe)
        try:
            yield
        finally:
            retry_observer.reset(token)

    def _emit(self, kind: type[ModelStarted | ModelFinished | ModelRetried], call: "_Call[T]", **fields: Any) -> None:
        self.log.emit(kind, step=call.step, call=call.number, **fields)

    def _cost(self, input_tokens: int, output_tokens: int) -> float:
        return self._prices.cost(input_tokens, output_tokens) if self._prices else 0.0

    def _usage(self, response: ModelResponse, estimate: int) -> Usage:
        """What the endpoint reports, or an estimate where it reports nothing."""
        asked = response.usage.input_tokens or estimate
        written = response.usage.output_tokens or len(response_text(response)) // 4
        return Usage(calls=1, input_tokens=asked, output_tokens=written, cost=self._cost(asked, written))


@dataclass(eq=False)
class _Call(Generic[T]):
    """One attempt."""

    number: int
    model: LanguageModel
    rendered: Rendered[T]
    messages: list[ModelMessage]
    step: int | None
    usage: Usage = field(default_factory=Usage)


def _streams(model: LanguageModel) -> bool:
    return not (isinstance(model.model, FunctionModel) and model.model.stream_function is None)
