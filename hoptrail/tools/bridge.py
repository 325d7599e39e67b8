"""The bridge view: passages one step away from the best ones, by a name that both hold.

Ordinary similarity finds the passage that a question names; the next hop's passage is often unlike the question, but the
first one names what it is about. Beyond ConRAG; near LinearRAG's propagation with one iteration.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus.links import Links
from hoptrail.tools.fusion import ranked
from hoptrail.tools.scores import Scores, min_max

__all__ = ["bridge_scores"]

# Chosen on musique_train with the weights of `consensus_weights`: all@5 .544 with these, .508 and .528 with two and three
# sources at their own best.
_SOURCES = 1
_MENTION = 0.15
"""What a passage that mentions the name counts, beside 1 for one that the name is the title of."""

_HUB = 1_000
"""Names in more passages than this lead nowhere in particular, and would cost time."""


def bridge_scores(links: Links, vector: NDArray[np.float32], base: Scores, asked: Sequence[int]) -> Scores:
    """The bridge view, normalised: for a passage the best way to it from one of the best passages of `base`.

    A way by a name counts the source's score relative to the best one's, times the name's specificity, times 1 if the
    passage has the name as its title and less if it mentions it, times the passage's cosine with the query.

    Args:
        links: The corpus's link index.
        vector: The query's, L2-normalised, shape `(dimension,)`.
        base: Scores that the first passages are chosen by.
        asked: Numbers of the names that the query holds; they lead to passages that other views find.
    """
    sources = [(links.numbers[key], score) for key, score in ranked(base, _SOURCES) if key in links.numbers]
    if not sources or sources[0][1] <= 0:
        return {}
    places, values = [], []
    for number, score in sources:
        reached, ways = _step(links, number, asked)
        places.append(reached)
        values.append(ways * (score / sources[0][1]))
    reached, inverse = np.unique(np.concatenate(places), return_inverse=True)
    best = np.zeros(len(reached))
    np.maximum.at(best, inverse, np.concatenate(values))
    best *= np.clip(links.vectors[reached] @ vector, 0.0, None)
    return min_max({links.ids[i]: float(score) for i, score in zip(reached, best, strict=True)})


def _step(links: Links, source: int, asked: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The passages that the names of `source` lead to, with the value of each way."""
    names = links.names.of(source)
    names = names[~np.isin(names, asked) & (links.counts[names] <= _HUB)]
    told = links.specificity[names]
    mentioned = links.mentions.spread(names)
    titled = links.titles.spread(names)
    reached = np.concatenate([mentioned[1], titled[1]])
    ways = np.concatenate([told[mentioned[0]] * _MENTION, told[titled[0]]])
    other = reached != source
    return reached[other], ways[other]
