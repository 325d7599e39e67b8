"""The tool contract as a check that any tool can be run through."""

import math
from collections.abc import Iterable

import anyio

from hoptrail.tools.base import Evidence, Tool

__all__ = ["check_tool"]

_ODD_QUERIES = ("", " \n\t", "?", "0", "\U0001f9ed", "\x00", "\ud800", "\u05e9\u05dc\u05d5\u05dd", "word " * 3_000)
_DEPTHS = (1, 3, 10_000)


async def check_tool(tool: Tool, queries: Iterable[str]) -> None:
    """Assert that `tool` keeps the contract of `hoptrail.tools.base.Tool` for `queries` and for odd ones of its own.

    Checked: a usable name and description; at most `k` hits, best first, none twice, with finite scores; nothing for an
    empty query; fewer hits are the beginning of more; the same answer again, and when many are asked at once.

    Raises:
        AssertionError: It does not; the message says what, for which query.
    """
    _expect(tool.name.partition("/")[0].isidentifier(), f"the name {tool.name!r} is not one word")
    _expect(bool(tool.description.strip()), f"tool {tool.name} has no description")
    asked = [*queries, *_ODD_QUERIES]
    alone: dict[str, Evidence] = {}
    for query in asked:
        alone[query] = await _consistent(tool, query)
    together: dict[str, Evidence] = {}

    async def ask(query: str) -> None:
        together[query] = await tool.retrieve(query, k=_DEPTHS[-1])

    async with anyio.create_task_group() as group:
        for query in asked:
            group.start_soon(ask, query)
    for query in asked:
        _expect(together[query] == alone[query], f"another answer when asked beside others: {query[:60]!r}")


async def _consistent(tool: Tool, query: str) -> Evidence:
    """The evidence at the largest depth, of which those at smaller ones must be the beginning."""
    found = [await _checked(tool, query, k) for k in _DEPTHS]
    most = found[-1]
    for k, evidence in zip(_DEPTHS, found, strict=True):
        _expect(evidence.hits == most.hits[:k], f"the best {k} for {query[:60]!r} depend on how many are asked for")
    return most


async def _checked(tool: Tool, query: str, k: int) -> Evidence:
    evidence = await tool.retrieve(query, k=k)
    shown = repr(query[:60])
    scores = [hit.score for hit in evidence.hits]
    numbers = [*scores, *(value for hit in evidence.hits for value in hit.views.values())]
    ids = [hit.id for hit in evidence.hits]
    _expect(evidence.tool == tool.name, f"evidence for {shown} names the tool {evidence.tool!r}")
    _expect(evidence.query == query, f"evidence for {shown} names another query")
    _expect(len(ids) <= k, f"{len(ids)} hits for {shown} where {k} were asked for")
    _expect(len(set(ids)) == len(ids), f"a passage twice for {shown}")
    _expect(all(map(math.isfinite, numbers)), f"a score that is not finite for {shown}")
    _expect(scores == sorted(scores, reverse=True), f"hits out of order for {shown}")
    _expect(bool(query.strip()) or not ids, f"hits for the empty query {shown}")
    return evidence


def _expect(kept: bool, otherwise: str) -> None:
    if not kept:  # no assert statement, which python -O leaves out
        raise AssertionError(otherwise)
