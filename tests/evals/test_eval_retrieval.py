from pathlib import Path

import pytest

from hoptrail.errors import ConfigurationError
from hoptrail.evals.datasets import DataSet, Question
from hoptrail.evals.retrieval import evaluate_retrieval
from hoptrail.tools.base import Evidence, Hit

KEYS = {"set", "tool", "planner", "n", "metrics", "intervals", "by_hops", "by_type"}
KEYS |= {"seconds", "settings", "versions", "questions"}


class Fixed:
    """A tool with one ranking of passages, given as `(passage, document)`."""

    name, description = "fixed", "For tests."

    def __init__(self, *ranking: tuple[str, str]) -> None:
        self.ranking = ranking
        self.asked: list[int] = []

    async def retrieve(self, query: str, *, k: int) -> Evidence:
        self.asked.append(k)
        hits = [Hit(id=p, document=d, title="", text="t", score=-i) for i, (p, d) in enumerate(self.ranking)]
        return Evidence(query=query, tool=self.name, hits=tuple(hits[:k]))


def data(*questions: Question) -> DataSet:
    return DataSet(name="made", corpus=Path("none"), questions=questions)


async def test_the_report_has_its_keys_and_its_figures() -> None:
    made = data(
        Question(id="1", question="q", supporting=("a", "b"), hops=2, type="bridge"),
        Question(id="2", question="q", supporting=("a",), hops=1, type="bridge"),
        Question(id="3", question="q", supporting=("z",), hops=2, type="comparison"),
        Question(id="4", question="q"),
    )
    tool = Fixed(*((f"{d}#0", d) for d in "xaybwvutsr"))
    report = await evaluate_retrieval(made, made.questions, tool)
    assert set(report) == KEYS
    assert (report["set"], report["tool"], report["planner"], report["n"]) == ("made", "fixed", None, 3)
    names = ["recall@3", "recall@5", "recall@10", "all@3", "all@5", "all@10", "mrr", "ndcg@10"]
    assert list(report["metrics"]) == list(report["intervals"]) == names
    assert report["metrics"]["recall@3"] == pytest.approx((0.5 + 1 + 0) / 3)
    assert report["metrics"]["recall@5"] == pytest.approx(2 / 3)
    assert report["metrics"]["all@3"] == pytest.approx(1 / 3)
    assert report["metrics"]["mrr"] == pytest.approx((0.5 + 0.5) / 3)
    assert report["by_hops"]["2"]["n"] == 2
    assert report["by_hops"]["2"]["all@5"] == 0.5
    assert report["by_type"]["comparison"]["recall@10"] == 0
    assert set(report["questions"]) == {"1", "2", "3"}
    assert report["settings"]["without_gold"] == 1
    assert report["versions"]["hoptrail"]


async def test_a_document_of_many_passages_counts_once_and_more_are_asked_for() -> None:
    ranking = [(f"long#{i}", "long") for i in range(12)] + [("b#0", "b"), ("a#0", "a")]
    made = data(Question(id="1", question="q", supporting=("a", "b")))
    tool = Fixed(*ranking)
    report = await evaluate_retrieval(made, made.questions, tool, k=(1, 3))
    assert tool.asked == [3, 6, 12, 24]
    assert report["metrics"]["all@3"] == 1
    assert report["metrics"]["mrr"] == 0.5
    assert report["metrics"]["ndcg@3"] < 1


async def test_a_set_without_gold_passages_is_refused() -> None:
    made = data(Question(id="1", question="q"))
    with pytest.raises(ConfigurationError, match="names no gold passages"):
        await evaluate_retrieval(made, made.questions, Fixed())
