"""Measures of retrieval and of answers, and what can be said of their means.

Retrieval: recall@k is the share of the gold passages among the first k, all@k whether all are (full or all-evidence recall).
A ranking names each document once; `distinct` makes it so where a document has several passages.
Answers are compared after SQuAD's normalisation (Rajpurkar et al. 2016): lower case, no punctuation, no articles.
Str-Acc: a gold answer is contained in the given one (as ConRAG, section 4.1), as whole words, so that "no" is not found in
"not".
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

__all__ = [
    "all_evidence",
    "by_group",
    "distinct",
    "exact_match",
    "interval",
    "mean",
    "ndcg",
    "normalised",
    "p_value",
    "recall",
    "reciprocal_rank",
    "str_acc",
    "token_f1",
]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DRAWS = 2_000


def distinct(ranked: Iterable[str]) -> list[str]:
    """`ranked` with every id at its best rank only."""
    return list(dict.fromkeys(ranked))


def recall(ranked: Sequence[str], gold: Iterable[str], k: int) -> float:
    """Share of `gold` among the first `k` of `ranked`; 0 without gold."""
    wanted = set(gold)
    return len(wanted & set(ranked[:k])) / len(wanted) if wanted else 0.0


def all_evidence(ranked: Sequence[str], gold: Iterable[str], k: int | None = None) -> float:
    """1 if all of `gold` is among the first `k` of `ranked` (all of it for `None`), else 0."""
    wanted = set(gold)
    return float(bool(wanted) and wanted <= set(ranked[:k]))


def reciprocal_rank(ranked: Sequence[str], gold: Iterable[str]) -> float:
    """1 / rank of the first gold passage, 0 if there is none."""
    wanted = set(gold)
    return next((1 / rank for rank, key in enumerate(ranked, 1) if key in wanted), 0.0)


def ndcg(ranked: Sequence[str], gold: Iterable[str], k: int) -> float:
    """Normalised discounted cumulative gain at `k` with binary relevance."""
    wanted = set(gold)
    gain = sum(1 / math.log2(rank + 1) for rank, key in enumerate(ranked[:k], 1) if key in wanted)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(wanted), k) + 1))
    return gain / ideal if ideal else 0.0


def normalised(text: str) -> str:
    """`text` in lower case without punctuation, articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: Iterable[str]) -> float:
    """1 if the answer equals one of the gold answers after normalisation."""
    return float(any(normalised(answer) == normalised(g) for g in gold))


def token_f1(answer: str, gold: Iterable[str]) -> float:
    """The best F1 of tokens with any gold answer."""
    return max((_f1(normalised(answer).split(), normalised(g).split()) for g in gold), default=0.0)


def str_acc(answer: str, gold: Iterable[str]) -> float:
    """1 if the answer contains one of the gold answers, whole words, after normalisation."""
    given = f" {normalised(answer)} "
    return float(any(normalised(g) and f" {normalised(g)} " in given for g in gold))


def _f1(given: list[str], wanted: list[str]) -> float:
    shared = sum((Counter(given) & Counter(wanted)).values())
    if not shared:
        return float(given == wanted)
    precision, found = shared / len(given), shared / len(wanted)
    return 2 * precision * found / (precision + found)


def mean(values: Sequence[float]) -> float:
    """The mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def interval(values: Sequence[float], *, seed: int = 0, level: float = 0.95) -> tuple[float, float]:
    """Bootstrap percentile interval of the mean."""
    if not values:
        return (0.0, 0.0)
    data = np.asarray(values, dtype=float)
    draws = np.random.default_rng(seed).integers(0, len(data), size=(_DRAWS, len(data)))
    low, high = np.quantile(data[draws].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def p_value(left: Sequence[float], right: Sequence[float], *, seed: int = 0) -> float:
    """Two-sided paired permutation test of equal means, signs drawn by `seed`; 1 for nothing to compare.

    Raises:
        ValueError: The two are not of one length.
    """
    if len(left) != len(right):
        raise ValueError(f"A paired test needs pairs, not {len(left)} and {len(right)} values.")
    if not left:
        return 1.0
    difference = np.asarray(left, dtype=float) - np.asarray(right, dtype=float)
    observed = abs(difference.mean())
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(_DRAWS, len(difference)))
    extreme = np.abs((signs * difference).mean(axis=1)) >= observed - 1e-12
    return float((extreme.sum() + 1) / (_DRAWS + 1))


def by_group(
    rows: Sequence[Mapping[str, float]], keys: Sequence[object], measure: Callable[[Sequence[float]], float] = mean
) -> dict[str, dict[str, float]]:
    """Each measure's mean, and `n`, for every group of rows; rows whose key is `None` are in no group."""
    groups: dict[str, list[Mapping[str, float]]] = {}
    for row, key in zip(rows, keys, strict=True):
        if key is None:
            continue
        groups.setdefault(str(key), []).append(row)
    return {
        key: {"n": float(len(members)), **{name: measure([m[name] for m in members]) for name in members[0]}}
        for key, members in sorted(groups.items())
    }
