"""`hoptrail graph show` and `hoptrail graph export`."""

import difflib
import functools
import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hoptrail.cli.console import one_line, output
from hoptrail.cli.options import CorpusPath, Json
from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.export import export_graph
from hoptrail.corpus.graph import Entity, Relation, normalised_name
from hoptrail.corpus.place import Place
from hoptrail.errors import CorpusError
from hoptrail.models.embeddings import open_embedder

__all__ = ["app"]

app = typer.Typer(help="The graph of entities and relations.", no_args_is_help=True)

_NEAR = 5
_NEAR_ENOUGH = 0.6
_EXCERPT = 120


@app.command()
def show(
    entity: Annotated[str, typer.Argument(help="Its name, in any case.")],
    *,
    corpus: CorpusPath = None,
    limit: Annotated[int, typer.Option(min=1, help="Relations each way, and passages, that are shown at most.")] = 20,
    json: Json = False,
) -> None:
    """Show what is called ENTITY: its types, attributes, relations and source passages."""
    with _opened(corpus) as opened:
        found = opened.entities(opened.entities_named([entity])[entity])
        if not found:
            raise CorpusError(_unknown(opened, entity))
        shown = [_Shown(opened, each) for each in found]
        if json:
            output.print_json(data=[each.data() for each in shown])
            return
        for number, each in enumerate(shown):
            for line in (*([""] if number else []), *each.lines(limit)):
                output.print(line, markup=False)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="What to write: a name that ends in .graphml or .json.")],
    *,
    corpus: CorpusPath = None,
) -> None:
    """Write all entities and relations to FILE, as GraphML or as networkx's node-link JSON."""
    with _opened(corpus) as opened:
        entities, relations = export_graph(opened, file)
    output.print(f"{file}: {entities:,} entities, {relations:,} relations", markup=False)


@contextmanager
def _opened(folder: Path | None) -> Iterator[Corpus]:
    settings = Settings.load(corpus=folder)
    opened = Corpus.open(Place.configured(settings), functools.partial(open_embedder, settings))
    try:
        yield opened
    finally:
        opened.close()


class _Shown:
    """An entity with what it is joined to."""

    def __init__(self, corpus: Corpus, entity: Entity) -> None:
        self.entity = entity
        relations = corpus.relations_of(entity.id)
        ends = sorted({end for r in relations for end in (r.head, r.tail)})
        self._types = {each.id: each.type for each in corpus.entities(ends)}
        self._out = sorted((r for r in relations if r.head == entity.id), key=_by_label)
        self._in = sorted((r for r in relations if r.tail == entity.id and r.head != entity.id), key=_by_label)
        self._passages = corpus.passages(entity.passages)

    def lines(self, limit: int) -> Iterator[str]:
        """The entity as text."""
        yield one_line(f"{self.entity.name} ({self.entity.type})")
        for key, values in self.entity.attributes.items():
            yield f"  {one_line(key)}: {one_line(', '.join(values))}"
        yield from _listed("relations from it", [self._line(r, r.tail) for r in self._out], limit)
        yield from _listed("relations to it", [self._line(r, r.head) for r in self._in], limit)
        excerpts = [f"{p.id} {p.title + ': ' if p.title else ''}{_excerpt(p.text)}" for p in self._passages]
        yield from _listed("passages", excerpts, limit)

    def data(self) -> dict[str, Any]:
        """The entity as plain data."""
        return {
            "id": self.entity.id,
            "name": self.entity.name,
            "type": self.entity.type,
            "attributes": {key: list(values) for key, values in self.entity.attributes.items()},
            "relations": [self._edge(r) for r in (*self._out, *self._in)],
            "passages": [{"id": p.id, "title": p.title, "text": p.text} for p in self._passages],
        }

    def _line(self, relation: Relation, other: str) -> str:
        name = relation.tail_name if other == relation.tail else relation.head_name
        end = f"{name} ({self._types.get(other, '?')})"
        arrow = f"{relation.label} -> {end}" if other == relation.tail else f"{end} -> {relation.label}"
        return f"{arrow} [{', '.join(relation.passages[:3])}{', …' if len(relation.passages) > 3 else ''}]"  # noqa: PLR2004

    def _edge(self, relation: Relation) -> dict[str, Any]:
        return {
            "head": relation.head_name,
            "head_type": self._types.get(relation.head),
            "label": relation.label,
            "tail": relation.tail_name,
            "tail_type": self._types.get(relation.tail),
            "passages": list(relation.passages),
        }


def _by_label(relation: Relation) -> tuple[str, str, str]:
    return relation.label, relation.head_name, relation.tail_name


def _listed(title: str, lines: list[str], limit: int) -> Iterator[str]:
    if lines:
        yield f"  {title}"
        yield from (f"    {one_line(line)}" for line in lines[:limit])
        if len(lines) > limit:
            yield f"    … and {len(lines) - limit} more (--limit)"


def _excerpt(text: str) -> str:
    plain = one_line(text)
    return plain if len(plain) <= _EXCERPT else f"{plain[: _EXCERPT - 1]}…"


def _unknown(corpus: Corpus, name: str) -> str:
    wanted = normalised_name(name).lower()
    best = heapq.nlargest(_NEAR, ((_likeness(wanted, e.name.lower()), e.name) for e in corpus.iter_entities()))
    near = list(dict.fromkeys(one_line(each) for likeness, each in best if likeness >= _NEAR_ENOUGH))
    said = f"No entity of the corpus at {corpus.path} is called {one_line(name)[:80]!r}"
    if near:
        return f"{said}: did you mean {', '.join(near)}?"
    if not best:
        return f"{said}, as it has none: index with `--extractor offline` or `llm` into a new corpus."
    return f"{said}: `hoptrail graph export` writes all there are."


def _likeness(wanted: str, name: str) -> float:
    """From 0 to 1; a name that holds the words asked for is near, whatever its length."""
    if wanted and f" {wanted} " in f" {name} ":
        return 1.0
    matcher = difflib.SequenceMatcher(None, wanted, name)
    # Two cheap upper bounds first: a corpus may have hundreds of thousands of names.
    if matcher.real_quick_ratio() < _NEAR_ENOUGH or matcher.quick_ratio() < _NEAR_ENOUGH:
        return 0.0
    return matcher.ratio()
