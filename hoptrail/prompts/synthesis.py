"""Write the final answer from the answered plan and the summaries (ConRAG, section 3.3)."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from hoptrail.prompts.base import Block, Example, Prompt, Rendered, not_found_rule

__all__ = ["SYNTHESIS", "SynthesisOutput", "render_synthesis"]


class SynthesisOutput(BaseModel):
    """How the findings lead to the answer, and the answer."""

    model_config = ConfigDict(extra="ignore")

    reasoning: str = ""
    answer: str


_SCHEMA = {
    "type": "object",
    "properties": {"reasoning": {"type": "string", "maxLength": 400}, "answer": {"type": "string", "maxLength": 400}},
    "required": ["reasoning", "answer"],
    "additionalProperties": False,
}

_INSTRUCTIONS = f"""\
A question was split into sub-questions, and each was answered from documents. You give the answer to the question.

Give two things:
- reasoning: one sentence that says how the findings lead to the answer.
- answer: as short as possible, such as a name, a date, a number, yes or no; never a sentence.

Rely on the findings and the notes alone. A finding that answers a different question does not count.
{not_found_rule("Information not found")}"""

SYNTHESIS = Prompt(
    name="synthesis",
    version="1",
    instructions=_INSTRUCTIONS,
    output=SynthesisOutput,
    schema=_SCHEMA,
    examples=(
        Example(
            (
                Block(
                    "findings",
                    "1. Who sang Harbour Lights? -> Ilse Brandvold\n2. In which town was Ilse Brandvold born? -> Voss",
                ),
                Block("notes", "- Harbour Lights is an album by Ilse Brandvold.\n- Ilse Brandvold was born in Voss."),
                Block("question", "In which town was the singer of Harbour Lights born?"),
            ),
            '{"reasoning": "The singer is Ilse Brandvold, who was born in Voss.", "answer": "Voss"}',
        ),
    ),
)


def render_synthesis(
    question: str, findings: Sequence[tuple[str, str]], notes: Sequence[str], *, guided: bool
) -> Rendered[SynthesisOutput]:
    """The request for the final answer; `findings` are `(bound sub-question, answer)` in topological order."""
    lines = "\n".join(f"{n}. {asked} -> {answer}" for n, (asked, answer) in enumerate(findings, 1))
    blocks = [Block("findings", lines or "(none)")]
    if notes:
        blocks.append(Block("notes", "\n".join(f"- {note}" for note in notes)))
    return SYNTHESIS.render([*blocks, Block("question", question)], guided=guided)
