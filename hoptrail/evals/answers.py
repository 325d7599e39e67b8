"""Questions end to end: planner, tools and model together."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hoptrail.client import Hoptrail
from hoptrail.errors import ConfigurationError, HoptrailError
from hoptrail.evals.datasets import DataSet, Question
from hoptrail.evals.metrics import all_evidence, exact_match, str_acc, token_f1
from hoptrail.evals.report import report

__all__ = ["evaluate_answers"]


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

    Each question's outcome is appended to `records` as it ends, and questions found there are not asked again. A run that
    fails counts 0 everywhere. Measures: `em`, `f1`, `str_acc`, `all_evidence`, `tokens`, `calls`, `seconds`, `steps`.
    """
    done = _read(records)
    rows = []
    for question in questions:
        row = done.get(question.id) or await _ask(question, hop, planner, tool)
        if records is not None and question.id not in done:
            with records.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"id": question.id, **row}) + "\n")
        rows.append(row["measures"])
        progress()
    seconds = sum(row["seconds"] for row in rows) / max(len(rows), 1)
    settings = {"model": hop.settings.model, "passages_per_step": hop.settings.passages_per_step}
    return report(data.name, questions, rows, tool=tool, planner=planner, seconds=seconds, settings=settings)


async def _ask(question: Question, hop: Hoptrail, planner: str, tool: str | None) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        answer = await hop.ask(question.question, planner=planner, tool=tool)
    except HoptrailError as error:
        zero = dict.fromkeys(("em", "f1", "str_acc", "all_evidence", "tokens", "calls", "steps"), 0.0)
        return {"error": str(error), "measures": {**zero, "seconds": time.perf_counter() - started}}
    found = [hit.document for hit in answer.evidence]
    return {
        "answer": answer.text,
        "plan": [step.question for step in answer.plan.steps],
        "measures": {
            "em": exact_match(answer.text, question.answers),
            "f1": token_f1(answer.text, question.answers),
            "str_acc": str_acc(answer.text, question.answers),
            "all_evidence": all_evidence(found, question.supporting),
            "tokens": float(answer.usage.tokens),
            "calls": float(answer.usage.calls),
            "steps": float(len(answer.plan.steps)),
            "seconds": answer.usage.seconds,
        },
    }


def _read(records: Path | None) -> dict[str, dict[str, Any]]:
    if records is None or not records.exists():
        return {}
    try:
        rows = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
        return {row["id"]: row for row in rows}
    except (ValueError, KeyError, TypeError):
        raise ConfigurationError(f"{records} is no record of an evaluation: delete it or name another file.") from None
