"""From a model's response to a typed output; and from a half-written one to the text so far."""

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition
from pydantic_core import from_json

from hoptrail.config import OutputMode
from hoptrail.errors import ModelOutputError
from hoptrail.prompts.base import Rendered

__all__ = ["parse_output", "partial_text", "request_parameters", "response_text"]

T = TypeVar("T", bound=BaseModel)
_TOOL = "give_output"
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)


def request_parameters(rendered: Rendered[T], mode: OutputMode) -> ModelRequestParameters:
    """How to ask a model for `rendered`'s output in `mode`; `prompted` leaves it to the instructions."""
    if mode == "tool":
        tool = ToolDefinition(
            name=_TOOL,
            description="Give the output.",
            parameters_json_schema=rendered.schema,
            kind="output",
            strict=None,
        )
        return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
    if mode == "native":
        schema = OutputObjectDefinition(json_schema=rendered.schema, name=f"{rendered.name}_output", strict=None)
        return ModelRequestParameters(output_mode="native", output_object=schema)
    return ModelRequestParameters(output_mode="text")


def response_text(response: ModelResponse) -> str:
    """The response's own text, or the arguments of its output tool call."""
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_name == _TOOL:
            # As it was written: what is wrong with it is found out, and mended, by `parse_output`.
            return part.args if isinstance(part.args, str) else part.args_as_json_str()
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def parse_output(rendered: Rendered[T], text: str, *, cut: bool = False) -> T:
    """`text` as the output that `rendered` asks for; with `cut`, text that breaks off counts for what is complete in it.

    Raises:
        ModelOutputError: There is no JSON object in it, or the object has not the right fields.
    """
    data = _json_object(text) or (_cut_object(text) if cut else None)
    if data is None:
        raise ModelOutputError(f"The model's output for prompt {rendered.name!r} holds no JSON object.")
    try:
        return rendered.output.model_validate(data)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)[:3])
        raise ModelOutputError(f"The model's output for prompt {rendered.name!r} is not in form: {faults}.") from None


def _json_object(text: str) -> dict[str, Any] | None:
    for candidate in (text, *(match[1] for match in _FENCE.finditer(text)), _braces(text)):
        try:
            # Grammar-constrained models may write raw newlines within strings.
            data = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            return {key: _storable(value) for key, value in data.items()}
    return None


def _cut_object(text: str) -> dict[str, Any] | None:
    """The beginning of an object, without the list item at which it breaks off."""
    try:
        data = from_json(text[text.find("{") :], allow_partial=True)
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    kept = {key: _storable(value) for key, value in data.items()}
    last = next(reversed(kept), "")
    if isinstance(kept.get(last), list):
        kept[last] = kept[last][:-1]
    return kept


def _storable(value: Any) -> Any:
    """`value` without lone surrogates, which JSON can name and nothing can print, send or store."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in value.items()}
    return value


def _braces(text: str) -> str:
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else ""


def partial_text(text: str, field: str) -> str:
    """What is there so far of string `field` in a JSON object that is still being written; empty if nothing."""
    start = text.find("{")
    if start < 0:
        return ""
    try:
        data = from_json(text[start:], allow_partial="trailing-strings")
    except ValueError:
        return ""
    value = data.get(field) if isinstance(data, dict) else None
    return value if isinstance(value, str) else ""
