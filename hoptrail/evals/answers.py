"""Questions end to end: planner, tools and model together."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hoptrail.client import Hoptrail
from hoptrail.errors import (
    ConfigurationError,
    CorpusError,
    HoptrailError,
    ModelAccessError,
    ModelFileError,
    UnknownPlannerError,
    UnknownToolError,
)
from hoptrail.evals.datasets import DataSet, Question
from hoptrail.evals.metrics import all_evidence, exact_match, str_acc, token_f1
from hoptrail.evals.records import Records
from hoptrail.evals.report import report
from hoptrail.runtime.answer import Answer

__all__ = ["evaluate_answers"]

# These say that the system is not set up, which is no measure of how well it answers.
_NOT_SET_UP = (ConfigurationError, CorpusError, ModelAccessError, ModelFileError, UnknownPlannerError, UnknownToolError)
_MEASURES = ("em", "f1", "str_acc", "all_evidence", "tokens", "calls", "seconds", "steps", "failed")


async def evaluate_answers(
    data: DataSet,
    questions: Sequence[Question],
    hop: Hoptrail,
    *,
    planner: str,
    tool: str | None,
    records: Path | None = None,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The report of `planner` on `questions`, one at a time.

    Each question's outcome is appended to `records` as it ends; questions found there are not asked again, unless they
    failed. A run that fails counts 0 in every measure but `seconds` and `failed`. Measures: `em`, `f1`, `str_acc`,
    `all_evidence` (0 for a question without gold passages), `tokens`, `calls`, `seconds`, `steps`, `failed`.

    Raises:
        HoptrailError: The system is not set up: its model, key, corpus, planner or tool is wrong.
    """
    system = {
        "set": data.name,
        "planner": planner,
        "tool": tool,
        "model": hop.settings.model,
        "passages_per_step": hop.settings.passages_per_step,
    }
    kept = Records(records, system)
    rows = []
    for question in questions:
        row = kept.get(question.id)
        if row is None:
            row = await _ask(question, hop, planner, tool)
            kept.put(question.id, row)
        rows.append(row["measures"])
        progress()
    seconds = sum(row["seconds"] for row in rows) / max(len(rows), 1)
    settings = {"model": system["model"], "passages_per_step": system["passages_per_step"]}
    return report(data.name, questions, rows, tool=tool, planner=planner, seconds=seconds, settings=settings)


async def _ask(question: Question, hop: Hoptrail, planner: str, tool: str | None) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        answer = await hop.ask(question.question, planner=planner, tool=tool)
    except _NOT_SET_UP:
        raise
    except HoptrailError as error:
        measures = dict.fromkeys(_MEASURES, 0.0) | {"seconds": time.perf_counter() - started, "failed": 1.0}
        return {"error": str(error), "measures": measures}
    steps = [
        {"question": s.question, "answer": s.answer, "documents": [hit.document for hit in s.evidence]}
        for s in answer.steps
    ]
    return {"answer": answer.text, "steps": steps, "measures": _measures(question, answer)}


def _measures(question: Question, answer: Answer) -> dict[str, float]:
    found = [hit.document for hit in answer.evidence]
    return {
        "em": exact_match(answer.text, question.answers),
        "f1": token_f1(answer.text, question.answers),
        "str_acc": str_acc(answer.text, question.answers),
        "all_evidence": all_evidence(found, question.supporting),
        "tokens": float(answer.usage.tokens),
        "calls": float(answer.usage.calls),
        "seconds": answer.usage.seconds,
        "steps": float(len(answer.plan.steps)),
        "failed": 0.0,
    }
