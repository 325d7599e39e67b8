"""The views of ConRAG's Consensus over one corpus: each gives scores of passages for one query (section 3.2)."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.links import Links, build_links, load_links
from hoptrail.tools.bridge import bridge_scores
from hoptrail.tools.names import names_in
from hoptrail.tools.scores import Scores, Support, entity_scores, relation_scores

__all__ = ["Views"]

Vector = NDArray[np.float32]


class Views:
    """What the tools over the graph share: searches in any thread, and the link index of today's rows.

    `hits` is how many entities or relations are taken from their index, `K_c` in ConRAG.
    """

    def __init__(self, corpus: Corpus, *, hits: int) -> None:
        self._corpus = corpus
        self._hits = hits
        self._links: Links | None = None
        self._derived = corpus.derive("links", load=self._load, build=build_links)

    def vector(self, query: str) -> Vector:
        """The query's vector."""
        return self._corpus.encode_query(query)

    def text(self, vector: Vector) -> Scores:
        """Cosines of the nearest passages."""
        return dict(self._corpus.search("passage", vector, self._hits))

    def entity(self, query: str, vector: Vector, *, linked: bool = True, specific: bool = True) -> Scores:
        """The entity view; with `linked`, the entities that the query names count as hits of similarity 1."""
        found = dict(self._corpus.search("entity", vector, self._hits))
        if linked:
            found |= dict.fromkeys(self._entities_in(query), 1.0)
        entities = self._corpus.entities(list(found))
        hits = [Support(found[entity.id], entity.passages) for entity in entities]
        return entity_scores(hits, self._corpus.count, specific=specific)

    def relation(self, vector: Vector, *, residual: bool = True) -> Scores:
        """The relation view."""
        found = dict(self._corpus.search("relation", vector, self._hits))
        relations = self._corpus.relations(list(found))
        return relation_scores([Support(found[each.id], each.passages) for each in relations], residual=residual)

    def bridge(self, query: str, vector: Vector, base: Scores) -> Scores:
        """The bridge view, from the best passages of `base`."""
        links = self.links()
        return bridge_scores(links, vector, base, names_in(query, links.find))

    def links(self) -> Links:
        """The link index of today's rows."""
        self._derived.refresh()
        assert self._links is not None  # noqa: S101 - refresh puts one in use or raises
        return self._links

    def _entities_in(self, query: str) -> list[str]:
        """The ids of the entities that the query names, of every type."""
        return [key for ids in names_in(query, self._named) for key in ids]

    def _named(self, names: list[str]) -> dict[str, list[str]]:
        return {name: ids for name, ids in self._corpus.entities_named(names).items() if ids}

    def _load(self, folder: Path) -> bool:
        self._links = load_links(folder)
        return True
