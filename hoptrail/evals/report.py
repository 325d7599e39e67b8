"""What an evaluation saves: stable keys, its settings, and the versions it ran with."""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import hoptrail
from hoptrail.evals.datasets import Question
from hoptrail.evals.metrics import by_group, interval, mean

__all__ = ["report"]

_VERSIONS = ("pydantic-ai-slim", "chromadb", "sentence-transformers", "bm25s")


def report(
    name: str,
    questions: Sequence[Question],
    rows: Sequence[Mapping[str, float]],
    *,
    tool: str | None,
    planner: str | None,
    seconds: float,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The result of one system on one set; `rows` holds each question's measures, in the questions' order.

    Keys: `set`, `tool`, `planner`, `n`, `metrics`, `intervals` (95 %, bootstrap), `by_hops`, `by_type`, `seconds`,
    `settings`, `versions`, `questions` (each question's own measures).
    """
    names = list(rows[0]) if rows else []
    columns = {key: [row[key] for row in rows] for key in names}
    return {
        "set": name,
        "tool": tool,
        "planner": planner,
        "n": len(rows),
        "metrics": {key: mean(values) for key, values in columns.items()},
        "intervals": {key: interval(values) for key, values in columns.items()},
        "by_hops": by_group(rows, [q.hops for q in questions]),
        "by_type": by_group(rows, [q.type or None for q in questions]),
        "seconds": seconds,
        "settings": dict(settings),
        "versions": {
            "hoptrail": hoptrail.__version__,
            "python": platform.python_version(),
            **{package: version(package) for package in _VERSIONS},
        },
        "questions": {q.id: dict(row) for q, row in zip(questions, rows, strict=True)},
    }
