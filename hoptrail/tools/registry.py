"""The retrieval tools by name: the built-in ones, those of other distributions, and the user's own.

Another distribution adds a tool by an entry point of group `hoptrail.tools` that names a factory: called with the corpus
and the settings, it returns a `Tool`.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.errors import ToolError, UnknownToolError
from hoptrail.tools.base import Tool
from hoptrail.tools.consensus import ConsensusTool
from hoptrail.tools.graph import EntityTool, RelationTool
from hoptrail.tools.lexical import LexicalTool
from hoptrail.tools.text import TextTool

__all__ = ["GROUP", "ToolFactory", "ToolRegistry", "open_tools"]

ToolFactory = Callable[[Corpus, Settings], Tool]

GROUP = "hoptrail.tools"
_BUILT_IN: tuple[ToolFactory, ...] = (
    ConsensusTool,
    lambda corpus, _: TextTool(corpus),
    lambda corpus, _: LexicalTool(corpus),
    EntityTool,
    RelationTool,
)


class ToolRegistry:
    """Tools by name, in the order they were registered.

    `broken` holds, by name, why a plug-in could not be opened; asking for such a tool raises that error.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self.broken: dict[str, ToolError] = {}
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
        if not isinstance(tool, Tool) or not isinstance(tool.name, str) or not tool.name.isidentifier():
            raise ToolError(
                f"{type(tool).__name__} is no tool: it needs a one-word `name`, a `description` and `retrieve`."
            )
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool:
        """The tool of that name; `NAME/VARIANT` is a variant of one that has them.

        Raises:
            UnknownToolError: There is none.
            ToolError: It is a plug-in's and could not be opened.
        """
        if name in self._tools:
            return self._tools[name]
        base, slash, variant = name.partition("/")
        of_base = getattr(self._tools.get(base), "variant", None)
        if slash and of_base is not None:
            return cast("Tool", of_base(variant))
        raise self.broken.get(name) or UnknownToolError(name, self._tools)

    def describe(self) -> list[tuple[str, str]]:
        """Name and description of every tool, as planners are shown them."""
        return [(name, tool.description) for name, tool in self._tools.items()]


def open_tools(corpus: Corpus, settings: Settings) -> ToolRegistry:
    """All tools over `corpus`; a plug-in that cannot be opened is left out and named in the registry's `broken`."""
    registry = ToolRegistry(factory(corpus, settings) for factory in _BUILT_IN)
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            factory: ToolFactory = point.load()
            registry.register(factory(corpus, settings))
        except Exception as error:  # noqa: BLE001 - another distribution's code; the other tools still work
            registry.broken[point.name] = ToolError(
                f"The tool {point.name!r} of {_distribution(point)} cannot be opened "
                f"({type(error).__name__}: {' '.join(str(error).split())[:200]}): update or remove that package."
            )
    return registry


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
