"""The merged graph as a file for other programs: GraphML, or JSON in networkx's node-link form.

Written piece by piece, so that a large graph needs little memory, and renamed when complete. What XML cannot hold (control
characters) is left out of both.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.graph import Entity, Relation
from hoptrail.errors import CorpusError

__all__ = ["FORMATS", "export_graph"]

_UNWRITABLE = re.compile("[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
"""
_KEYS = {
    "node": ("name", "type", "attributes", "passages"),
    "edge": ("label", "passages"),
}


def export_graph(corpus: Corpus, file: Path) -> tuple[int, int]:
    """Write the graph of `corpus` to `file`, in the format of its ending; how many entities and relations it has.

    Attributes and source passages are JSON within GraphML, whose values are plain.

    Raises:
        CorpusError: The ending is not known, or the file cannot be written.
    """
    write = FORMATS.get(file.suffix.lower())
    if write is None:
        raise CorpusError(f"Cannot export to {file}: its name has to end in {' or '.join(FORMATS)}.")
    written = _Written(corpus)
    try:
        with _complete(file) as out:
            write(out, written)
    except OSError as error:
        raise CorpusError(f"Cannot write {file}: {error.strerror or error}.") from None
    return len(written.ids), written.edges


class _Written:
    """Entities, then relations between those; what another process adds meanwhile is passed over."""

    def __init__(self, corpus: Corpus) -> None:
        self.ids: set[str] = set()
        self.edges = 0
        self._corpus = corpus

    def entities(self) -> Iterator[Entity]:
        for entity in self._corpus.iter_entities():
            self.ids.add(entity.id)
            yield entity

    def relations(self) -> Iterator[Relation]:
        for relation in self._corpus.iter_relations():
            if relation.head in self.ids and relation.tail in self.ids:
                self.edges += 1
                yield relation


@contextmanager
def _complete(file: Path) -> Iterator[TextIO]:
    """A file that is there when all of it is."""
    draft = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as out:
            yield out
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def _graphml(out: TextIO, graph: _Written) -> None:
    out.write(_HEAD)
    for target, keys in _KEYS.items():
        out.writelines(
            f'  <key id="{target}.{name}" for="{target}" attr.name="{name}" attr.type="string"/>\n' for name in keys
        )
    out.write('  <graph id="graph" edgedefault="directed">\n')
    for entity in graph.entities():
        facts = {key: list(values) for key, values in entity.attributes.items()}
        data = {"name": entity.name, "type": entity.type, "attributes": _json(facts)}
        data["passages"] = _json(list(entity.passages))
        out.write(f'    <node id="{entity.id}">{_data("node", data)}</node>\n')
    for relation in graph.relations():
        data = {"label": relation.label, "passages": _json(list(relation.passages))}
        ends = f"source={quoteattr(relation.head)} target={quoteattr(relation.tail)}"
        out.write(f'    <edge id="{relation.id}" {ends}>{_data("edge", data)}</edge>\n')
    out.write("  </graph>\n</graphml>\n")


def _node_link(out: TextIO, graph: _Written) -> None:
    out.write('{"directed": true, "multigraph": true, "graph": {},\n"nodes": [')
    for number, entity in enumerate(graph.entities()):
        node = {
            "id": entity.id,
            "name": entity.name,
            "type": entity.type,
            "attributes": {key: list(values) for key, values in entity.attributes.items()},
            "passages": list(entity.passages),
        }
        out.write(f"{',' if number else ''}\n{_json(node)}")
    out.write('\n],\n"edges": [')
    for number, relation in enumerate(graph.relations()):
        edge = {
            "key": relation.id,
            "source": relation.head,
            "target": relation.tail,
            "label": relation.label,
            "passages": list(relation.passages),
        }
        out.write(f"{',' if number else ''}\n{_json(edge)}")
    out.write("\n]}\n")


def _data(target: str, values: Mapping[str, str]) -> str:
    return "".join(f'<data key="{target}.{name}">{_text(value)}</data>' for name, value in values.items())


def _text(value: str) -> str:
    # A bare carriage return would be read back as a line feed.
    return escape(_writable(value), {"\r": "&#13;"})


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("", text)


def _json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> object:
    """`value` without unwritable characters in any of its strings."""
    if isinstance(value, str):
        return _writable(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_writable(key): _plain(item) for key, item in value.items()}
    return value


FORMATS: Mapping[str, Callable[[TextIO, _Written], None]] = {".graphml": _graphml, ".json": _node_link}
"""What writes which ending."""
