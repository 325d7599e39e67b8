"""From the scores of several views to one ranking."""

import math
from collections.abc import Callable, Mapping
from typing import Literal

from hoptrail.tools.scores import Scores

__all__ = ["BASELINES", "Baseline", "bounded", "comb_mnz", "equal_mean", "ranked", "rra", "rrf"]

Views = Mapping[str, Mapping[str, float]]
Baseline = Literal["mean", "combmnz", "rrf", "rra"]

_RRF_K = 60


def ranked(scores: Mapping[str, float], k: int) -> list[tuple[str, float]]:
    """The `k` best, ties by id."""
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def bounded(base: Views, structural: Views, *, weights: Mapping[str, float], bound: float) -> Scores:
    """Bounded structural fusion (ConRAG, Eq. 4): the base, and a bonus below `bound` that structural views give together.

    `S = sum of w_v V over base views + bound * (1 - product of (1 - w_v V) over structural views)`. The paper's has the one
    base view `text`, and weight 1 for each of `entity` and `relation`.

    Args:
        base: Normalised scores by view.
        structural: Normalised scores by view.
        weights: Of each view; 1 where it is not named. Those of structural views are in [0, 1].
        bound: The paper's lambda, in [0, 1).
    """
    total: Scores = {}
    for view, scores in base.items():
        for key, score in scores.items():
            total[key] = total.get(key, 0.0) + weights.get(view, 1.0) * score
    unlifted: Scores = {}
    for view, scores in structural.items():
        for key, score in scores.items():
            unlifted[key] = unlifted.get(key, 1.0) * (1.0 - weights.get(view, 1.0) * score)
    for key, rest in unlifted.items():
        total[key] = total.get(key, 0.0) + bound * (1.0 - rest)
    return total


def equal_mean(views: Views) -> Scores:
    """The mean of the normalised scores over all views (Fox and Shaw 1994, CombSUM, by the number of views)."""
    return {key: sum(views[v].get(key, 0.0) for v in views) / len(views) for key in _known(views)}


def comb_mnz(views: Views) -> Scores:
    """The sum of the normalised scores, times how many views know the passage (Fox and Shaw 1994)."""
    return {
        key: sum(views[v].get(key, 0.0) for v in views) * sum(key in views[v] for v in views) for key in _known(views)
    }


def rrf(views: Views) -> Scores:
    """Reciprocal rank fusion with k = 60 (Cormack et al. 2009)."""
    scores: Scores = {}
    for view in views.values():
        for key, rank in _ranks(view).items():
            scores[key] = scores.get(key, 0.0) + 1.0 / (_RRF_K + rank)
    return scores


def rra(views: Views) -> Scores:
    """Robust rank aggregation (Kolde et al. 2012), as -ln(rho): how unlikely such good ranks are by chance.

    Ranks are shares of the number of passages that any view knows; a view that does not know a passage ranks it last.
    """
    from scipy.special import betainc  # noqa: PLC0415 - takes a tenth of a second

    known = sorted(_known(views))
    ranks = [_ranks(view) for view in views.values()]
    count = len(ranks)
    scores: Scores = {}
    for key in known:
        shares = sorted(rank.get(key, len(known)) / len(known) for rank in ranks)
        chances = (float(betainc(j, count - j + 1, share)) for j, share in enumerate(shares, 1))
        scores[key] = -math.log(min(min(chances) * count, 1.0))
    return scores


BASELINES: dict[Baseline, Callable[[Views], Scores]] = {
    "mean": equal_mean,
    "combmnz": comb_mnz,
    "rrf": rrf,
    "rra": rra,
}


def _known(views: Views) -> set[str]:
    return {key for view in views.values() for key in view}


def _ranks(view: Mapping[str, float]) -> dict[str, int]:
    """Rank by passage, from 1."""
    return {key: rank for rank, (key, _) in enumerate(ranked(view, len(view)), 1)}
