"""hoptrail: an async, event-driven agent runtime for multi-hop question answering over your own documents.

import hoptrail

answer = await hoptrail.ask("Who …?", corpus="my-corpus")
print(answer.text, answer.citations)
"""

from hoptrail.client import Hoptrail, ask
from hoptrail.config import Settings
from hoptrail.errors import HoptrailError
from hoptrail.runtime.answer import Answer, Citation, StepResult, Usage
from hoptrail.runtime.context import Draft, Planner, RunContext
from hoptrail.runtime.events import Event
from hoptrail.runtime.fold import answer_from_events
from hoptrail.runtime.plan import Plan, Step
from hoptrail.runtime.stream import RunStream
from hoptrail.runtime.trace import read_trace
from hoptrail.tools.base import Evidence, Hit, Tool

__all__ = [
    "Answer",
    "Citation",
    "Draft",
    "Event",
    "Evidence",
    "Hit",
    "Hoptrail",
    "HoptrailError",
    "Plan",
    "Planner",
    "RunContext",
    "RunStream",
    "Settings",
    "Step",
    "StepResult",
    "Tool",
    "Usage",
    "answer_from_events",
    "ask",
    "read_trace",
]

__version__ = "0.1.0"
