"""What the pages say is tried: Python blocks run, commands parse, links lead somewhere, generated pages are up to date."""

import ast
import importlib.util
import inspect
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from typer.main import get_command

from hoptrail.cli import app
from hoptrail.config import Settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
SKIP = "<!-- test: skip"
FENCE = re.compile(r"(?P<before>[^\n]*\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    skipped: bool


def blocks_of(page: Path) -> list[Block]:
    content = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(content):
        line = content.count("\n", 0, match.start("text")) + 1
        skipped = (match["before"] or "").startswith(SKIP)
        found.append(Block(page, line, match["language"], match["text"], skipped))
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def compiled(block: Block) -> CodeType:
    # Line numbers of errors are then those of the page.
    padded = "\n" * (block.line - 1) + block.text
    code = compile(padded, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(code, CodeType)
    return code


async def run_block(block: Block, names: dict[str, Any]) -> None:
    result = eval(compiled(block), names)  # noqa: S307 - the project's own pages
    if inspect.iscoroutine(result):
        await result


@pytest.fixture
def reader_folder(mini_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader of the pages stands: `my-corpus` is there, and a model that answers anything at once."""
    shutil.copytree(mini_corpus, tmp_path / "my-corpus")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOPTRAIL_MODEL", "test")  # pydantic-ai's own model for tests
    return tmp_path


RUNNABLE = [block for block in BLOCKS if block.language == "python" and not block.skipped]


@pytest.mark.parametrize("name", sorted({block.page.name for block in RUNNABLE}))
async def test_python_blocks_run(name: str, reader_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in RUNNABLE:
        if block.page.name == name:
            await run_block(block, names)
    if name == "README.md":
        assert "No corpus at no-such-folder" in capsys.readouterr().out


def test_pages_have_python_blocks() -> None:
    assert {block.page.name for block in RUNNABLE} >= {"README.md", "extending.md", "runtime.md"}


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b.language == "python"], ids=lambda block: f"{block.page.name}:{block.line}"
)
def test_python_blocks_compile(block: Block) -> None:
    assert compiled(block).co_names


def commands() -> list[tuple[Block, str]]:
    return [
        (block, line.removeprefix("$ ").split("    #")[0].strip())
        for block in BLOCKS
        if block.language == "console"
        for line in block.text.splitlines()
        if line.startswith("$ ")
    ]


def arguments_of(line: str) -> list[str] | None:
    """The words after `hoptrail`, or `None` for a line that calls something else."""
    words = shlex.split(line)
    return words[1:] if words and Path(words[0]).name == "hoptrail" else None


def parse(arguments: list[str]) -> None:
    """Parse without running anything; an unknown command or option raises."""
    command: Any = get_command(app)
    rest = arguments
    while getattr(command, "commands", None):
        assert rest, f"{command.name} wants a command"
        assert rest[0] in command.commands, f"{rest[0]} is no command"
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context("hoptrail", list(rest))


def test_commands_in_the_pages_parse() -> None:
    found = [arguments for _, line in commands() if (arguments := arguments_of(line)) is not None]
    assert len(found) > 8
    for arguments in found:
        parse(arguments)


@pytest.mark.parametrize("line", ["hoptrail asks x", "hoptrail ask", "hoptrail ask x --modle y", "hoptrail models"])
def test_a_wrong_command_would_be_noticed(line: str) -> None:
    with pytest.raises((AssertionError, Exception), match=r"no command|[Mm]issing|[Nn]o such option|wants a command"):
        parse(arguments_of(line) or [])


def test_developer_commands_in_the_pages_exist() -> None:
    developer = load(ROOT / "dev.py")
    named = {shlex.split(line)[2] for _, line in commands() if line.startswith("python3 dev.py ")}
    assert named <= set(developer.COMMANDS)
    assert {"demo", "test"} <= named
    make = (ROOT / "Makefile").read_text(encoding="utf-8").partition("COMMANDS := ")[2].splitlines()[0].split()
    assert make == list(developer.COMMANDS)
    assert all(f"dev.py {name} " in str(developer.__doc__) for name in developer.COMMANDS)


def test_the_demo_asks_a_question_of_the_sample(sample: Path) -> None:
    developer = load(ROOT / "dev.py")
    assert f'"question": "{developer.DEMO_QUESTION}"' in (sample / "questions.jsonl").read_text(encoding="utf-8")
    assert developer.DEMO_QUESTION in (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_lead_to_files() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in [*PAGES, *ROOT.glob("hoptrail/data/*/*.md")]
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not target.startswith(("http://", "https://", "#")) and not (page.parent / target.partition("#")[0]).exists()
    ]
    assert broken == []


def test_files_named_in_the_pages_exist() -> None:
    named = {
        path
        for page in PAGES
        for path in re.findall(
            r"`((?:tests|docs|scripts|benchmarks|hoptrail)/[\w/.-]+)`", page.read_text(encoding="utf-8")
        )
    }
    assert len(named) > 5
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_settings_named_in_the_pages_exist() -> None:
    known = {f"HOPTRAIL_{name.upper()}" for name in Settings.model_fields} | {"HOPTRAIL_CACHE", "HOPTRAIL_DEBUG"}
    named = {
        word for page in PAGES for word in re.findall(r"\bHOPTRAIL_[A-Z_]+[A-Z]\b", page.read_text(encoding="utf-8"))
    }
    assert named - known == set()


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date() -> None:
    stale = [
        path.name
        for path, text in load(ROOT / "scripts" / "generate_reference.py").pages().items()
        if path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run `python3 dev.py fix`"
