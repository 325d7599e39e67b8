"""How well one tool finds the gold passages of whole questions."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from hoptrail.errors import ConfigurationError
from hoptrail.evals.datasets import DataSet, Question
from hoptrail.evals.metrics import all_evidence, distinct, ndcg, recall, reciprocal_rank
from hoptrail.evals.report import report
from hoptrail.tools.base import Tool

__all__ = ["evaluate_retrieval"]


async def evaluate_retrieval(
    data: DataSet,
    questions: Sequence[Question],
    tool: Tool,
    *,
    k: Sequence[int] = (3, 5, 10),
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The report of `tool` on those of `questions` that have gold passages.

    A passage counts by its document, each document once, at its best passage's rank. Measures: `recall@k` and `all@k` for
    each of `k`, `mrr` and `ndcg@K` within the largest, `K`; `seconds` is the mean time of one retrieval.

    Raises:
        ConfigurationError: No question has gold passages.
    """
    deepest = max(k)
    chosen = [question for question in questions if question.supporting]
    if not chosen:
        raise ConfigurationError(f"Set {data.name} names no gold passages: use `hoptrail eval answer` for it.")
    rows = []
    spent = 0.0
    for question in chosen:
        started = time.perf_counter()
        ranked = await _documents(tool, question.question, deepest)
        spent += time.perf_counter() - started
        gold = question.supporting
        row = {f"recall@{depth}": recall(ranked, gold, depth) for depth in k}
        row |= {f"all@{depth}": all_evidence(ranked, gold, depth) for depth in k}
        row |= {"mrr": reciprocal_rank(ranked, gold), f"ndcg@{deepest}": ndcg(ranked, gold, deepest)}
        rows.append(row)
        progress()
    settings = {"k": list(k), "without_gold": len(questions) - len(chosen)}
    return report(data.name, chosen, rows, tool=tool.name, planner=None, seconds=spent / len(chosen), settings=settings)


async def _documents(tool: Tool, query: str, count: int) -> list[str]:
    """The first `count` documents; more passages are asked for where several are of one document."""
    asked = count
    while True:
        hits = (await tool.retrieve(query, k=asked)).hits
        documents = distinct(hit.document for hit in hits)
        if len(documents) >= count or len(hits) < asked:
            return documents[:count]
        asked *= 2
