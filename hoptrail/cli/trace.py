"""`hoptrail trace show`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.tree import Tree

from hoptrail.cli.console import output
from hoptrail.cli.tree import run_tree
from hoptrail.errors import TraceError
from hoptrail.runtime.trace import read_trace

__all__ = ["app"]

app = typer.Typer(help="Execution traces.", no_args_is_help=True)


@app.callback()
def _traces() -> None:
    """Execution traces."""


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A trace written with --trace.")],
    run: Annotated[str | None, typer.Option(help="Only the run whose id starts so.")] = None,
) -> None:
    """Show the runs in FILE as trees with times, tokens and scores."""
    runs = {key: events for key, events in read_trace(file).items() if key.startswith(run or "")}
    if not runs:
        raise TraceError(f"{file} holds no run{f' whose id starts with {run!r}' if run else ''}.")
    for events in runs.values():
        tree: Tree = run_tree(events)
        output.print(tree)
