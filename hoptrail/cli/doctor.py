"""`hoptrail doctor`: what is installed, which models are here, what is missing and how to get it."""

import functools
import importlib.util
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import typer
from rich.table import Table

import hoptrail
from hoptrail.cli.console import output
from hoptrail.cli.options import CorpusPath, Json
from hoptrail.config import EMBEDDED, Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.place import Place
from hoptrail.errors import HoptrailError
from hoptrail.models.catalog import cache_folder, find_spec
from hoptrail.models.embeddings import embedded_folder, open_embedder
from hoptrail.models.nlp import PIPELINE
from hoptrail.models.pull import file_state

__all__ = ["doctor"]

_PACKAGES = (
    "anyio",
    "openai",
    "pydantic-ai-slim",
    "chromadb",
    "rustworkx",
    "sentence-transformers",
    "torch",
    "tenacity",
    "structlog",
    "spacy",
    "bm25s",
    "xllamacpp",
)
_EXTRA = "pip install 'hoptrail[embedded]'"


class Finding(NamedTuple):
    """One line of the report; `remedy` is empty when nothing is to be done."""

    what: str
    state: str
    remedy: str = ""


def doctor(*, corpus: CorpusPath = None, json: Json = False) -> None:
    """Report what is installed, which models are here, and how to get what is missing; exits with 1 if anything is."""
    settings = Settings.load(corpus=corpus)
    findings = [*_packages(), *_models(settings), _corpus(settings)]
    if json:
        output.print_json(data=[finding._asdict() for finding in findings])
    else:
        table = Table("", "state", "to do", box=None, pad_edge=False)
        for finding in findings:
            table.add_row(*finding, style="yellow" if finding.remedy else None)
        output.print(table)
    if any(finding.remedy for finding in findings):
        raise typer.Exit(1)


def _packages() -> list[Finding]:
    findings = [Finding("hoptrail", hoptrail.__version__), Finding("python", platform.python_version())]
    for name in _PACKAGES:
        try:
            findings.append(Finding(name, version(name)))
        except PackageNotFoundError:
            findings.append(Finding(name, "missing", _EXTRA if name == "xllamacpp" else f"pip install {name}"))
    return findings


def _models(settings: Settings) -> list[Finding]:
    findings = [Finding("cache", str(cache_folder()))]
    spec = find_spec(settings.model)
    if settings.base_url is not None:
        findings.append(Finding("language model", f"{settings.model} at {settings.base_url}"))
    elif spec is None:
        findings.append(Finding("language model", settings.model))
    else:
        state = file_state(spec)
        remedy = "" if state == "ready" else f"hoptrail models pull {spec.name}"
        findings.append(Finding("language model", f"{spec.name}, {state}", remedy))
    if settings.embedding_model != EMBEDDED:
        findings.append(Finding("encoder", settings.embedding_model))
    elif embedded_folder() is None:
        findings.append(Finding("encoder", "missing", _EXTRA))
    else:
        findings.append(Finding("encoder", "all-MiniLM-L6-v2, ready"))
    found = importlib.util.find_spec(PIPELINE) is not None
    findings.append(Finding("spaCy pipeline", "ready" if found else "missing", "" if found else _EXTRA))
    return findings


def _corpus(settings: Settings) -> Finding:
    try:
        opened = Corpus.open(Place.configured(settings), functools.partial(open_embedder, settings))
    except HoptrailError as error:
        return Finding("corpus", f"none at {settings.corpus}", str(error))
    try:
        return Finding("corpus", f"{opened.document_count} documents, {opened.count} passages at {settings.corpus}")
    finally:
        opened.close()
