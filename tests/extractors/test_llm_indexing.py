"""Indexing with the llm extractor: what is paid for is kept, a cap stops and resumes, failures are tried again."""

import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from hoptrail.cli import app
from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.estimating import estimate_index
from hoptrail.corpus.extraction import Extraction
from hoptrail.corpus.extractors.llm import LlmExtractor
from hoptrail.corpus.extractors.offline import OfflineExtractor
from hoptrail.corpus.indexing import IndexReport, index
from hoptrail.corpus.types import Passage
from hoptrail.errors import BudgetExceededError, CorpusMismatchError, ModelAccessError
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


def files(folder: Path) -> dict[str, bytes]:
    shown = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".sqlite3-shm")
    return {str(path.relative_to(folder)): path.read_bytes() for path in shown}


async def test_a_dry_run_tells_what_the_indexing_then_does(
    tmp_path: Path, encoder: Callable[[], Embedder], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with bench(output_for, tmp_path, encoder) as towns:
        line = ["index", str(towns.rows), "-c", str(towns.corpus), "--extractor", "llm", "--model", "m"]
        line += ["--base-url", towns.server.base_url]

        async def run(*options: str) -> tuple[int, str]:
            code = await anyio.to_thread.run_sync(lambda: CliRunner().invoke(app, [*line, *options]))
            return code.exit_code, " ".join(code.output.split())

        code, said = await run("--dry-run")
        assert (code, towns.corpus.exists()) == (0, False)
        assert "12 documents would be added" in said
        assert "12 model calls" in said
        assert "no price is known" in said
        monkeypatch.setenv("HOPTRAIL_INPUT_PRICE", "1000")
        monkeypatch.setenv("HOPTRAIL_OUTPUT_PRICE", "1000")
        code, said = await run("--max-cost", "4")
        assert code == 1
        assert "The cap on cost is reached" in said
        done = len(towns.server.requests)
        assert 0 < done < 12
        left = int(said.partition("is reached: ")[2].split()[0])
        assert left == 12 - done
        before = files(towns.corpus)
        code, said = await run("--dry-run")
        assert f"12 are unchanged, 0 unreadable; {left} passages to read" in said
        assert f"{left} model calls" in said
        most = float(said.partition("at most $")[2].split()[0])
        assert files(towns.corpus) == before
        code, said = await run()
        assert code == 0
        assert f"{left} passages read by llm/m/1: {left} model calls" in said
        spent = float(said.partition("tokens, $")[2].split()[0])
        assert 0 < spent <= most
        code, said = await run("--dry-run")
        assert "0 passages to read" in said
        assert "0 model calls" in said
        assert len(towns.server.requests) == 12


async def test_a_dry_run_counts_what_changes(tmp_path: Path, encoder: Callable[[], Embedder]) -> None:
    async with bench(lambda _: "no", tmp_path, encoder) as towns:
        await towns.index()
        lines = towns.rows.read_text(encoding="utf-8").splitlines()
        lines[0] = lines[0].replace("a town", "a large town")
        lines[1] = json.dumps({"id": "new", "title": "", "text": "Oslo."})
        towns.rows.write_text("\n".join(lines), encoding="utf-8")
        found = estimate_index(
            [towns.rows],
            towns.corpus,
            LlmExtractor(Settings.load(model="m", base_url=towns.server.base_url, input_price=0)),
        )
        assert (found.added, found.updated, found.unchanged, found.passages) == (1, 1, 10, 13)
        assert (found.cost.calls, found.cost.cost) == (13, 0)
        assert 0 < found.cost.input_tokens + found.cost.output_tokens < found.cost.most_tokens
        found = estimate_index([towns.rows], towns.corpus, None)
        assert (found.passages, found.cost.calls) == (2, 0)
        with pytest.raises(CorpusMismatchError, match="extractor"):
            estimate_index([towns.rows], towns.corpus, OfflineExtractor())


async def test_control_c_ends_at_once_and_the_next_goes_on(tmp_path: Path, encoder: Callable[[], Embedder]) -> None:
    """The real command, the real signal, an endpoint that answers five and then no more."""
    answered, stalled = 0, anyio.Event()

    async def reply(body: dict[str, Any]) -> Any:
        nonlocal answered
        if answered == 5:
            stalled.set()
            await anyio.sleep(60)
        answered += 1
        return output_for(body)

    async with bench(reply, tmp_path, encoder) as towns:
        line = [sys.executable, "-c", "from hoptrail.cli import main; main()", "index", str(towns.rows)]
        line += ["-c", str(towns.corpus), "--extractor", "llm", "--model", "m", "--base-url", towns.server.base_url]
        async with await anyio.open_process(line, stdout=None, stderr=None) as process:
            with anyio.fail_after(60):
                await stalled.wait()
            await anyio.sleep(0.2)
            process.send_signal(signal.SIGINT)
            with anyio.fail_after(10):
                assert await process.wait() == 130
                await towns.server.idle()
        answered = -100
        report = await towns.index()
        assert (report.extracted, report.untried) == (len(TOWNS) - 5, 0)
        assert towns.names() == {*TOWNS, "Norway"}
