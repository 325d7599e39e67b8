"""What turns the hits of one view into scores of passages (ConRAG, section 3.2).

A view's scores are a mapping from passage id; a passage that a view does not know counts 0 in it.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Scores", "Support", "entity_scores", "min_max", "relation_scores", "specificity"]

Scores = dict[str, float]

_GAMMA = 0.5


class Support(NamedTuple):
    """An entity or relation that was hit, its cosine with the query, and the passages it was extracted from."""

    similarity: float
    passages: Sequence[str]


def min_max(scores: Mapping[str, float]) -> Scores:
    """`scores` scaled to [0, 1]; 1 for each where all are equal; those that are not finite are dropped first."""
    finite = {key: score for key, score in scores.items() if math.isfinite(score)}
    if not finite:
        return {}
    low, high = min(finite.values()), max(finite.values())
    if high <= low:
        return dict.fromkeys(finite, 1.0)
    # The divided difference may pass 1 by a rounding.
    return {key: min((score - low) / (high - low), 1.0) for key, score in finite.items()}


def specificity(sources: int, passages: int) -> float:
    """How telling an entity is that `sources` of `passages` passages have, in (0, 1] (Eq. 1): BM25's idf, scaled."""
    return math.log1p((passages - sources + 0.5) / (sources + 0.5)) / math.log1p((passages - 0.5) / 1.5)


def entity_scores(hits: Iterable[Support], passages: int, *, specific: bool = True) -> Scores:
    """The entity view `E` (Eq. 2), normalised: the best weight among a passage's entities, times their mean specificity.

    Args:
        hits: The entities; a weight is the similarity, at least 0.
        passages: How many passages the corpus has.
        specific: Whether entities of few passages count more; off, every specificity is 1 (the paper's ablation).
    """
    best: Scores = defaultdict(float)
    weights: Scores = defaultdict(float)
    weighted: Scores = defaultdict(float)
    for similarity, sources in hits:
        weight = max(0.0, similarity) if math.isfinite(similarity) else 0.0
        share = specificity(len(sources), passages) if specific and sources else 1.0
        for key in sources:
            best[key] = max(best[key], weight)
            weights[key] += weight
            weighted[key] += weight * share
    return min_max({key: best[key] * weighted[key] / total for key, total in weights.items() if total > 0})


def relation_scores(hits: Sequence[Support], *, residual: bool = True) -> Scores:
    """The relation view `R` (Eq. 3), normalised: a passage's relations by how far they stand out from all that were hit.

    With `residual` off, a passage has its best relation's similarity instead (the paper's ablation).
    """
    finite = [hit for hit in hits if math.isfinite(hit.similarity)]
    background = sum(hit.similarity for hit in finite) / len(finite) if residual and len(finite) > 1 else 0.0
    gamma = _GAMMA if residual else 0.0
    of_passage: dict[str, list[float]] = defaultdict(list)
    for similarity, sources in finite:
        for key in sources:
            of_passage[key].append(max(0.0, similarity - background))
    pooled = {key: _pooled(residuals, gamma) for key, residuals in of_passage.items()}
    return min_max({key: score for key, score in pooled.items() if score > 0})


def _pooled(residuals: list[float], gamma: float) -> float:
    return sum(gamma**place * residual for place, residual in enumerate(sorted(residuals, reverse=True)))
