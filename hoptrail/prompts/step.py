"""Answer one sub-question from its passages and its memory (ConRAG, section 3.3; also the whole of plain retrieval)."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from hoptrail.prompts.base import Block, Example, Prompt, Rendered, not_found_rule

__all__ = ["STEP", "StepOutput", "render_step"]


class StepOutput(BaseModel):
    """What the passages say about the question, the short answer, and the numbers of the passages it rests on."""

    model_config = ConfigDict(extra="ignore")

    summary: str = ""
    answer: str
    passages: list[int] = Field(default_factory=list)


_SCHEMA = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "maxLength": 400},
        "answer": {"type": "string", "maxLength": 200},
        "passages": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
    },
    "required": ["summary", "answer", "passages"],
    "additionalProperties": False,
}

_INSTRUCTIONS = f"""\
You answer a question from numbered passages.

Give three things:
- summary: one sentence that states what the passages say about the question, with names and dates as written there.
- answer: as short as possible, such as a name, a date, a number, yes or no; never a sentence.
- passages: the numbers of the passages that the answer comes from.

Use only the passages and, where there is one, the memory of earlier findings. Titles belong to their passages.
{not_found_rule("Information not found")}"""


def _block_passages(passages: Sequence[tuple[str, str]]) -> Block:
    text = "\n\n".join(
        f"({n}) {title}\n{body}" if title else f"({n}) {body}" for n, (title, body) in enumerate(passages, 1)
    )
    return Block("passages", text or "(none)")


STEP = Prompt(
    name="step",
    version="1",
    instructions=_INSTRUCTIONS,
    output=StepOutput,
    schema=_SCHEMA,
    examples=(
        Example(
            (
                _block_passages(
                    [
                        (
                            "Harbour Lights (album)",
                            "Harbour Lights is the second album by the folk singer Ilse Brandvold, recorded in Bergen.",
                        ),
                        (
                            "Ilse Brandvold",
                            "Ilse Brandvold (born 4 May 1951) grew up on a farm and moved to Bergen in 1970.",
                        ),
                        ("Bergen Arts Prize", "The prize has been given every year since 1948."),
                    ]
                ),
                Block("question", "When was the singer of Harbour Lights born?"),
            ),
            '{"summary": "Harbour Lights is by Ilse Brandvold, who was born on 4 May 1951.", "answer": "4 May 1951", "passages": [1, 2]}',
        ),
        Example(
            (
                _block_passages(
                    [("Port of Tessel", "The port was opened in 1902 and is named after a nearby island.")]
                ),
                Block("question", "Who designed the lighthouse of Tessel?"),
            ),
            '{"summary": "The passage is about the port, not the lighthouse.", "answer": "Information not found", "passages": []}',
        ),
    ),
)


def render_step(
    question: str, passages: Sequence[tuple[str, str]], memory: Sequence[str], *, guided: bool
) -> Rendered[StepOutput]:
    """The request for one step; `passages` are `(title, text)`, numbered from 1 in this order."""
    blocks = [_block_passages(passages)]
    if memory:
        blocks.append(Block("memory", "\n".join(f"- {line}" for line in memory)))
    return STEP.render([*blocks, Block("question", question)], guided=guided)
