"""Turn a question into an initial summary and a dependency plan (ConRAG, section 3.3)."""

import copy
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

Where a question needs the answer of an earlier step, write <dep:id> at the very place where that answer belongs, and put
that id into depends_on. Never refer to an earlier answer by words such as "that person" or "this city". Steps that do not
need each other must not depend on each other. Use as few steps as the question needs: one for a question about one fact,
two when one thing must be found first, one for each side of a comparison. The last step's answer, or the steps together,
must answer the question. Do not answer the question yourself, and do not put a name into a question that the question did
not give you."""

_TOOLS = Block("tools", "text: finds passages by meaning\nlexical: finds passages by their exact words")

PLAN = Prompt(
    name="plan",
    version="1",
    instructions=_INSTRUCTIONS,
    output=PlanOutput,
    schema=_SCHEMA,
    examples=(
        Example(
            (
                _TOOLS,
                Block("passages", "(none)"),
                Block("question", "In which town was the singer of Harbour Lights born?"),
            ),
            '{"summary": "", "steps": [{"id": 0, "question": "Who is the singer of Harbour Lights?", "depends_on": [], "tool": "text"}, '
            '{"id": 1, "question": "In which town was <dep:0> born?", "depends_on": [0], "tool": "text"}]}',
        ),
        Example(
            (
                _TOOLS,
                Block("passages", "(none)"),
                Block("question", "Was the Tessel lighthouse built before the Marken bridge?"),
            ),
            '{"summary": "", "steps": [{"id": 0, "question": "When was the Tessel lighthouse built?", "depends_on": [], "tool": "text"}, '
            '{"id": 1, "question": "When was the Marken bridge built?", "depends_on": [], "tool": "text"}]}',
        ),
        Example(
            (
                _TOOLS,
                Block("passages", "(none)"),
                Block("question", "Who founded the company that employs the father of the chess player Anouk Verhey?"),
            ),
            '{"summary": "", "steps": [{"id": 0, "question": "Who is the father of the chess player Anouk Verhey?", "depends_on": [], "tool": "text"}, '
            '{"id": 1, "question": "Which company employs <dep:0>?", "depends_on": [0], "tool": "text"}, '
            '{"id": 2, "question": "Who founded <dep:1>?", "depends_on": [1], "tool": "text"}]}',
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
    found = "\n\n".join(f"{title}\n{text}" if title else text for title, text in passages)
    blocks = [
        Block("tools", "\n".join(f"{name}: {description}" for name, description in tools)),
        Block("passages", found or "(none)"),
        Block("question", question),
    ]
    return PLAN.render(blocks, guided=guided, schema=schema)
