"""Write the reference pages that follow from the code: `docs/settings.md`, `docs/commands.md`, `docs/errors.md`.

    python scripts/generate_reference.py [--check]

With `--check` nothing is written; ends with 1 if a page is not what the code says.
"""

import json
import sys
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from typer.main import get_command

from hoptrail import errors
from hoptrail.cli import app
from hoptrail.config import Settings

DOCS = Path(__file__).parents[1] / "docs"
NOTE = "<!-- Made from the code by scripts/generate_reference.py; change the code, not this page. -->\n"


def pages() -> dict[Path, str]:
    """Each generated page and its text."""
    return {
        DOCS / "settings.md": settings_page(),
        DOCS / "commands.md": commands_page(),
        DOCS / "errors.md": errors_page(),
    }


def settings_page() -> str:
    rows = (
        (f"`{name}`", f"`HOPTRAIL_{name.upper()}`", kind(field.annotation), default(field), cell(field.description))
        for name, field in Settings.model_fields.items()
    )
    return (
        f"# Settings\n\n{NOTE}\nEvery setting is a field of `hoptrail.Settings`, a keyword of `hoptrail.ask` and "
        "`Hoptrail.open`, and an environment variable. A keyword goes before the variable, the variable before the "
        "default. Times are seconds, money is US dollars.\n\n"
        "| setting | variable | type | default | |\n| --- | --- | --- | --- | --- |\n"
    ) + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def kind(annotation: Any) -> str:
    """A type in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in {Union, UnionType}:
        return " or ".join(kind(part) for part in arguments if part is not NoneType)
    if origin is tuple:
        return "list, in JSON"
    if origin is dict:
        return "object, in JSON"
    names = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "`true` or `false`",
        Path: "path",
        SecretStr: "secret",
    }
    return names[annotation]


def default(field: FieldInfo) -> str:
    value = field.default
    if value is None:
        return "none"
    if isinstance(value, tuple | dict):
        return f"`{json.dumps(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def commands_page() -> str:
    root = get_command(app)
    text = (
        f"# Commands\n\n{NOTE}\nErrors are one line on standard error. Exit codes: 0 done, 1 something failed or is "
        "missing, 2 a request that you can mend, 130 interrupted.\n"
    )
    return text + "".join(command_text(command, name) for name, command in walk(root, "hoptrail"))


def walk(command: Any, name: str) -> list[tuple[str, Any]]:
    """All commands that do something, depth first."""
    children = getattr(command, "commands", None)
    if children is None:
        return [(name, command)]
    return [found for key, child in children.items() for found in walk(child, f"{name} {key}")]


def command_text(command: Any, name: str) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    text = f"\n## `{name}`\n\n{cell(command.help)}\n\n    {name} {usage}\n"
    rows = [row for parameter in command.params if (row := parameter.get_help_record(context)) and row[0] != "--help"]
    if rows:
        text += "\n| | |\n| --- | --- |\n" + "".join(f"| `{cell(left)}` | {cell(right)} |\n" for left, right in rows)
    return text


def errors_page() -> str:
    drawing = (errors.__doc__ or "").partition("HoptrailError\n")[2].partition("\n\n")[0]
    tree = "\n".join(["HoptrailError", *(line.removeprefix("    ") for line in drawing.splitlines())])
    return (
        f"# Errors\n\n{NOTE}\nEverything that hoptrail raises on purpose is a `HoptrailError`. A message is one line that "
        "says what was wrong, where, and what to do; it holds no key and no text of a document. All classes are in "
        f"`hoptrail.errors`.\n\n```text\n{tree}\n```\n"
    )


def main() -> None:
    wrong = [path for path, text in pages().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        if wrong:
            names = ", ".join(path.name for path in wrong)
            sys.exit(f"docs: {names} no longer follow from the code: run `python3 dev.py fix`")
        print(f"{len(pages())} generated pages are up to date")
        return
    for path in wrong:
        path.write_text(pages()[path], encoding="utf-8", newline="\n")
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
