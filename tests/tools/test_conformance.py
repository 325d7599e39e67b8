import math
from collections.abc import Callable

import pytest

from hoptrail.testing.doubles import FakeTool
from hoptrail.testing.tools import check_tool
from hoptrail.tools.base import Evidence, Hit

Break = Callable[[Evidence, int], Evidence]


class Letters:
    """Keeps the contract: one hit per letter, unless `spoil` makes something else of it."""

    name = "letters"
    description = "Finds letters."

    def __init__(self, spoil: Break = lambda evidence, k: evidence) -> None:
        self._spoil = spoil

    async def retrieve(self, query: str, *, k: int) -> Evidence:
        letters = sorted({letter for letter in query if letter.isalpha()})[:k]
        hits = tuple(Hit(id=c, document=c, title="", text=c, score=1 / (n + 1)) for n, c in enumerate(letters))
        return self._spoil(Evidence(query=query, tool=self.name, hits=hits), k)


def with_hits(evidence: Evidence, *hits: Hit) -> Evidence:
    return evidence.model_copy(update={"hits": hits})


def rescored(evidence: Evidence, score: float) -> Evidence:
    return with_hits(evidence, *(hit.model_copy(update={"score": score}) for hit in evidence.hits))


FAULTS: dict[str, Break] = {
    "hits out of order": lambda e, k: with_hits(e, *reversed(e.hits)),
    "a passage twice": lambda e, k: with_hits(e, *(e.hits[:1] * 2)) if k > 1 else e,
    "where 1 were asked for": lambda e, k: with_hits(e, *e.hits, Hit(id="x", document="x", title="", text="", score=0)),
    "not finite": lambda e, k: rescored(e, math.nan),
    "names the tool": lambda e, k: e.model_copy(update={"tool": "other"}),
    "names another query": lambda e, k: e.model_copy(update={"query": "other"}),
    "depend on how many": lambda e, k: with_hits(e, *e.hits[1:]) if k == 1 else e,
    "hits for the empty query": lambda e, k: (
        e if e.query.strip() else with_hits(e, Hit(id="x", document="x", title="", text="", score=0))
    ),
}


async def test_a_tool_that_keeps_the_contract_passes() -> None:
    await check_tool(Letters(), ["who", "where was it"])


@pytest.mark.parametrize("message", FAULTS)
async def test_one_that_does_not_is_told_what(message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        await check_tool(Letters(FAULTS[message]), ["who", "where was it"])


async def test_answers_that_change_are_noticed() -> None:
    asked: list[str] = []

    def sometimes(evidence: Evidence, k: int) -> Evidence:
        asked.append(evidence.query)
        return rescored(evidence, float(len(asked))) if k > 3 else evidence

    with pytest.raises(AssertionError, match=r"asked beside others|depend on how many"):
        await check_tool(Letters(sometimes), ["a"])


async def test_names_and_descriptions() -> None:
    with pytest.raises(AssertionError, match="not one word"):
        await check_tool(FakeTool("two words", lambda query: []), ["a"])
