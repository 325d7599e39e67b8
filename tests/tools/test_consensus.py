"""`consensus`, `entity` and `relation` on real passages."""

import json
from pathlib import Path

import pytest

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.errors import UnknownToolError
from hoptrail.evals.metrics import recall
from hoptrail.testing.tools import check_tool
from hoptrail.tools.base import Tool
from hoptrail.tools.consensus import ConsensusTool
from hoptrail.tools.graph import EntityTool, RelationTool
from hoptrail.tools.registry import open_tools
from hoptrail.tools.text import TextTool

QUERIES = [
    "Who was the father of the founder?",
    "the capital of the Andaman and Nicobar Islands",
    "xyzzy",
    "日本",
    "12",
]
VARIANTS = ["paper", "paper+rrf", "mean", "combmnz", "rrf", "rra", "no-specificity", "paper+max-pooling+no-specificity"]


@pytest.fixture(scope="module")
def consensus(graph_corpus: Corpus) -> ConsensusTool:
    return ConsensusTool(graph_corpus, Settings())


@pytest.mark.parametrize("kind", [EntityTool, RelationTool, ConsensusTool])
async def test_the_contract(kind: type[ConsensusTool], graph_corpus: Corpus) -> None:
    await check_tool(kind(graph_corpus, Settings()), QUERIES)


@pytest.mark.parametrize("name", VARIANTS)
async def test_variants_keep_it_too_under_their_names(name: str, consensus: ConsensusTool) -> None:
    variant = consensus.variant(name)
    assert variant.name == f"consensus/{name}"
    await check_tool(variant, QUERIES)


async def test_evidence_shows_how_every_score_was_made(consensus: ConsensusTool) -> None:
    for hit in (await consensus.variant("paper").retrieve(QUERIES[1], k=10)).hits:
        text, entity, relation = (hit.views.get(view, 0.0) for view in ("text", "entity", "relation"))
        assert hit.score == pytest.approx(text + 0.5 * (1 - (1 - entity) * (1 - relation)), abs=1e-5)
    settings = Settings()
    for hit in (await consensus.retrieve(QUERIES[1], k=10)).hits:
        weights, views = settings.consensus_weights, hit.views
        assert views.keys() <= {"text", "lexical", "entity", "relation", "bridge"}
        rest = 1.0
        for view in ("entity", "relation", "bridge"):
            rest *= 1 - weights[view] * views.get(view, 0.0)
        base = sum(weights[view] * views.get(view, 0.0) for view in ("text", "lexical"))
        assert hit.score == pytest.approx(base + settings.consensus_bound * (1 - rest), abs=1e-5)


async def test_a_view_of_no_weight_is_not_searched(graph_corpus: Corpus) -> None:
    settings = Settings(consensus_weights={"text": 1.0})
    found = (await ConsensusTool(graph_corpus, settings).retrieve(QUERIES[0], k=5)).hits
    plain = (await TextTool(graph_corpus).retrieve(QUERIES[0], k=5)).hits
    assert [hit.id for hit in found] == [hit.id for hit in plain]
    assert all(hit.views.keys() == {"text"} for hit in found)


async def test_it_finds_more_than_meaning_alone(graph_corpus: Corpus, consensus: ConsensusTool, mini: Path) -> None:
    questions = [json.loads(line) for line in mini.with_suffix(".questions.jsonl").read_text().splitlines()]

    async def total(tool: Tool) -> float:
        found = [(await tool.retrieve(each["question"], k=5)).hits for each in questions]
        return sum(
            recall([h.document for h in hits], q["supporting"], 5) for hits, q in zip(found, questions, strict=True)
        )

    assert await total(consensus) > await total(TextTool(graph_corpus))


async def test_an_entity_that_the_query_names_is_found(graph_corpus: Corpus) -> None:
    passage = next(each for each in graph_corpus.iter_passages() if len(each.title.split()) > 1)
    hits = (await EntityTool(graph_corpus, Settings()).retrieve(f"What about {passage.title}?", k=3)).hits
    assert passage.id in {hit.id for hit in hits}


def test_the_registry_knows_variants(graph_corpus: Corpus) -> None:
    registry = open_tools(graph_corpus, Settings())
    assert registry.get("consensus/paper").name == "consensus/paper"
    assert "consensus/paper" not in registry.names
    with pytest.raises(UnknownToolError, match="consensus/nonsense"):
        registry.get("consensus/nonsense")
    with pytest.raises(UnknownToolError, match="text/paper"):
        registry.get("text/paper")
