"""The `hoptrail` command: its sub-commands and how errors reach the user."""

import os
import sys
from collections.abc import Callable

import typer

import hoptrail
from hoptrail.cli import asking, corpus, doctor, graph, models, trace
from hoptrail.cli.console import errors, one_line
from hoptrail.errors import HoptrailError
from hoptrail.evals.commands import eval_app

__all__ = ["app", "main"]

USAGE_ERROR = 2
INTERRUPTED = 130

app = typer.Typer(
    name="hoptrail",
    help="Multi-hop question answering over your own documents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("index")(corpus.index)
app.command("delete")(corpus.delete)
app.command("status")(corpus.status)
app.command("ask")(asking.ask)
app.command("plan")(asking.plan)
app.command("tools")(corpus.tools)
app.command("doctor")(doctor.doctor)
app.add_typer(graph.app, name="graph")
app.add_typer(trace.app, name="trace")
app.add_typer(models.app, name="models")
app.add_typer(eval_app, name="eval")


@app.callback(invoke_without_command=True)
def root(*, version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    """Multi-hop question answering over your own documents."""
    if version:
        typer.echo(f"hoptrail {hoptrail.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; errors are one line on standard error, with exit code 2 for what the user can mend."""
    sys.exit(_run(app))


def _run(command: Callable[..., object]) -> int:
    try:
        command()
    except HoptrailError as error:
        errors.print(f"Error: {one_line(str(error))}", markup=False, highlight=False, soft_wrap=True)
        return USAGE_ERROR
    except KeyboardInterrupt:
        errors.print("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("HOPTRAIL_DEBUG"):
            raise
        text = one_line(str(error))[:300]
        errors.print(
            f"Error: unexpected {type(error).__name__}: {text} (HOPTRAIL_DEBUG=1 shows where)",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        return 1
    return 0
