"""How well one tool finds the gold passages of whole questions."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from hoptrail.evals.datasets import DataSet, Question
from hoptrail.evals.metrics import all_evidence, ndcg, recall, reciprocal_rank
from hoptrail.evals.report import report
from hoptrail.tools.base import Tool

__all__ = ["evaluate_retrieval"]

K = (3, 5, 10)


async def evaluate_retrieval(
    data: DataSet, questions: Sequence[Question], tool: Tool, *, progress: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The report of `tool` on `questions`; a passage counts by its document, as a set's passages are documents.

    Measures: `recall@k` and `all@k` for k = 3, 5, 10, `mrr`, `ndcg@10`; `seconds` is the mean time of one retrieval.
    """
    rows = []
    spent = 0.0
    for question in questions:
        started = time.perf_counter()
        evidence = await tool.retrieve(question.question, k=max(K))
        spent += time.perf_counter() - started
        ranked = [hit.document for hit in evidence.hits]
        gold = question.supporting
        row = {f"recall@{k}": recall(ranked, gold, k) for k in K}
        row |= {f"all@{k}": all_evidence(ranked, gold, k) for k in K}
        row |= {"mrr": reciprocal_rank(ranked, gold), "ndcg@10": ndcg(ranked, gold, 10)}
        rows.append(row)
        progress()
    seconds = spent / max(len(questions), 1)
    return report(data.name, questions, rows, tool=tool.name, planner=None, seconds=seconds, settings={"k": list(K)})
