"""`hoptrail index`, `hoptrail delete`, `hoptrail status` and `hoptrail tools`."""

import dataclasses
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hoptrail.cli.console import errors, output, progress_bar
from hoptrail.cli.costs import show_estimate, show_spending
from hoptrail.cli.options import BaseUrl, CorpusPath, Json, ModelName
from hoptrail.config import ExtractorName, Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.deleting import delete as delete_documents
from hoptrail.corpus.estimating import estimate_index
from hoptrail.corpus.extractors.registry import open_extractor
from hoptrail.corpus.indexing import IndexProgress, IndexReport
from hoptrail.corpus.indexing import index as index_documents
from hoptrail.corpus.place import Place
from hoptrail.errors import BudgetExceededError, CorpusError
from hoptrail.models.embeddings import open_embedder
from hoptrail.planners.registry import describe_planners
from hoptrail.tools.registry import open_tools

__all__ = ["delete", "index", "status", "tools"]

_SHOWN = 10


def index(
    paths: Annotated[
        list[Path], typer.Argument(help="Files and folders: JSONL (id, title, text), text, Markdown, HTML, PDF, DOCX.")
    ],
    *,
    corpus: CorpusPath = None,
    embedding_model: Annotated[str | None, typer.Option(help="Encoder (HOPTRAIL_EMBEDDING_MODEL).")] = None,
    extractor: Annotated[
        ExtractorName | None, typer.Option(help="What finds entities and relations (HOPTRAIL_EXTRACTOR).")
    ] = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, help="US dollars that extraction may cost; the next indexing goes on (HOPTRAIL_MAX_COST)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate calls, tokens and money; nothing is written.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 2 if any document could not be read.")] = False,
) -> None:
    """Add the documents under PATHS to the corpus; unchanged ones are left alone."""
    settings = Settings.load(
        corpus=corpus,
        embedding_model=embedding_model,
        extractor=extractor,
        model=model,
        base_url=base_url,
        max_cost=max_cost,
    )
    chosen = open_extractor(settings)
    try:
        if dry_run:
            show_estimate(estimate_index(paths, Place.configured(settings), chosen), settings)
            return
        with _progress() as tell:
            embedder = functools.partial(open_embedder, settings)
            report = index_documents(paths, Place.configured(settings), embedder, extractor=chosen, progress=tell)
    finally:
        if chosen is not None:
            chosen.close()
    _show(report, settings.corpus)
    show_spending(chosen, report)
    _refuse(report, strict=strict)


def delete(
    documents: Annotated[list[str], typer.Argument(help="Ids of documents: of JSONL rows, or paths of files.")],
    *,
    corpus: CorpusPath = None,
    embedding_model: Annotated[str | None, typer.Option(help="Encoder (HOPTRAIL_EMBEDDING_MODEL).")] = None,
) -> None:
    """Remove DOCUMENTS from the corpus, with all that only they were the sources of; an unknown id removes nothing."""
    settings = Settings.load(corpus=corpus, embedding_model=embedding_model)
    with _progress() as tell:
        report = delete_documents(
            documents, Place.configured(settings), functools.partial(open_embedder, settings), progress=tell
        )
    output.print(
        f"{settings.corpus}: {report.documents} documents deleted, {report.passages} passages, in {report.seconds:.1f} s",
        markup=False,
    )


def status(*, corpus: CorpusPath = None, json: Json = False) -> None:
    """Show how large the corpus is, what it was built with, and what an unfinished indexing left to do."""
    settings = Settings.load(corpus=corpus)
    opened = Corpus.open(Place.configured(settings), functools.partial(open_embedder, settings))
    try:
        found = dataclasses.asdict(opened.status())
    finally:
        opened.close()
    if json:
        output.print_json(data=found)
        return
    table = Table("", str(settings.corpus), box=None, pad_edge=False)
    for name, value in found.items():
        table.add_row(name.replace("_", " "), f"{value:,}" if type(value) is int and name != "revision" else str(value))
    output.print(table)
    if not found["complete"] or found["unextracted"] or found["unembedded"]:
        output.print("The next `hoptrail index` does what is missing.", style="yellow")


@contextmanager
def _progress() -> Iterator[IndexProgress]:
    """A bar on the terminal, and what moves it."""
    with progress_bar() as bar:
        task = bar.add_task("reading", total=None)

        def tell(done: int, total: int, note: str) -> None:
            bar.update(task, completed=done, total=total, description=note)

        yield tell


def _refuse(report: IndexReport, *, strict: bool) -> None:
    """Raise where extraction had to stop, nothing could be read, or anything could not and that matters to the user."""
    if isinstance(report.stopped, BudgetExceededError):
        raise typer.Exit(1)
    if report.stopped is not None:
        raise report.stopped
    indexed = report.added + report.updated + report.unchanged
    if report.failed and not indexed and len(report.failed) == 1:
        raise report.failed[0]
    if report.failed and (strict or not indexed):
        raise CorpusError(f"{len(report.failed)} documents could not be read: see above, mend or leave them out.")


def _show(report: IndexReport, corpus: Path) -> None:
    if len(report.failed) == 1 and not (report.added or report.updated or report.unchanged):
        return
    for failure in report.failed[:_SHOWN]:
        errors.print(str(failure), markup=False, style="yellow", soft_wrap=True)
    if len(report.failed) > _SHOWN:
        errors.print(f"… and {len(report.failed) - _SHOWN} more.", style="yellow")
    output.print(
        f"{corpus}: {report.added} documents added, {report.updated} updated, {report.unchanged} unchanged, "
        f"{len(report.failed)} unreadable; {report.passages} passages embedded in {report.seconds:.1f} s",
        markup=False,
    )
    if report.unextracted:
        errors.print(
            f"Nothing could be extracted from {report.unextracted} passages: the next `hoptrail index` tries them again.",
            style="yellow",
        )


def tools(*, corpus: CorpusPath = None, json: Json = False) -> None:
    """List the retrieval tools of the corpus and the planners."""
    settings = Settings.load(corpus=corpus)
    opened = Corpus.open(Place.configured(settings), functools.partial(open_embedder, settings))
    try:
        rows = [("tool", *row) for row in open_tools(opened, settings).describe()]
    finally:
        opened.close()
    rows += [("planner", *row) for row in describe_planners()]
    if json:
        output.print_json(data=[{"kind": kind, "name": name, "description": text} for kind, name, text in rows])
        return
    table = Table("", "name", "description", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    output.print(table)
