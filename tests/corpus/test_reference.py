"""The figures of the reference measurements, on the open MuSiQue questions."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.indexing import index
from hoptrail.models.base import Embedder
from hoptrail.tools.registry import open_tools

pytestmark = [pytest.mark.shared_data, pytest.mark.timeout(900)]
Encoder = Callable[[], Embedder]


@pytest.fixture(scope="module")
def questions(shared_data: Path) -> list[dict[str, Any]]:
    with gzip.open(shared_data / "musique.questions.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="module")
def folder(shared_data: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("musique") / "corpus"
    report = index([shared_data / "musique.corpus.jsonl.gz"], made, encoder)
    assert (report.added, report.passages, report.failed) == (3448, 3448, ())
    return made


FLOORS = {"text": (0.556, 0.199), "lexical": (0.463, 0.097)}
"""Recall@5 and all-evidence@5 that each tool must reach."""


@pytest.mark.parametrize("name", FLOORS)
async def test_recall_is_that_of_the_reference(
    name: str, folder: Path, encoder: Encoder, questions: list[dict[str, Any]]
) -> None:
    recall, everything = FLOORS[name]
    corpus = Corpus.open(folder, encoder)
    tool = open_tools(corpus, Settings()).get(name)
    shares = []
    for question in questions:
        found = {hit.document for hit in (await tool.retrieve(question["question"], k=5)).hits}
        shares.append(len(found & set(question["supporting"])) / len(question["supporting"]))
    corpus.close()
    print(f"{name}: recall@5 {np.mean(shares):.3f}, all@5 {np.mean([share == 1 for share in shares]):.3f}")
    assert np.mean(shares) >= recall
    assert np.mean([share == 1 for share in shares]) >= everything


def test_the_graph_index_answers_as_an_exact_search(
    folder: Path, encoder: Encoder, questions: list[dict[str, Any]]
) -> None:
    corpus = Corpus.open(folder, encoder)
    with corpus._store.reading() as rows:
        portions = list(rows.embeddings.batches("passage", 1_000))
    ids = [key for keys, _ in portions for key in keys]
    matrix = np.concatenate([part for _, part in portions])
    for question in questions:
        vector = corpus.encode_query(question["question"])
        best = np.argsort(-np.round((matrix @ vector).astype(np.float64), 6), kind="stable")[:20]
        found = corpus.search("passage", vector, 20)
        np.testing.assert_allclose([score for _, score in found], (matrix @ vector)[best], atol=2e-6)
        assert {key for key, _ in found} == {ids[i] for i in best}
    corpus.close()
