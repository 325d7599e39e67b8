"""The retrieval tools by name: the built-in ones, those of other distributions, and the user's own.

Another distribution adds a tool by an entry point of group `hoptrail.tools` that names a factory: called with the corpus
and the settings, it returns a `Tool`.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any

import structlog

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.errors import ToolError, UnknownToolError
from hoptrail.tools.base import Tool
from hoptrail.tools.lexical import LexicalTool
from hoptrail.tools.text import TextTool

__all__ = ["GROUP", "ToolRegistry", "open_tools"]

GROUP = "hoptrail.tools"
_BUILT_IN: tuple[Callable[[Corpus], Tool], ...] = (TextTool, LexicalTool)


class ToolRegistry:
    """Tools by name, in the order they were registered."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.register(tool)

    @property
    def names(self) -> tuple[str, ...]:
        """The registered names."""
        return tuple(self._tools)

    def register(self, tool: Tool) -> None:
        """Add `tool`; it takes the place of one of the same name.

        Raises:
            ToolError: It has no usable name or does not keep the contract.
        """
        if not isinstance(tool, Tool) or not tool.name.isidentifier():
            raise ToolError(
                f"{type(tool).__name__} is no tool: it needs a one-word `name`, a `description` and `retrieve`."
            )
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool:
        """The tool of that name.

        Raises:
            UnknownToolError: There is none.
        """
        if name not in self._tools:
            raise UnknownToolError(name, self._tools)
        return self._tools[name]

    def describe(self) -> list[tuple[str, str]]:
        """Name and description of every tool, as planners are shown them."""
        return [(name, tool.description) for name, tool in self._tools.items()]


def open_tools(corpus: Corpus, settings: Settings) -> ToolRegistry:
    """All tools over `corpus`; a plug-in that cannot be loaded is reported and left out."""
    registry = ToolRegistry(factory(corpus) for factory in _BUILT_IN)
    for point in entry_points(group=GROUP):
        try:
            factory: Any = point.load()
            registry.register(factory(corpus, settings))
        except Exception as error:  # noqa: BLE001 - another distribution's code; the other tools still work
            structlog.get_logger("hoptrail").warning(
                "tool plug-in left out", plugin=point.name, source=point.value, error=f"{type(error).__name__}: {error}"
            )
    return registry
