"""`hoptrail graph`: what it shows, and files that other programs read back."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest
import rustworkx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hoptrail.cli import main
from hoptrail.cli.graph import _unknown
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.export import export_graph
from hoptrail.corpus.extraction import ExtractedEntity, ExtractedRelation, Extraction
from hoptrail.corpus.indexing import index
from hoptrail.corpus.types import Passage
from hoptrail.errors import CorpusError

ODD = 'A & B <b> "q" \x01\ufffe]]> 北京\U0001f600\x85é\u2028end'


class LineEncoder:
    """Vectors without a model: the graph's files do not depend on them."""

    name, dimension = "lines", 4

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.eye(4, dtype=np.float32)[[len(text) % 4 for text in texts]]

    def encode_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.encode([text])[0]
        return vector


class TripleExtractor:
    """Reads lines `head | label | tail`; every entity is a thing."""

    name = "triples"

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        return [self._read(passage.text) for passage in passages]

    def _read(self, text: str) -> Extraction:
        triples = [tuple(part.strip() for part in line.split("|")) for line in text.split("\n") if line.count("|") == 2]
        names = dict.fromkeys(name for triple in triples for name in (triple[0], triple[2]))
        return Extraction(
            entities=tuple(ExtractedEntity(name=n, type="thing", attributes=(("size", str(len(n))),)) for n in names),
            relations=tuple(ExtractedRelation(head=(h, "thing"), label=r, tail=(t, "thing")) for h, r, t in triples),
        )

    def close(self) -> None:
        pass


TEXTS = {
    "p1": "Ilse Brandvold | was born in | Voss\nHarbour Lights | is by | Ilse Brandvold",
    "p2": f"Ilse Brandvold | was born in | Voss\nIlse Brandvold | likes | {ODD}\nVoss | lies in | Norway",
}


def build(folder: Path, texts: dict[str, str]) -> Path:
    rows = [json.dumps({"id": key, "title": f"Title {key}", "text": text}) for key, text in texts.items()]
    (folder / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    index([folder / "rows.jsonl"], folder / "corpus", LineEncoder, extractor=TripleExtractor())
    return folder / "corpus"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("graph"), TEXTS)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def call(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["hoptrail", "graph", *map(str, arguments), "--corpus", str(corpus)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), captured.out, captured.err)

    return call


def test_an_entity_is_shown_with_its_relations_and_sources(run: Any) -> None:
    code, out, _ = run("show", "ILSE  brandvold")
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    assert lines[:2] == ["Ilse Brandvold (thing)", "size: 14"]
    assert "was born in -> Voss (thing) [p1, p2]" in lines
    assert "Harbour Lights (thing) -> is by [p1]" in lines
    assert any(line.startswith("p1 Title p1: Ilse Brandvold | was born in") for line in lines)
    assert {c for c in out if not c.isprintable()} == {"\n"}


def test_as_json_and_with_a_limit(run: Any) -> None:
    (found,) = json.loads(run("show", "voss", "--json").out)
    assert (found["name"], found["type"], found["attributes"]) == ("Voss", "thing", {"size": ["4"]})
    assert [(r["head"], r["label"], r["tail"]) for r in found["relations"]] == [
        ("Voss", "lies in", "Norway"),
        ("Ilse Brandvold", "was born in", "Voss"),
    ]
    assert [p["id"] for p in found["passages"]] == ["p1", "p2"]
    assert "… and 1 more (--limit)" in run("show", "Ilse Brandvold", "--limit", "1").out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Ilse Brandvolt", "did you mean Ilse Brandvold?"),
        ("brandvold", "did you mean Ilse Brandvold?"),
        ("harbor lights", "did you mean Harbour Lights?"),
        ("zzzzzz", "graph export"),
        ("", "is called ''"),
    ],
)
def test_near_names_are_suggested(run: Any, name: str, says: str) -> None:
    code, out, err = run("show", name)
    assert (code, out) == (2, "")
    assert says in " ".join(err.split())


def test_a_corpus_without_a_graph_says_so(tmp_path: Path) -> None:
    opened = Corpus.open(build(tmp_path, {"p": "nothing"}), LineEncoder)
    assert "as it has none" in _unknown(opened, "Voss")
    opened.close()


def expected(folder: Path) -> tuple[dict[str, str], set[tuple[str, str, str]]]:
    """Names by id without what no XML holds, and the relations by name."""
    opened = Corpus.open(folder, LineEncoder)
    names = {e.id: e.name.replace("\x01", "").replace("\ufffe", "") for e in opened.iter_entities()}
    edges = {(names[r.head], r.label, names[r.tail]) for r in opened.iter_relations()}
    opened.close()
    return names, edges


def test_graphml_is_read_back_by_networkx_and_rustworkx(run: Any, corpus: Path, tmp_path: Path) -> None:
    file = tmp_path / "graph.graphml"
    code, out, _ = run("export", file)
    names, edges = expected(corpus)
    assert (code, out.strip()) == (0, f"{file}: {len(names)} entities, {len(edges)} relations")
    graph = nx.read_graphml(file, force_multigraph=True)
    assert graph.is_directed()
    assert {node: data["name"] for node, data in graph.nodes(data=True)} == names
    assert {(names[h], data["label"], names[t]) for h, t, data in graph.edges(data=True)} == edges
    voss = next(data for _, data in graph.nodes(data=True) if data["name"] == "Voss")
    assert json.loads(voss["attributes"]) == {"size": ["4"]}
    assert json.loads(voss["passages"]) == ["p1", "p2"]
    (other,) = rustworkx.read_graphml(str(file))
    assert sorted(node["name"] for node in other.nodes()) == sorted(names.values())
    assert sorted(edge["label"] for edge in other.edges()) == sorted(label for _, label, _ in edges)
    assert [path.name for path in tmp_path.iterdir()] == ["graph.graphml"]


def test_json_is_read_back_by_networkx(run: Any, corpus: Path, tmp_path: Path) -> None:
    assert run("export", tmp_path / "graph.json").code == 0
    data = json.loads((tmp_path / "graph.json").read_text(encoding="utf-8"))
    graph = nx.node_link_graph(data, edges="edges")
    names, edges = expected(corpus)
    assert isinstance(graph, nx.MultiDiGraph)
    assert graph.number_of_nodes() == len(names)
    assert dict(graph.nodes(data="name")) == names
    assert {(names[h], each["label"], names[t]) for h, t, each in graph.edges(data=True)} == edges
    assert all(each["passages"] for _, _, each in graph.edges(data=True))


@pytest.mark.parametrize("name", ["graph.txt", "graph", "no-folder/graph.json"])
def test_what_cannot_be_written_is_refused_in_one_line(run: Any, tmp_path: Path, name: str) -> None:
    code, out, err = run("export", tmp_path / name)
    assert (code, out) == (2, "")
    assert err.startswith("Error: Cannot")
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8)), max_size=5))
def test_any_text_gives_files_that_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, triples: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    opened = Corpus.open(build(folder, {"p": "\n".join(" | ".join(triple) for triple in triples) + " x"}), LineEncoder)
    counts = export_graph(opened, folder / "graph.graphml")
    assert export_graph(opened, folder / "graph.json") == counts
    opened.close()
    graph = nx.read_graphml(folder / "graph.graphml", force_multigraph=True)
    assert (graph.number_of_nodes(), graph.number_of_edges()) == counts
    data = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    assert (len(data["nodes"]), len(data["edges"])) == counts


def test_the_ending_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    opened = Corpus.open(build(tmp_path, {"p": "a | b | c"}), LineEncoder)
    with pytest.raises(CorpusError, match=r"\.graphml or \.json"):
        export_graph(opened, tmp_path / "graph.xml")
    opened.close()
