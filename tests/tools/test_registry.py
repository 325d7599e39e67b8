import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.errors import ToolError, UnknownToolError
from hoptrail.models.base import Embedder
from hoptrail.testing.doubles import FakeTool
from hoptrail.tools.registry import ToolRegistry, open_tools

PLUGIN = """
from hoptrail.tools.base import Evidence

class Echo:
    name = "echo"
    description = "Finds nothing, in {corpus}."

    def __init__(self, corpus, settings):
        self.description = f"Over {corpus.count} passages, {settings.passages_per_step} a step."

    async def retrieve(self, query, *, k):
        return Evidence(query=query, tool=self.name)

def broken(corpus, settings):
    raise RuntimeError("its service is\\ndown")

def no_tool(corpus, settings):
    return object()
"""


@pytest.fixture
def corpus(mini_corpus: Path, encoder: Callable[[], Embedder]) -> Iterator[Corpus]:
    opened = Corpus.open(mini_corpus, encoder)
    yield opened
    opened.close()


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real installed distribution with one good tool and four bad ones."""
    (tmp_path / "echo_plugin.py").write_text(PLUGIN, encoding="utf-8")
    info = tmp_path / "hoptrail_echo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hoptrail-echo\nVersion: 1.0\n", encoding="utf-8")
    points = {
        "echo": "echo_plugin:Echo",
        "down": "echo_plugin:broken",
        "thing": "echo_plugin:no_tool",
        "gone": "echo_plugin:missing",
        "absent": "no_such_module:tool",
    }
    lines = ["[hoptrail.tools]", *(f"{name} = {where}" for name, where in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "echo_plugin", raising=False)


def test_built_in_tools(corpus: Corpus) -> None:
    registry = open_tools(corpus, Settings())
    assert registry.names == ("consensus", "text", "lexical", "entity", "relation")
    assert [name for name, _ in registry.describe()] == list(registry.names)
    assert all(20 < len(description) < 200 for _, description in registry.describe())
    assert not registry.broken
    with pytest.raises(
        UnknownToolError, match=re.escape("'grep': choose one of consensus, entity, lexical, relation, text.")
    ):
        registry.get("grep")


def test_tools_of_other_distributions(corpus: Corpus, plugins: None) -> None:
    registry = open_tools(corpus, Settings())
    assert registry.names == ("consensus", "text", "lexical", "entity", "relation", "echo")
    assert registry.describe()[-1] == ("echo", "Over 50 passages, 3 a step.")
    assert sorted(registry.broken) == ["absent", "down", "gone", "thing"]
    for name in registry.broken:
        with pytest.raises(ToolError, match=f"'{name}' of hoptrail-echo"):
            registry.get(name)
    assert "its service is down" in str(registry.broken["down"])
    assert not any("\n" in str(error) for error in registry.broken.values())


def test_a_tool_of_ones_own_takes_the_place_of_one_of_the_same_name(corpus: Corpus) -> None:
    registry = open_tools(corpus, Settings())
    mine = FakeTool("text", lambda query: [query])
    registry.register(mine)
    assert registry.get("text") is mine
    assert registry.names == ("consensus", "text", "lexical", "entity", "relation")


@pytest.mark.parametrize("name", ["", "two words", "7", "a-b", "x\n"])
def test_names_that_a_planner_could_not_write(name: str) -> None:
    with pytest.raises(ToolError, match="one-word"):
        ToolRegistry([FakeTool(name, lambda query: [])])


def test_what_is_no_tool() -> None:
    with pytest.raises(ToolError, match="object is no tool"):
        ToolRegistry([object()])  # type: ignore[list-item]
