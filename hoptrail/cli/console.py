"""Where output goes: results to standard output, everything else to standard error."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["errors", "output", "progress_bar"]

output = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False)


def progress_bar() -> Progress:
    """A bar on standard error that goes away when the work is done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
    )
