"""Indexing with the llm extractor: what is paid for is kept, a cap stops and resumes, failures are tried again."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.extraction import Extraction
from hoptrail.corpus.extractors.llm import LlmExtractor
from hoptrail.corpus.indexing import IndexReport, index
from hoptrail.corpus.types import Passage
from hoptrail.errors import BudgetExceededError, ModelAccessError
from hoptrail.models.base import Embedder
from hoptrail.testing.openai_server import Failure, ScriptedOpenAI

TOWNS = tuple(f"Town{letter}" for letter in "ABCDEFGHIJKL")


def town_of(body: dict[str, Any]) -> str:
    text = " ".join(str(message["content"]) for message in body["messages"])
    return next(town for town in TOWNS if f"{town} is" in text)


def output_for(body: dict[str, Any]) -> dict[str, Any]:
    names = (town_of(body), "Norway")
    entities = [{"name": name, "type": "place", "attributes": []} for name in names]
    return {"entities": entities, "relations": [{"head": names[0], "label": "lies in", "tail": names[1]}]}


class Bench:
    """A corpus of towns, indexed again and again with new extractors against one endpoint."""

    def __init__(self, server: ScriptedOpenAI, folder: Path, encoder: Callable[[], Embedder]) -> None:
        self.server, self.encoder = server, encoder
        self.corpus, self.rows = folder / "corpus", folder / "towns.jsonl"
        lines = [json.dumps({"id": town, "title": "", "text": f"{town} is a town in Norway."}) for town in TOWNS]
        self.rows.write_text("\n".join(lines), encoding="utf-8")

    async def index(self, **overrides: Any) -> IndexReport:
        settings = Settings.load(base_url=self.server.base_url, model="m", retry_attempts=1, **overrides)
        return await anyio.to_thread.run_sync(self._index, LlmExtractor(settings))

    def _index(self, extractor: LlmExtractor) -> IndexReport:
        try:
            return index([self.rows], self.corpus, self.encoder, extractor=extractor)
        finally:
            extractor.close()

    def asked(self) -> Counter[str]:
        return Counter(town_of(request.body) for request in self.server.requests)

    def names(self) -> set[str]:
        opened = Corpus.open(self.corpus, self.encoder)
        found = {entity.name for entity in opened.iter_entities()}
        opened.close()
        return found


@asynccontextmanager
async def bench(handler: Any, folder: Path, encoder: Callable[[], Embedder]) -> AsyncIterator[Bench]:
    async with ScriptedOpenAI(handler) as server:
        yield Bench(server, folder, encoder)


async def test_a_capped_indexing_ends_clean_and_the_next_goes_on(
    tmp_path: Path, encoder: Callable[[], Embedder]
) -> None:
    async with bench(output_for, tmp_path, encoder) as towns:
        first = await towns.index(max_calls=5)
        assert (first.extracted, first.unextracted, first.untried) == (5, 0, 7)
        assert isinstance(first.stopped, BudgetExceededError)
        assert first.embedded["passage"] == len(TOWNS), "all passages can be searched meanwhile"
        assert towns.names() == {*TOWNS[:5], "Norway"}
        second = await towns.index()
        assert (second.extracted, second.untried, second.stopped) == (7, 0, None)
        assert (await towns.index()).extracted == 0
        assert towns.asked() == dict.fromkeys(TOWNS, 1)
        assert towns.names() == {*TOWNS, "Norway"}


async def test_failures_are_tried_again_after_what_was_never_tried(
    tmp_path: Path, encoder: Callable[[], Embedder]
) -> None:
    ill = {"TownA", "TownC"}

    def reply(body: dict[str, Any]) -> Any:
        return "no" if town_of(body) in ill else output_for(body)

    async with bench(reply, tmp_path, encoder) as towns:
        report = await towns.index(max_calls=8, model_concurrency=1)  # a failed one takes two
        assert (report.extracted, report.unextracted, report.untried) == (4, 2, 6)
        towns.server.requests.clear()
        report = await towns.index(model_concurrency=1)
        assert list(towns.asked()) == [*TOWNS[6:], "TownA", "TownC"]
        assert (report.extracted, report.unextracted) == (6, 2)
        ill.clear()
        assert (await towns.index()).extracted == 2
        assert towns.names() == {*TOWNS, "Norway"}


async def test_a_refused_key_costs_nothing_that_was_found(tmp_path: Path, encoder: Callable[[], Embedder]) -> None:
    def reply(body: dict[str, Any]) -> Any:
        return Failure(401) if town_of(body) == "TownE" else output_for(body)

    async with bench(reply, tmp_path, encoder) as towns:
        report = await towns.index(model_concurrency=1)
        assert (report.extracted, report.unextracted, report.untried) == (4, 0, 8)
        assert isinstance(report.stopped, ModelAccessError)
        assert len(towns.server.requests) == 5


class Interrupted(LlmExtractor):
    """Ctrl-C after three results."""

    def extract(self, passages: Sequence[Passage]) -> Iterator[Any]:
        for number, result in enumerate(super().extract(passages)):
            if number == 3:
                raise KeyboardInterrupt
            assert isinstance(result, Extraction)
            yield result


async def test_an_interruption_costs_only_what_is_in_flight(tmp_path: Path, encoder: Callable[[], Embedder]) -> None:
    async with bench(output_for, tmp_path, encoder) as towns:
        settings = Settings.load(base_url=towns.server.base_url, model="m", model_concurrency=1)
        with pytest.raises(KeyboardInterrupt):
            # The thread hands it over as it is.
            await anyio.to_thread.run_sync(towns._index, Interrupted(settings))
        with anyio.fail_after(5):
            await towns.server.idle()
        begun = set(towns.asked())
        report = await towns.index()
        assert report.extracted == len(TOWNS) - 3
        assert all(count == 1 for town, count in towns.asked().items() if town in TOWNS[:3] or town not in begun)
        assert towns.names() == {*TOWNS, "Norway"}
