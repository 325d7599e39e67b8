"""Two real passages read by the embedded model: no script, no double."""

import json
from pathlib import Path

import pytest

from hoptrail.config import Settings
from hoptrail.corpus.extraction import Extraction
from hoptrail.corpus.extractors.llm import LlmExtractor
from hoptrail.corpus.types import Passage


def read(mini: Path, *titles: str) -> list[Passage]:
    rows = {row["title"]: row for row in map(json.loads, mini.read_text(encoding="utf-8").splitlines())}
    chosen = [rows[title] for title in titles]
    return [Passage(id=r["id"], document=r["id"], ordinal=0, title=r["title"], text=r["text"]) for r in chosen]


def labels(found: Extraction, head: str, tail: str) -> str:
    return "; ".join(r.label for r in found.relations if (r.head[0], r.tail[0]) == (head, tail))


@pytest.mark.embedded_llm
@pytest.mark.timeout(600)
def test_real_passages(embedded_llm: None, mini: Path) -> None:
    extractor = LlmExtractor(Settings.load(model_timeout_s=580, max_output_tokens=400))
    try:
        film, duo = extractor.extract(read(mini, "Hiruko the Goblin", "The Wrights (duo)"))
    finally:
        extractor.close()
    assert isinstance(film, Extraction), film
    assert isinstance(duo, Extraction), duo
    people = {e.name for found in (film, duo) for e in found.entities if e.type == "person"}
    assert people >= {"Shinya Tsukamoto", "Kenji Sawada", "Adam Wright", "Shannon Wright"}
    assert "direct" in labels(film, "Hiruko the Goblin", "Shinya Tsukamoto")
    assert "nephew" in labels(duo, "Adam Wright", "Alan Jackson")
    assert extractor.budget.calls == 2
    assert extractor.budget.cost == 0
