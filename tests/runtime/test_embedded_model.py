"""A whole run with the embedded model behind its own server: no script, no double but the passages."""

import pytest
from helpers import check_log

from hoptrail.client import Hoptrail
from hoptrail.config import Settings
from hoptrail.runtime.fold import answer_from_events
from hoptrail.testing.doubles import FakeTool, RecordingSink
from hoptrail.tools.registry import ToolRegistry

PASSAGES = (
    "Marken Lights is a novel of 1931 by Johanna Terwiel.",
    "Johanna Terwiel was born in Hoorn and lived in Utrecht.",
    "Hoorn is a town with a harbour.",
)


@pytest.mark.embedded_llm
@pytest.mark.timeout(600)
async def test_a_question_of_two_hops(embedded_llm: None) -> None:
    sink = RecordingSink()
    tools = ToolRegistry([FakeTool("text", lambda _: PASSAGES)])
    async with Hoptrail(Settings.load(), tools, sinks=[sink]) as hop:
        answer = await hop.ask("In which town was the author of Marken Lights born?")
    check_log(sink.events)
    assert answer_from_events(sink.events) == answer
    assert answer.text == "Hoorn"
    assert len(answer.plan.steps) == 2
    assert "plan.rejected" not in sink.types()
    assert answer.plan.steps[1].depends_on == (0,)
    assert answer.steps[1].question != answer.plan.steps[1].question, "a slot was bound"
    assert answer.usage.calls == 4
    assert answer.usage.output_tokens > 20
    assert "".join(e.text for e in sink.events if e.type == "answer.delta") == answer.text
