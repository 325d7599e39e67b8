"""Rules of the code base that are checked by reading it: import arrows, light imports, nothing that runs data as code."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hoptrail"
MAX_LINES = 400

# Lower may not import higher. The arrows are those of the design; `client` is the face that `hoptrail` shows.
LEVELS = {
    "models": 0,
    "corpus": 1,
    "tools": 2,
    "runtime": 3,
    "planners": 4,
    "client": 5,
    "testing": 5,
    "server": 6,
    "evals": 6,
    "cli": 7,  # joins the others' commands into one
    "__main__": 8,
}
# Leaves import nothing of the package but what stands here.
LEAVES = {"errors": set(), "config": {"errors"}, "prompts": {"errors", "config"}}
# What the runtime knows of tools: the contract and how to find one by name.
TOOL_PROTOCOL = {"hoptrail.tools.base", "hoptrail.tools.registry"}
HEAVY = (
    "torch",
    "sentence_transformers",
    "transformers",
    "spacy",
    "chromadb",
    "markitdown",
    "xllamacpp",
    "openai",
    "scipy",
)
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "imp"}
# Imported by a name that is not the declared distribution's own.
PART_OF = {"pydantic_core": "pydantic"}


@dataclass(frozen=True)
class Import:
    """One imported module, as an absolute name, and where."""

    path: Path
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.target}"


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, source: str) -> Iterator[Import]:
    """Every import of a file, those within functions and relative ones included."""
    name = name_of(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (Import(path, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            # `from hoptrail import cli` and `from hoptrail.tools import text` import modules, not only names.
            for alias in node.names:
                inside = ROOT.joinpath(*base.split("."), alias.name)
                is_module = inside.with_suffix(".py").is_file() or inside.is_dir()
                yield Import(path, node.lineno, f"{base}.{alias.name}" if is_module else base)


def area(name: str) -> str:
    """`hoptrail.tools.text` is of area `tools`; the package itself is of area ``."""
    return [*name.split("."), ""][1]


def fault(found: Import) -> str | None:
    """Why an import is against the arrows, or `None`."""
    source, target = area(name_of(found.path)), area(found.target)
    if found.target.split(".")[0] != "hoptrail" or source in {target, ""}:
        return None
    reason = None
    if source in LEAVES:
        reason = None if target in LEAVES[source] else f"{source} is a leaf"
    elif target in LEAVES or (target == "" and LEVELS[source] > LEVELS["client"]):
        pass
    elif target in {"", "testing"} or LEVELS[target] >= LEVELS[source]:
        reason = f"{source} may not import {target or 'the package itself'}"
    elif source == "runtime" and target == "tools" and found.target not in TOOL_PROTOCOL:
        reason = "the runtime knows tools by protocol only"
    return reason and f"{found}: {reason}"


FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
IMPORTS = [found for path in FILES for found in imports_of(path, path.read_text(encoding="utf-8"))]


def test_imports_follow_the_arrows() -> None:
    assert len(FILES) > 40, "the package was not found"
    assert [text for found in IMPORTS if (text := fault(found))] == []


@pytest.mark.parametrize(
    ("where", "source", "refused"),
    [
        ("tools/text.py", "from hoptrail.corpus.corpus import Corpus", False),
        ("tools/text.py", "from hoptrail.errors import ToolError", False),
        ("tools/text.py", "def f():\n    import hoptrail.runtime.plan", True),
        ("corpus/store.py", "from hoptrail.tools.base import Hit", True),
        ("corpus/store.py", "from ..tools import base", True),
        ("corpus/store.py", "from . import schema", False),
        ("models/llama.py", "from hoptrail import client", True),
        ("runtime/run.py", "from hoptrail.tools.base import Hit", False),
        ("runtime/run.py", "from hoptrail.tools.lexical import LexicalTool", True),
        ("runtime/run.py", "from hoptrail.planners import dag", True),
        ("prompts/plan.py", "from hoptrail.runtime.plan import Plan", True),
        ("prompts/plan.py", "from hoptrail.prompts.base import Prompt", False),
        ("errors.py", "from hoptrail import config", True),
        ("config.py", "from hoptrail.errors import ConfigurationError", False),
        ("client.py", "from hoptrail.testing.doubles import scripted_model", True),
        ("planners/dag.py", "import hoptrail", True),
        ("cli/app.py", "import hoptrail", False),
        ("cli/app.py", "from hoptrail.evals.commands import eval_app", False),
        ("evals/report.py", "from hoptrail.cli.console import output", True),
    ],
)
def test_the_check_itself_knows_right_from_wrong(where: str, source: str, refused: bool) -> None:
    found = list(imports_of(PACKAGE / where, source))
    assert any(fault(each) for each in found) is refused, found


def test_every_module_is_of_a_known_area() -> None:
    known = {*LEVELS, *LEAVES, "", "data"}
    assert {area(name_of(path)) for path in FILES} <= known


def loaded_by(modules: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after importing `modules`."""
    code = f"import sys, {modules}; print(*(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "hoptrail" in loaded
    return loaded


def test_importing_the_package_is_light() -> None:
    assert sorted(loaded_by("hoptrail") & {*HEAVY, "pydantic", "anyio", "numpy"}) == []


def test_the_face_and_the_command_line_leave_heavy_parts_for_later() -> None:
    # The openai client comes with the types of the language models that the face takes.
    assert sorted(loaded_by("hoptrail.client, hoptrail.cli") & (set(HEAVY) - {"openai"})) == []


def test_heavy_libraries_are_imported_within_functions() -> None:
    at_top = [
        str(Import(path, node.lineno, name))
        for path, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if name.split(".")[0] in set(HEAVY) - {"openai"}
    ]
    assert at_top == []


def test_nothing_runs_data_as_code() -> None:
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.func.id}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS
    ]
    modules = [str(found) for found in IMPORTS if found.target.split(".")[0] in FORBIDDEN_MODULES]
    pickles = [
        f"{path.relative_to(ROOT)}:{node.lineno}: allow_pickle"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword)
        and node.arg == "allow_pickle"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
    ]
    assert calls + modules + pickles == []


def test_files_are_short() -> None:
    long = {
        str(p.relative_to(ROOT)): n for p in FILES if (n := len(p.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert long == {}


def declared_all(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            value: list[str] = ast.literal_eval(node.value)
            return value
    return None


def test_modules_say_what_is_public() -> None:
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    silent = []
    for path, tree in TREES.items():
        public = [node.name for node in tree.body if isinstance(node, definitions) and not node.name.startswith("_")]
        if public and declared_all(tree) is None:
            silent.append(f"{path.relative_to(ROOT)}: {public}")
    assert silent == []


def names_at_top(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return found


def test_what_is_said_to_be_public_exists() -> None:
    absent = {
        str(path.relative_to(ROOT)): missing
        for path, tree in TREES.items()
        if (missing := set(declared_all(tree) or ()) - names_at_top(tree))
    }
    assert absent == {}


def test_imported_distributions_are_declared_and_declared_ones_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[^A-Za-z0-9._-]", text)[0].lower() for text in project["dependencies"]}
    optional = {re.split(r"[^A-Za-z0-9._-]", text)[0].lower() for text in project["optional-dependencies"]["embedded"]}
    homes = packages_distributions()
    imported = {found.target.split(".")[0] for found in IMPORTS} - {"hoptrail", *sys.stdlib_module_names}
    used = {PART_OF.get(name) or homes[name][0].lower() for name in imported}
    assert used - declared - optional == set()
    assert declared - used == set()
