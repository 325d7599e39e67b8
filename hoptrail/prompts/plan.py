"""Turn a question into an initial summary and a dependency plan (ConRAG, section 3.3)."""

import copy
import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from hoptrail.prompts.base import Block, Example, Prompt, Rendered

__all__ = ["PLAN", "PlanOutput", "render_plan"]


class PlanOutput(BaseModel):
    """The plan as written, unchecked: whatever `summary` and `steps` hold is validated and repaired by the runtime."""

    model_config = ConfigDict(extra="ignore")

    summary: Any = ""
    steps: Any = Field(default_factory=list)


_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "maxLength": 400},
        "steps": {
            "type": "array",
            "minItems": 1,
            "maxItems": 12,
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "question": {"type": "string", "maxLength": 300},
                    "depends_on": {"type": "array", "items": {"type": "integer"}, "maxItems": 6},
                    "tool": {"type": "string"},
                },
                "required": ["id", "question", "depends_on", "tool"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["summary", "steps"],
    "additionalProperties": False,
}

_INSTRUCTIONS = """\
You plan how to answer a question from a collection of documents that can only be searched.

Give two things:
- summary: one sentence with what the passages already say about the question; empty if nothing.
- steps: the sub-questions to look up. Each has
  - id: 0, 1, 2, … in this order;
  - question: one simple question about one fact, with full names, that can be understood and searched by itself;
  - depends_on: the ids of the earlier steps whose answers it needs, else an empty list;
  - tool: the name of the search tool that suits it best.

Begin with the thing that the question describes but does not name, such as "the wife of X" or "the city where Y is": ask for
it alone, by the names the question gives. Where a later question needs that answer, write <dep:id> at the very place where
the answer belongs, and put that id into depends_on. Never refer to an earlier answer by words such as "that person" or "this
city", and never ask the whole question in one step. Steps that do not need each other must not depend on each other. Use as
few steps as the question needs: one for a question about one fact, two when one thing must be found first, one for each side
of a comparison. Do not answer the question yourself."""

_TOOLS = Block("tools", "text: finds passages by meaning\nlexical: finds passages by exact words")


def _example(question: str, *steps: tuple[str, list[int]]) -> Example:
    written = [{"id": i, "question": text, "depends_on": on, "tool": "text"} for i, (text, on) in enumerate(steps)]
    output = json.dumps({"summary": "", "steps": written}, ensure_ascii=False)
    return Example((_TOOLS, Block("passages", "(none)"), Block("question", question)), output)


PLAN = Prompt(
    name="plan",
    version="2",
    instructions=_INSTRUCTIONS,
    output=PlanOutput,
    schema=_SCHEMA,
    examples=(
        _example(
            "When did the husband of the singer Ilse Brandvold paint The Red Barn?",
            ("Who is the husband of the singer Ilse Brandvold?", []),
            ("When did <dep:0> paint The Red Barn?", [0]),
        ),
        _example(
            "Was the Tessel lighthouse built before the Marken bridge?",
            ("When was the Tessel lighthouse built?", []),
            ("When was the Marken bridge built?", []),
        ),
        _example(
            "How many people live in the town where the author of Salt Roads was born?",
            ("Who is the author of Salt Roads?", []),
            ("In which town was <dep:0> born?", [0]),
            ("How many people live in <dep:1>?", [1]),
        ),
        _example(
            "In which sea is the island on which the poet Edda Lunde lived?",
            ("On which island did the poet Edda Lunde live?", []),
            ("In which sea is <dep:0>?", [0]),
        ),
        _example(
            "Who is the spouse of the director of Winter Harbour?",
            ("Who is the director of Winter Harbour?", []),
            ("Who is the spouse of <dep:0>?", [0]),
        ),
        _example(
            "What is the longest river of the country where the Lindqvist prize is given?",
            ("In which country is the Lindqvist prize given?", []),
            ("What is the longest river of <dep:0>?", [0]),
        ),
    ),
)


def render_plan(
    question: str,
    passages: Sequence[tuple[str, str]],
    tools: Sequence[tuple[str, str]],
    *,
    max_steps: int,
    guided: bool,
) -> Rendered[PlanOutput]:
    """The request for a plan; `tools` are `(name, description)`, `passages` `(title, text)`."""
    schema = copy.deepcopy(_SCHEMA)
    schema["properties"]["steps"]["maxItems"] = max_steps
    schema["properties"]["steps"]["items"]["properties"]["tool"] = {
        "type": "string",
        "enum": [name for name, _ in tools],
    }
    # A small model copies its plan from the passages instead of taking the question apart, so it is not shown any.
    shown = () if guided else passages
    found = "\n\n".join(f"{title}\n{text}" if title else text for title, text in shown)
    blocks = [
        Block("tools", "\n".join(f"{name}: {description}" for name, description in tools)),
        Block("passages", found or "(none)"),
        Block("question", question),
    ]
    return PLAN.render(blocks, guided=guided, schema=schema)
