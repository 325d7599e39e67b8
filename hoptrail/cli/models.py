"""`hoptrail models`."""

from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn
from rich.table import Table

from hoptrail.cli.console import errors, output
from hoptrail.cli.options import Json
from hoptrail.errors import ConfigurationError
from hoptrail.models.catalog import CATALOG, DEFAULT, ModelSpec, find_spec
from hoptrail.models.pull import file_state, verify
from hoptrail.models.pull import pull as pull_file

__all__ = ["app"]

app = typer.Typer(help="The embedded language models.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of an embedded model; see `hoptrail models list`.")]


@app.command()
def pull(name: Name = DEFAULT.name) -> None:
    """Fetch an embedded model, once; an interrupted pull goes on where it stopped."""
    spec = _spec(name)
    with _bar() as bar:
        task = bar.add_task(spec.name, total=spec.size)

        def tell(done: int, _total: int, note: str) -> None:
            bar.update(task, completed=done, description=f"{spec.name} {note}")

        path = pull_file(spec, tell)
        bar.update(task, completed=spec.size, description=f"{spec.name} is ready")
    output.print(str(path), markup=False)


@app.command("list")
def list_models(*, json: Json = False) -> None:
    """List the embedded models and whether they are here."""
    rows = [
        {
            "name": s.name,
            "state": file_state(s),
            "bytes": s.size,
            "licence": s.licence,
            "note": s.note,
            "path": str(s.path),
        }
        for s in CATALOG
    ]
    if json:
        output.print_json(data=rows)
        return
    table = Table("name", "state", "size", "licence", "", box=None, pad_edge=False)
    for spec in CATALOG:
        table.add_row(spec.name, file_state(spec), f"{spec.size / 1e6:,.0f} MB", spec.licence, spec.note)
    output.print(table)


@app.command("verify")
def verify_models(
    name: Annotated[str | None, typer.Argument(help="A model; by default all that are here.")] = None,
) -> None:
    """Compare model files with the official ones by their sha256."""
    specs = [_spec(name)] if name else [spec for spec in CATALOG if file_state(spec) == "ready"]
    if not specs:
        output.print("No embedded model is here: run `hoptrail models pull`.", markup=False)
    for spec in specs:
        verify(spec)
        output.print(f"{spec.name}: the official file", markup=False)


def _spec(name: str) -> ModelSpec:
    spec = find_spec(name)
    if spec is None:
        raise ConfigurationError(
            f"No embedded model is called {name!r}: choose one of {', '.join(s.name for s in CATALOG)}."
        )
    return spec


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        console=errors,
    )
