"""The tool contract: one door for every retrieval method."""

from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from hoptrail.corpus.types import Passage

__all__ = ["Evidence", "Hit", "Tool"]


class Hit(BaseModel):
    """One retrieved passage.

    `score` is what the tool ranks by, higher is better; `views` holds the per-view scores that made it, by view name.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    document: str
    title: str
    text: str
    score: float
    views: dict[str, float] = Field(default_factory=dict)

    @classmethod
    def of(cls, passage: Passage, score: float, views: dict[str, float]) -> "Hit":
        """A hit on `passage`."""
        return cls(
            id=passage.id, document=passage.document, title=passage.title, text=passage.text, score=score, views=views
        )


class Evidence(BaseModel):
    """Ranked passages for one query, best first, no passage twice; empty when nothing was found."""

    model_config = ConfigDict(frozen=True)

    query: str
    tool: str
    hits: tuple[Hit, ...] = ()


@runtime_checkable
class Tool(Protocol):
    """A retrieval method.

    Read-only, safe to call concurrently, and indifferent to whether the query is original or slot-bound. A tool that
    finds nothing returns empty evidence; it raises only when it cannot search at all.
    """

    @property
    def name(self) -> str:
        """The registered name, a short lower-case word."""
        ...

    @property
    def description(self) -> str:
        """What a planner reads to choose this tool: one or two sentences."""
        ...

    async def retrieve(self, query: str, *, k: int) -> Evidence:
        """At most `k` passages for `query`, best first."""
        ...
