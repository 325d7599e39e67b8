"""Where output goes: results to standard output, everything else to standard error."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["errors", "one_line", "output", "progress_bar"]

output = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False)


def one_line(text: str) -> str:
    """`text` on one line, without control characters: names of files and models may hold any."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())


def progress_bar() -> Progress:
    """A bar on standard error that goes away when the work is done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
