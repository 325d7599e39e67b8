import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.indexing import index
from hoptrail.errors import CorpusMismatchError
from hoptrail.models.base import Embedder
from hoptrail.testing.tools import check_tool
from hoptrail.tools.base import Evidence
from hoptrail.tools.lexical import LexicalTool
from hoptrail.tools.registry import open_tools
from hoptrail.tools.text import TextTool

Encoder = Callable[[], Embedder]


@pytest.fixture
def corpus(mini_corpus: Path, encoder: Encoder) -> Iterator[Corpus]:
    opened = Corpus.open(mini_corpus, encoder)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def questions(mini: Path) -> list[dict[str, object]]:
    lines = mini.with_suffix(".questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def small_corpus(tmp_path: Path, encoder: Encoder, *texts: str) -> Corpus:
    rows = [json.dumps({"id": f"d{i}", "title": "", "text": text}) for i, text in enumerate(texts)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    index([tmp_path / "rows.jsonl"], tmp_path / "c", encoder)
    return Corpus.open(tmp_path / "c", encoder)


@pytest.mark.parametrize("name", ["text", "lexical"])
async def test_the_contract_on_real_questions(name: str, corpus: Corpus, questions: list[dict[str, object]]) -> None:
    tool = open_tools(corpus, Settings()).get(name)
    await check_tool(tool, [str(q["question"]) for q in questions[:4]])


@pytest.mark.parametrize("name", ["text", "lexical"])
async def test_gold_passages_of_real_questions_are_found(
    name: str, corpus: Corpus, questions: list[dict[str, object]]
) -> None:
    """Among 50 passages either tool finds most of the gold of multi-hop questions within five."""
    tool = open_tools(corpus, Settings()).get(name)
    shares = []
    for question in questions:
        evidence = await tool.retrieve(str(question["question"]), k=5)
        gold = set(question["supporting"])  # type: ignore[call-overload]
        shares.append(len(gold & {hit.id for hit in evidence.hits}) / len(gold))
        assert all(hit.views == {name: hit.score} and hit.text and hit.title for hit in evidence.hits)
    assert sum(shares) / len(shares) > 0.5


async def test_words_decide_for_lexical_and_meaning_for_text(tmp_path: Path, encoder: Encoder) -> None:
    corpus = small_corpus(
        tmp_path, encoder, "Error code XQ-7731 in the boiler.", "The monarch died in winter.", "Soup."
    )
    lexical, text = LexicalTool(corpus), TextTool(corpus)
    assert [h.id for h in (await lexical.retrieve("what does XQ-7731 mean", k=3)).hits] == ["d0"]
    assert (await text.retrieve("When did the king pass away?", k=1)).hits[0].id == "d1"
    assert (await lexical.retrieve("When did the king pass away?", k=3)).hits == ()
    corpus.close()


async def test_lexical_scores_are_those_of_the_formula(tmp_path: Path, encoder: Encoder) -> None:
    texts = ["alpha beta", "alpha gamma gamma", "delta epsilon"]
    corpus = small_corpus(tmp_path, encoder, *texts)
    hits = (await LexicalTool(corpus).retrieve("gamma alpha", k=3)).hits
    mean = sum(len(t.split()) for t in texts) / 3

    def part(frequency: int, length: int, documents: int) -> float:
        weight = math.log(1 + (3 - documents + 0.5) / (documents + 0.5))
        return weight * frequency / (frequency + 1.5 * (1 - 0.75 + 0.75 * length / mean))

    assert [h.id for h in hits] == ["d1", "d0"]
    assert hits[0].score == pytest.approx(part(1, 3, 2) + part(2, 3, 1), rel=1e-5)
    assert hits[1].score == pytest.approx(part(1, 2, 2), rel=1e-5)
    corpus.close()


async def test_lexical_ties_are_broken_by_id_at_any_depth(tmp_path: Path, encoder: Encoder) -> None:
    corpus = small_corpus(tmp_path, encoder, *["the same lighthouse"] * 120)
    everything = [hit.id for hit in (await LexicalTool(corpus).retrieve("lighthouse", k=500)).hits]
    assert everything == sorted(everything)
    assert len(everything) == 120
    for k in (1, 2, 50):
        assert [hit.id for hit in (await LexicalTool(corpus).retrieve("lighthouse", k=k)).hits] == everything[:k]
    corpus.close()


@pytest.mark.parametrize("texts", [[], ["the of and"], ["🧭", "?!"], ["1 2 3", "7"], ["שלום עולם", "مرحبا"]])
async def test_tools_over_odd_corpora(texts: list[str], tmp_path: Path, encoder: Encoder) -> None:
    corpus = small_corpus(tmp_path, encoder, *texts)
    for tool in (TextTool(corpus), LexicalTool(corpus)):
        await check_tool(tool, ["the", "1 2", "שלום"])
    assert len((await TextTool(corpus).retrieve("anything", k=10)).hits) == len(texts)
    corpus.close()


async def test_the_lexical_index_is_kept_and_follows_the_corpus(
    mini_corpus: Path, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(mini_corpus, tmp_path / "c"))
    corpus = Corpus.open(folder, encoder)
    tool = LexicalTool(corpus)
    before = await tool.retrieve("capital of the islands", k=5)
    again = Corpus.open(folder, encoder)
    with monkeypatch.context() as patch:
        patch.setattr("bm25s.BM25.index", lambda *_, **__: pytest.fail("built twice"))
        assert await LexicalTool(again).retrieve("capital of the islands", k=5) == before
    again.close()
    (tmp_path / "z.txt").write_text("A zeppelin flew over the fjord.", encoding="utf-8")
    index([tmp_path / "z.txt"], folder, encoder)
    assert [h.id for h in (await tool.retrieve("zeppelin", k=5)).hits] == ["z.txt"]
    assert len([p for p in (folder / "indexes" / "lexical" / "default").iterdir() if p.is_dir()]) == 1
    corpus.close()


@pytest.mark.parametrize("name", ["ids.json", "data.csc.index.npy", "vocab.index.json", "params.index.json"])
@pytest.mark.parametrize("how", ["remove", "cut"])
async def test_a_damaged_lexical_index_is_built_again(
    name: str, how: str, mini_corpus: Path, encoder: Encoder, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(mini_corpus, tmp_path / "c"))

    async def ask() -> Evidence:
        corpus = Corpus.open(folder, encoder)
        evidence = await LexicalTool(corpus).retrieve("capital of the islands", k=5)
        corpus.close()
        return evidence

    expected = await ask()
    (damaged,) = (folder / "indexes" / "lexical").rglob(name)
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    if how == "remove":
        damaged.unlink()
    assert await ask() == expected
    assert expected.hits


async def test_lexical_needs_no_encoder_and_text_refuses_another(mini_corpus: Path, encoder: Encoder) -> None:
    def unavailable() -> Embedder:
        raise AssertionError("the encoder was opened")

    corpus = Corpus.open(mini_corpus, unavailable)
    assert (await LexicalTool(corpus).retrieve("capital", k=3)).hits
    assert (await TextTool(corpus).retrieve("  ", k=3)).hits == ()
    corpus.close()

    class Other:
        name, dimension, encode = "other", 384, encoder().encode

    wrong = Corpus.open(mini_corpus, Other)
    with pytest.raises(CorpusMismatchError, match="other"):
        await TextTool(wrong).retrieve("capital", k=3)
    wrong.close()


async def test_the_event_loop_stays_free_while_tools_search(corpus: Corpus) -> None:
    tool = TextTool(corpus)
    await tool.retrieve("warm", k=1)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = anyio.current_time()
            await anyio.sleep(0.001)
            longest = max(longest, anyio.current_time() - before)

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        async with anyio.create_task_group() as searches:
            for number in range(40):
                searches.start_soon(lambda n=number: tool.retrieve(f"question {n}", k=5))
        group.cancel_scope.cancel()
    assert longest < 1.0


async def test_a_search_can_be_abandoned(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    import time  # noqa: PLC0415

    monkeypatch.setattr(corpus, "encode_query", lambda _: time.sleep(2))
    with anyio.move_on_after(0.05) as scope:
        await TextTool(corpus).retrieve("slow", k=1)
    assert scope.cancelled_caught
    assert anyio.current_time() - scope.deadline < 0.5
