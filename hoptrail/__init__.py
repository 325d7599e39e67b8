"""hoptrail: an async, event-driven agent runtime for multi-hop question answering over your own documents.

    import hoptrail

    answer = await hoptrail.ask("Who …?", corpus="my-corpus")
    print(answer.text, answer.citations)

Names are imported when first used, so that `import hoptrail` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOMES = {
    "client": ("Hoptrail", "ask"),
    "config": ("Settings",),
    "errors": ("HoptrailError",),
    "runtime.answer": ("Answer", "Citation", "StepResult", "Usage"),
    "runtime.context": ("Draft", "Planner", "RunContext"),
    "runtime.events": ("Event",),
    "runtime.fold": ("answer_from_events",),
    "runtime.plan": ("Plan", "Step"),
    "runtime.stream": ("RunStream",),
    "runtime.trace": ("read_trace",),
    "tools.base": ("Evidence", "Hit", "Tool"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'hoptrail' has no attribute {name!r}")
    value = getattr(import_module(f"hoptrail.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *(name for name in __all__ if name not in globals())]
