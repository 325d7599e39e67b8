"""The structural views by themselves: passages by the entities and by the relations that are like the query."""

import anyio.to_thread

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.tools.base import Evidence, Hit
from hoptrail.tools.fusion import ranked
from hoptrail.tools.scores import Scores
from hoptrail.tools.views import Views

__all__ = ["EntityTool", "RelationTool"]


class _GraphTool:
    """A view as a tool."""

    name: str

    def __init__(self, corpus: Corpus, settings: Settings) -> None:
        self._corpus = corpus
        self._views = Views(corpus, hits=settings.view_hits)

    def _scores(self, query: str) -> Scores:
        raise NotImplementedError

    async def retrieve(self, query: str, *, k: int) -> Evidence:
        """The `k` passages of the highest score, ties by id; `views` holds it under the tool's name."""
        if not query.strip() or k <= 0:
            return Evidence(query=query, tool=self.name)
        hits = await anyio.to_thread.run_sync(self._search, query, k, abandon_on_cancel=True)
        return Evidence(query=query, tool=self.name, hits=hits)

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        best = dict(ranked(self._scores(query), k))
        passages = self._corpus.passages(list(best))
        return tuple(Hit.of(each, best[each.id], {self.name: best[each.id]}) for each in passages)


class EntityTool(_GraphTool):
    """ConRAG's entity view (Eq. 1 and 2), with the entities that the query names as hits."""

    name = "entity"
    description = "Finds passages about the people, places, works and things that the query names or describes."

    def _scores(self, query: str) -> Scores:
        return self._views.entity(query, self._views.vector(query))


class RelationTool(_GraphTool):
    """ConRAG's relation view (Eq. 3)."""

    name = "relation"
    description = "Finds passages that state a relation, such as who directed, founded or married whom."

    def _scores(self, query: str) -> Scores:
        return self._views.relation(self._views.vector(query))
