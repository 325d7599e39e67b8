"""ConRAG's Consensus: several views of one query, each normalised, fused into one ranking (section 3.2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.errors import UnknownToolError
from hoptrail.tools.base import Evidence, Hit
from hoptrail.tools.fusion import BASELINES, Baseline, bounded, ranked
from hoptrail.tools.lexical import LexicalTool
from hoptrail.tools.scores import Scores, min_max
from hoptrail.tools.views import Vector, Views

__all__ = ["ConsensusTool", "Fusion"]

BASE = ("text", "lexical")
STRUCTURAL = ("entity", "relation", "bridge")
T = TypeVar("T")


@dataclass(frozen=True)
class Fusion:
    """Which views are fused and how.

    Attributes:
        weights: Of each view; one of weight 0 is not searched. Those of the structural views are in [0, 1].
        bound: How much the structural views can add, the paper's lambda, in [0, 1).
        baseline: Another way to fuse, in place of the bounded one; it knows no weights.
        linked: Whether entities that the query names count as hits.
        specific: Whether entities of few passages count more (the paper's specificity).
        residual: Whether relations are pooled by what stands out (the paper's residual pooling).
    """

    weights: Mapping[str, float]
    bound: float
    baseline: Baseline | None = None
    linked: bool = True
    specific: bool = True
    residual: bool = True

    def has(self, view: str) -> bool:
        """Whether this view takes part."""
        return self.weights.get(view, 0.0) > 0


PAPER = Fusion({"text": 1.0, "entity": 1.0, "relation": 1.0}, bound=0.5, linked=False)


class ConsensusTool:
    """Passages that several views agree on: meaning, words, entities, relations, and names that lead from the best ones.

    Variants are asked for as `consensus/NAME`: `paper` is the paper's three views; `mean`, `combmnz`, `rrf` and `rra` fuse
    the same views otherwise; `no-specificity` and `max-pooling` are the paper's ablations; several are joined by `+`, as in
    `consensus/paper+rrf`.
    """

    description = (
        "Finds passages that several kinds of evidence agree on: meaning, words, entities, relations, and names that lead "
        "from one passage to the next. The best choice for most questions."
    )

    def __init__(self, corpus: Corpus, settings: Settings, *, variant: str = "", fusion: Fusion | None = None) -> None:
        self.name = "consensus"
        self._corpus = corpus
        self._settings = settings
        self._views = Views(corpus, hits=settings.view_hits)
        self._lexical = LexicalTool(corpus)
        self._fusion = fusion or Fusion(settings.consensus_weights, settings.consensus_bound)
        for part in variant.split("+") if variant else ():
            self._fusion = _VARIANTS[part](self._fusion)
        if variant:
            self.name = f"consensus/{variant}"

    def variant(self, name: str) -> "ConsensusTool":
        """The same tool with other views or another fusion.

        Raises:
            UnknownToolError: There is no such variant.
        """
        if not all(part in _VARIANTS for part in name.split("+")):
            raise UnknownToolError(f"consensus/{name}", [f"consensus/{known}" for known in _VARIANTS])
        return ConsensusTool(self._corpus, self._settings, variant=name)

    async def retrieve(self, query: str, *, k: int) -> Evidence:
        """The `k` best passages; `views` holds each view's normalised score, `score` is the fused one."""
        if not query.strip() or k <= 0:
            return Evidence(query=query, tool=self.name)
        vector = await _thread(self._views.vector, query)
        views = await self._search(query, vector)
        if self._fusion.has("bridge"):
            first = bounded({v: views[v] for v in BASE if v in views}, {}, weights=self._fusion.weights, bound=0.0)
            views["bridge"] = await _thread(self._views.bridge, query, vector, first)
        best = ranked(self._fuse(views), k)
        passages = await _thread(self._corpus.passages, [key for key, _ in best])
        scores = dict(best)
        hits = (
            Hit.of(each, scores[each.id], {v: round(s[each.id], 6) for v, s in views.items() if each.id in s})
            for each in passages
        )
        return Evidence(query=query, tool=self.name, hits=tuple(hits))

    async def _search(self, query: str, vector: Vector) -> dict[str, Scores]:
        """The views that need nothing but the query, searched side by side."""
        fusion, views = self._fusion, self._views
        found: dict[str, Scores] = {}

        async def add(view: str, search: Callable[[], Scores]) -> None:
            found[view] = min_max(await _thread(search))

        async def add_lexical() -> None:
            hits = (await self._lexical.retrieve(query, k=self._settings.view_hits)).hits
            found["lexical"] = min_max({hit.id: hit.score for hit in hits})

        async with anyio.create_task_group() as group:
            if fusion.has("text"):
                group.start_soon(add, "text", partial(views.text, vector))
            if fusion.has("lexical"):
                group.start_soon(add_lexical)
            if fusion.has("entity"):
                entity = partial(views.entity, query, vector, linked=fusion.linked, specific=fusion.specific)
                group.start_soon(add, "entity", entity)
            if fusion.has("relation"):
                group.start_soon(add, "relation", partial(views.relation, vector, residual=fusion.residual))
        return {view: found[view] for view in (*BASE, *STRUCTURAL) if view in found}

    def _fuse(self, views: dict[str, Scores]) -> Scores:
        if self._fusion.baseline is not None:
            return BASELINES[self._fusion.baseline](views)
        base = {view: views[view] for view in BASE if view in views}
        structural = {view: views[view] for view in STRUCTURAL if view in views}
        return bounded(base, structural, weights=self._fusion.weights, bound=self._fusion.bound)


async def _thread(call: Callable[..., T], *args: object) -> T:
    return await anyio.to_thread.run_sync(partial(call, *args), abandon_on_cancel=True)


def _paper(fusion: Fusion) -> Fusion:
    return replace(PAPER, baseline=fusion.baseline, specific=fusion.specific, residual=fusion.residual)


def _baseline(name: Baseline) -> Callable[[Fusion], Fusion]:
    return lambda fusion: replace(fusion, baseline=name)


_VARIANTS: dict[str, Callable[[Fusion], Fusion]] = {
    "paper": _paper,
    **{name: _baseline(name) for name in BASELINES},
    "no-specificity": lambda fusion: replace(fusion, specific=False),
    "max-pooling": lambda fusion: replace(fusion, residual=False),
}
