"""What the package promises to export."""

import subprocess
import sys

import hoptrail

NAMES = [
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


def test_the_face_is_what_it_was() -> None:
    assert hoptrail.__all__ == NAMES
    assert all(getattr(hoptrail, name) is not None for name in NAMES)


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, hoptrail; print(sum(m in sys.modules for m in ('torch', 'pydantic_ai', 'chromadb', 'openai')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
