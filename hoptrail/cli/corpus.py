"""`hoptrail index` and `hoptrail tools`."""

import functools
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hoptrail.cli.console import errors, output, progress_bar
from hoptrail.cli.options import CorpusPath, Json
from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.indexing import IndexReport
from hoptrail.corpus.indexing import index as index_documents
from hoptrail.errors import CorpusError
from hoptrail.models.embeddings import open_embedder
from hoptrail.planners.registry import describe_planners
from hoptrail.tools.registry import open_tools

__all__ = ["index", "tools"]

_SHOWN = 10


def index(
    paths: Annotated[
        list[Path], typer.Argument(help="Files and folders: JSONL (id, title, text), text, Markdown, HTML, PDF, DOCX.")
    ],
    *,
    corpus: CorpusPath = None,
    embedding_model: Annotated[str | None, typer.Option(help="Encoder (HOPTRAIL_EMBEDDING_MODEL).")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 2 if any document could not be read.")] = False,
) -> None:
    """Add the documents under PATHS to the corpus; unchanged ones are left alone."""
    settings = Settings.load(corpus=corpus, embedding_model=embedding_model)
    with progress_bar() as bar:
        task = bar.add_task("reading", total=None)

        def tell(done: int, total: int, note: str) -> None:
            bar.update(task, completed=done, total=total, description=note)

        report = index_documents(paths, settings.corpus, functools.partial(open_embedder, settings), progress=tell)
    _show(report, settings.corpus)
    _refuse(report, strict=strict)


def _refuse(report: IndexReport, *, strict: bool) -> None:
    """Raise where nothing could be read, or where anything could not and that matters to the user."""
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


def tools(*, corpus: CorpusPath = None, json: Json = False) -> None:
    """List the retrieval tools of the corpus and the planners."""
    settings = Settings.load(corpus=corpus)
    opened = Corpus.open(settings.corpus, functools.partial(open_embedder, settings))
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
