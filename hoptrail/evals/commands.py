"""`hoptrail eval`."""

import json as json_module
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hoptrail.client import Hoptrail
from hoptrail.config import Settings
from hoptrail.errors import ConfigurationError
from hoptrail.evals.answers import evaluate_answers
from hoptrail.evals.chain import Binding, evaluate_chain
from hoptrail.evals.datasets import DataSet, Question
from hoptrail.evals.retrieval import evaluate_retrieval
from hoptrail.evals.workspace import indexed

__all__ = ["eval_app"]

eval_app = typer.Typer(help="Measure retrieval and answers on questions with gold evidence.", no_args_is_help=True)

Data = Annotated[Path, typer.Option("--data", help="Folder of the data sets.")]
Set = Annotated[str, typer.Option("--set", help="Name of the data set.")]
ToolName = Annotated[str, typer.Option("--tool", help="Retrieval tool.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Ask only so many questions, drawn by --seed.")]
Seed = Annotated[int, typer.Option(help="Seed of the draw.")]
Json = Annotated[Path | None, typer.Option("--json", help="Save the report to this file.")]
Work = Annotated[Path, typer.Option(help="Folder in which indexed corpora are kept.")]

_WORK = Path("results")
_errors = Console(stderr=True)
_Evaluate = Callable[[DataSet, tuple[Question, ...], Hoptrail, Callable[[], None]], Coroutine[Any, Any, dict[str, Any]]]


@eval_app.command()
def retrieval(
    data: Data,
    set_name: Set,
    *,
    tool: ToolName = "text",
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = None,
    work: Work = _WORK,
) -> None:
    """How well a tool finds the gold passages of whole questions."""

    async def evaluate(
        loaded: DataSet, questions: tuple[Question, ...], hop: Hoptrail, tick: Callable[[], None]
    ) -> dict[str, Any]:
        return await evaluate_retrieval(loaded, questions, hop.tools.get(tool), progress=tick)

    _run(evaluate, data, set_name, limit, seed, json, work=work)


@eval_app.command()
def chain(
    data: Data,
    set_name: Set,
    *,
    tool: ToolName = "text",
    binding: Annotated[
        Binding, typer.Option(help="Slots filled (on), taken out (off), or the whole question (whole).")
    ] = "on",
    passages: Annotated[int, typer.Option(min=1, help="Passages per step.")] = 3,
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = None,
    work: Work = _WORK,
) -> None:
    """What retrieval reaches when the plan is the gold decomposition and every step answers rightly."""

    async def evaluate(
        loaded: DataSet, questions: tuple[Question, ...], hop: Hoptrail, tick: Callable[[], None]
    ) -> dict[str, Any]:
        return await evaluate_chain(loaded, questions, hop, tool=tool, binding=binding, progress=tick)

    _run(evaluate, data, set_name, limit, seed, json, work=work, passages_per_step=passages)


@eval_app.command()
def answer(
    data: Data,
    set_name: Set,
    *,
    planner: Annotated[str, typer.Option(help="Planner.")] = "dag",
    tool: Annotated[str | None, typer.Option(help="Retrieval tool; by default the planner chooses.")] = None,
    model: Annotated[str | None, typer.Option(help="Language model (HOPTRAIL_MODEL).")] = None,
    records: Annotated[Path | None, typer.Option(help="Keep each question's outcome here, and go on from it.")] = None,
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = None,
    work: Work = _WORK,
) -> None:
    """How well questions are answered end to end."""

    async def evaluate(
        loaded: DataSet, questions: tuple[Question, ...], hop: Hoptrail, tick: Callable[[], None]
    ) -> dict[str, Any]:
        return await evaluate_answers(
            loaded, questions, hop, planner=planner, tool=tool, records=records, progress=tick
        )

    _run(evaluate, data, set_name, limit, seed, json, work=work, model=model)


def _run(  # noqa: PLR0917 - the options of every command
    evaluate: _Evaluate,
    folder: Path,
    name: str,
    limit: int | None,
    seed: int,
    json: Path | None,
    *,
    work: Path,
    **overrides: Any,
) -> None:
    if json is not None:
        _write(json, "")  # a report that cannot be saved is better known before the work than after it
    loaded = DataSet.load(folder, name)
    questions = loaded.sample(limit, seed)
    settings = Settings.load(**overrides)
    with Progress(console=_errors) as bar:
        indexing = bar.add_task("indexing", total=None)
        corpus = indexed(
            loaded, work, settings, lambda done, total, _: bar.update(indexing, completed=done, total=total)
        )
        asking = bar.add_task("asking", total=len(questions))

        async def main() -> dict[str, Any]:
            async with Hoptrail.open(corpus, settings=settings) as hop:
                return await evaluate(loaded, questions, hop, lambda: bar.advance(asking))

        result = anyio.run(main)
    result["settings"] |= {"limit": limit, "seed": seed, "embedding_model": settings.embedding_model}
    if json is not None:
        _write(json, json_module.dumps(result, indent=1) + "\n")
    _show(result)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if not text else "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigurationError(f"Cannot write {path}: {error.strerror or error}.") from None


def _show(result: dict[str, Any]) -> None:
    names = list(result["metrics"])
    table = Table(f"{result['set']}, {result['tool'] or 'tools by planner'}", "n", *names, box=None, pad_edge=False)

    def row(label: str, n: float, values: dict[str, float]) -> None:
        table.add_row(label, f"{n:.0f}", *(f"{values[key]:.3f}" for key in names))

    row("all", result["n"], result["metrics"])
    for label, end in (("  95 % from", 0), ("  95 % to", 1)):
        row(label, result["n"], {key: result["intervals"][key][end] for key in names})
    for group, label in (("by_hops", "hops"), ("by_type", "type")):
        for key, values in result[group].items():
            row(f"{label} {key}", values["n"], values)
    Console().print(table)
