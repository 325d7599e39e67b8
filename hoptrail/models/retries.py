"""Retries of model calls on the HTTP transport, and what their last error means to the user.

Tried again: connection errors, timeouts while connecting or reading, and the statuses 408, 409, 429 and 5xx. The wait is the
endpoint's `Retry-After` (seconds or a date) where it gives one, else exponential with jitter; both end at a minute.
Once an answer has begun nothing is tried again: what breaks or stalls within it is the caller's to see.
"""

import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

import httpx2
import openai
from pydantic_ai import exceptions as ai
from pydantic_ai.retries import AsyncHTTPX2TenacityTransport, RetryConfig, wait_retry_after
from tenacity import RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from hoptrail.errors import HoptrailError, ModelAccessError, ModelError, ModelUnavailableError

__all__ = ["RetryNotice", "retry_observer", "retrying_transport", "translate"]

MAX_WAIT_S = 60.0
_AGAIN = frozenset({408, 409, 429})
_SERVER_ERROR = 500
_BAD_REQUEST = 400
_REASON_CHARS = 120
_KEY = re.compile(r"(?i)\bbearer\s+\S+|\bsk-[\w*.-]+")


@dataclass(frozen=True)
class RetryNotice:
    """A call is about to be tried again: `attempt` has failed for `reason`, the next follows in `wait_s` seconds."""

    attempt: int
    wait_s: float
    reason: str


retry_observer: ContextVar[Callable[[RetryNotice], None] | None] = ContextVar("retry_observer", default=None)
"""Told of every retry within the context it is set in."""


def retrying_transport(attempts: int, wrapped: httpx2.AsyncBaseTransport | None = None) -> AsyncHTTPX2TenacityTransport:
    """A transport that sends a request up to `attempts` times."""
    config = RetryConfig(
        retry=retry_if_exception(_may_pass),
        wait=wait_retry_after(wait_random_exponential(multiplier=0.5, max=MAX_WAIT_S), max_wait=MAX_WAIT_S),
        stop=stop_after_attempt(attempts),
        before_sleep=_notify,
        reraise=True,
    )
    return AsyncHTTPX2TenacityTransport(config, wrapped, _raise_for_retry)


def _raise_for_retry(response: httpx2.Response) -> None:
    if response.status_code in _AGAIN or response.status_code >= _SERVER_ERROR:
        response.raise_for_status()


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may fare better; one that cannot even be written never does."""
    hopeless = (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol)
    return isinstance(error, httpx2.HTTPStatusError | httpx2.TransportError) and not isinstance(error, hopeless)


def _notify(state: RetryCallState) -> None:
    observer = retry_observer.get()
    error = state.outcome.exception() if state.outcome else None
    if observer is None or error is None:
        return
    status = error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else None
    reason = f"HTTP {status}" if status else type(error).__name__
    observer(RetryNotice(state.attempt_number, state.upcoming_sleep, reason))


def translate(error: Exception, model: str) -> HoptrailError:
    """The error of hoptrail's tree that `error`, raised by a call of `model`, amounts to; its message is one line."""
    if isinstance(error, HoptrailError):
        return error
    status = _status(error)
    if status is not None:
        return _of_status(status, error, model)
    if _is_outage(error):
        return ModelUnavailableError(
            f"Model {model} cannot be reached{_place(error)} ({_root(error)}): "
            "check HOPTRAIL_BASE_URL and that the endpoint is up."
        )
    if isinstance(error, ai.UserError):
        return ModelAccessError(f"Model {model} cannot be called: {_line(error)}")
    return ModelError(f"The call of model {model} failed with {type(error).__name__}: {_line(error)}")


def _of_status(status: int, error: Exception, model: str) -> ModelError:
    if status in {401, 403}:
        return ModelAccessError(
            f"The endpoint of model {model}{_place(error)} refused the key (HTTP {status}): set HOPTRAIL_API_KEY."
        )
    if status == 404:  # noqa: PLR2004 - an HTTP status
        return ModelAccessError(
            f"The endpoint{_place(error)} knows no model {model} or no such path (HTTP 404): "
            "check HOPTRAIL_MODEL and HOPTRAIL_BASE_URL."
        )
    if status in _AGAIN or status >= _SERVER_ERROR:
        return ModelUnavailableError(
            f"The endpoint of model {model}{_place(error)} still answered HTTP {status} after every retry: try again later."
        )
    if _is_too_long(status, error):
        return ModelAccessError(
            f"The request is longer than the context window of model {model} ({_line(error)}): "
            "lower HOPTRAIL_PASSAGES_PER_STEP or set HOPTRAIL_MODEL to one with a larger window.",
            of_request=True,
        )
    return ModelAccessError(
        f"The endpoint refused the request to model {model} (HTTP {status}): {_line(error)}", of_request=True
    )


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def _status(error: Exception) -> int | None:
    for link in _chain(error):
        if isinstance(link, ai.ModelHTTPError):
            return link.status_code
        if isinstance(link, openai.APIStatusError):
            return link.status_code
        if isinstance(link, httpx2.HTTPStatusError):
            return link.response.status_code
    return None


def _is_too_long(status: int, error: Exception) -> bool:
    if any(isinstance(link, ai.ModelContextWindowExceededError) for link in _chain(error)):
        return True
    return status == _BAD_REQUEST and re.search(r"context[ _](length|window|size)", str(error)) is not None


def _place(error: Exception) -> str:
    """` at ORIGIN`, of the endpoint that was asked; a URL's user and path may hold a key."""
    for link in reversed(_chain(error)):
        request = vars(link).get("_request") or vars(link).get("request")
        if isinstance(request, httpx2.Request):
            return f" at {request.url.scheme}://{request.url.netloc.decode('ascii')}"
    return ""


def _is_outage(error: Exception) -> bool:
    kinds = (httpx2.TransportError, openai.APIConnectionError, ai.ModelConnectionError, ai.ModelTimeoutError, OSError)
    return any(isinstance(link, kinds) for link in _chain(error))


def _root(error: Exception) -> str:
    """The innermost transport error's name and text, which is what tells a refused port from an unknown host."""
    links = [link for link in _chain(error) if isinstance(link, httpx2.TransportError | OSError)]
    return f"{type(links[-1]).__name__}: {_line(links[-1])}" if links else type(error).__name__


def _line(error: BaseException) -> str:
    return _KEY.sub("[key]", " ".join(str(error).split()))[:_REASON_CHARS]
