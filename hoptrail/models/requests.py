"""A filled prompt as a request to a model: its messages, its size, its time limit, and errors of hoptrail's own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict, TypeVar

import anyio
from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from hoptrail.config import OutputMode
from hoptrail.errors import HoptrailError, ModelOutputError, ModelUnavailableError
from hoptrail.models.base import LanguageModel
from hoptrail.models.outputs import request_parameters
from hoptrail.models.retries import translate
from hoptrail.prompts.base import Rendered

__all__ = ["RequestOptions", "bounded", "correction", "estimate_tokens", "messages_of", "options_of"]

T = TypeVar("T", bound=BaseModel)


class RequestOptions(TypedDict):
    """What pydantic-ai's `model_request` and `model_request_stream` take beside model and messages."""

    model_settings: ModelSettings
    model_request_parameters: ModelRequestParameters


def messages_of(rendered: Rendered[T], mode: OutputMode) -> list[ModelMessage]:
    """The conversation that asks a model for the output of `rendered` in `mode`."""
    instructions = _instructions(rendered, mode)
    messages: list[ModelMessage] = []
    for user, assistant in rendered.turns:
        messages.append(ModelRequest(parts=[UserPromptPart(user)], instructions=instructions))
        messages.append(ModelResponse(parts=[TextPart(assistant)]))
    messages.append(ModelRequest(parts=[UserPromptPart(rendered.user)], instructions=instructions))
    return messages


def options_of(rendered: Rendered[T], model: LanguageModel, *, max_output_tokens: int) -> RequestOptions:
    """How `model` is to be asked: the form of the output, its length, no randomness."""
    return {
        "model_settings": ModelSettings(max_tokens=max_output_tokens, temperature=0.0),
        "model_request_parameters": request_parameters(rendered, model.output_mode),
    }


def correction(error: ModelOutputError) -> ModelRequest:
    """The message that asks once more after output that was not in form."""
    return ModelRequest(parts=[UserPromptPart(f"{error} Give the JSON object again, in form.")])


def estimate_tokens(messages: list[ModelMessage], rendered: Rendered[T], *, ascii_per_token: int = 2) -> int:
    """The input's tokens, ASCII at so many characters a token, everything else at one byte: two is an upper estimate."""
    texts = [rendered.instructions, json.dumps(rendered.schema)]
    for message in messages:
        texts += [
            p.content for p in message.parts if isinstance(p, UserPromptPart | TextPart) and isinstance(p.content, str)
        ]
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    ascii_size = sum(sum(c.isascii() for c in text) for text in texts)
    return 16 * (len(messages) + 1) + (size - ascii_size) + ascii_size // ascii_per_token


@contextmanager
def bounded(model: LanguageModel, seconds: float) -> Iterator[None]:
    """Leave a call of `model` after `seconds`, and raise only errors of hoptrail's tree.

    Raises:
        ModelUnavailableError: It did not end in time.
        ModelError: What the call raised, translated.
    """
    try:
        with anyio.move_on_after(seconds) as scope:
            yield
    except HoptrailError:
        raise
    except Exception as error:
        raise translate(error, model.name) from error
    if scope.cancelled_caught:
        raise ModelUnavailableError(
            f"Model {model.name} did not answer within {seconds:g} s (HOPTRAIL_MODEL_TIMEOUT_S)."
        )


def _instructions(rendered: Rendered[T], mode: OutputMode) -> str:
    if mode != "prompted":
        return rendered.instructions
    schema = json.dumps(rendered.schema)
    return f"{rendered.instructions}\n\nWrite one JSON object that fits this schema, and nothing else:\n{schema}"
