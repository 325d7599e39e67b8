"""Dense retrieval: passages by the similarity of their meaning to the query's."""

import anyio.to_thread

from hoptrail.corpus.corpus import Corpus
from hoptrail.tools.base import Evidence, Hit

__all__ = ["TextTool"]


class TextTool:
    """Cosine of sentence embeddings, over all passages."""

    name = "text"
    description = "Finds passages by meaning. Good for most questions, also where the wording differs."

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    async def retrieve(self, query: str, *, k: int) -> Evidence:
        """The `k` passages most similar to `query`; `views["text"]` is the cosine."""
        if not query.strip():
            return Evidence(query=query, tool=self.name)
        hits = await anyio.to_thread.run_sync(self._search, query, k, abandon_on_cancel=True)
        return Evidence(query=query, tool=self.name, hits=hits)

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        scores = dict(self._corpus.search("passage", self._corpus.encode_query(query), k))
        passages = self._corpus.passages(list(scores))
        return tuple(Hit.of(passage, scores[passage.id], {"text": scores[passage.id]}) for passage in passages)
