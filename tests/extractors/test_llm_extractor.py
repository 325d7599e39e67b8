"""The llm extractor: the true openai client against a local server that answers by script, faults included."""

import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from hoptrail.config import OutputMode, Settings
from hoptrail.corpus.extraction import Extraction, ExtractionFailure, ExtractionStop, Extractor
from hoptrail.corpus.extractors.llm import LlmExtractor, extractor_name
from hoptrail.corpus.types import Passage
from hoptrail.errors import BudgetExceededError, ConfigurationError, ModelAccessError, ModelFileError
from hoptrail.models.budget import Budget
from hoptrail.testing.openai_server import Answer, Failure, Garbage, Handler, HangUp, ScriptedOpenAI, in_turn

TOWNS = ("Voss", "Hoorn", "Bergen", "Utrecht", "Delft", "Odda")


def passage(town: str, n: int = 0) -> Passage:
    return Passage(
        id=f"{town}-{n}", document=town, ordinal=n, title=town, text=f"{town} is a town. Jon lives in {town}."
    )


def output_for(body: dict[str, Any]) -> dict[str, Any]:
    town = next(town for town in TOWNS if f"{town} is a town" in body["messages"][-1]["content"])
    entities = [{"name": name, "type": kind, "attributes": []} for name, kind in ((town, "Town"), ("Jon", "person"))]
    return {"entities": entities, "relations": [{"head": "Jon", "label": "lives_in", "tail": town}]}


def refusal(_body: dict[str, Any]) -> Garbage:
    message = {"role": "assistant", "content": None, "refusal": "No."}
    frame = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return Garbage(json.dumps({**frame, "choices": [choice]}).encode())


def cut_off(text: str) -> Garbage:
    frame = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}
    return Garbage(json.dumps({**frame, "choices": [choice]}).encode())


@asynccontextmanager
async def opened(
    handler: Handler, *, api_key: str | None = None, **overrides: Any
) -> AsyncIterator[tuple[ScriptedOpenAI, LlmExtractor]]:
    async with ScriptedOpenAI(handler, api_key=api_key) as server:
        chosen = {"model": "scripted", "api_key": "sk-test-secret", **overrides}
        extractor = LlmExtractor(Settings.load(base_url=server.base_url, **chosen))
        try:
            yield server, extractor
        finally:
            await anyio.to_thread.run_sync(extractor.close)
            await anyio.to_thread.run_sync(extractor.close)


async def extracted(extractor: LlmExtractor, passages: Sequence[Passage]) -> list[Any]:
    return await anyio.to_thread.run_sync(lambda: list(extractor.extract(passages)))


@pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
async def test_a_passage_becomes_entities_and_relations(mode: OutputMode) -> None:
    async with opened(output_for, output_mode=mode) as (server, extractor):
        assert isinstance(extractor, Extractor)
        first, second = await extracted(extractor, [passage("Voss"), passage("Hoorn")])
    assert isinstance(first, Extraction)
    assert first.sentences == ("Voss is a town.", "Jon lives in Voss.")
    assert [(e.name, e.type, e.mentions) for e in first.entities] == [("Voss", "town", (0, 1)), ("Jon", "person", (1,))]
    assert [(r.head, r.label, r.tail) for r in first.relations] == [(("Jon", "person"), "lives in", ("Voss", "town"))]
    assert second.entities[0].name == "Hoorn"
    assert len(server.requests) == 2
    assert extractor.name == "llm/scripted/1"


async def test_calls_go_side_by_side_up_to_the_limit_and_results_keep_their_order() -> None:
    async def slow(body: dict[str, Any]) -> dict[str, Any]:
        await anyio.sleep(0.05)
        return output_for(body)

    passages = [passage(town) for town in TOWNS]
    async with opened(slow, model_concurrency=3) as (server, extractor):
        found = await extracted(extractor, passages)
    assert server.most_in_flight == 3
    assert [each.entities[0].name for each in found] == list(TOWNS)


async def test_equal_passages_are_asked_about_once_and_empty_ones_never() -> None:
    blank = Passage(id="b", document="b", ordinal=0, title="", text="— … !")
    async with opened(output_for) as (server, extractor):
        found = await extracted(extractor, [passage("Voss", 0), blank, passage("Voss", 1)])
        assert await extracted(extractor, []) == []
        assert await extracted(extractor, [passage("Voss", 2)]) == found[:1]
    assert len(server.requests) == 1
    assert found[0] == found[2]
    assert (found[1].entities, found[1].relations) == ((), ())


async def test_overload_is_tried_again() -> None:
    replies = iter([Failure(503), Failure(429, headers={"Retry-After": "0"}), HangUp()])
    async with opened(lambda body: next(replies, output_for(body))) as (server, extractor):
        (found,) = await extracted(extractor, [passage("Voss")])
    assert isinstance(found, Extraction)
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("bad", "says", "calls"),
    [
        (lambda _: "I would rather not.", "no JSON object", 2),
        (lambda _: {"entities": "none"}, "not in form", 2),
        (lambda _: {"entities": [{"title": "Voss"}]}, "not in form", 2),
        (refusal, "declined", 1),
        (lambda _: Failure(400, "content management policy"), "HTTP 400", 1),
        (lambda _: Failure(500), "HTTP 500", 1),
        (lambda _: HangUp(), "cannot be reached", 1),
        (lambda _: Garbage(b"<html>"), "", 1),
        (lambda _: Answer("{}", delay_s=30), "did not answer within", 1),
    ],
)
async def test_a_passage_that_fails_leaves_the_others_alone(bad: Callable[[Any], Any], says: str, calls: int) -> None:
    def reply(body: dict[str, Any]) -> Any:
        return bad(body) if "Hoorn is a town" in str(body["messages"]) else output_for(body)

    async with opened(reply, retry_attempts=1, model_timeout_s=1.0, output_mode="native") as (server, extractor):
        found = await extracted(extractor, [passage(town) for town in TOWNS[:3]])
    assert [type(each) for each in found] == [Extraction, ExtractionFailure, Extraction]
    assert says in found[1].reason
    assert "\n" not in found[1].reason
    assert len(server.requests) == 2 + calls


async def test_output_that_is_not_in_form_is_asked_for_once_more() -> None:
    replies = in_turn("sorry", output_for({"messages": [{"content": "Voss is a town"}]}))
    async with opened(replies, output_mode="native") as (server, extractor):
        (found,) = await extracted(extractor, [passage("Voss")])
    assert [e.name for e in found.entities] == ["Voss", "Jon"]
    assert "holds no JSON object" in server.requests[1].body["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("kept", "names"), [("{}...lives_", ["Voss", "Jon"]), ("{}...Jon", ["Voss"]), ("```json\n{}...relations", ["Voss"])]
)
async def test_what_is_complete_of_a_cut_off_output_counts(kept: str, names: list[str]) -> None:
    whole = json.dumps(output_for({"messages": [{"content": "Voss is a town"}]}))
    before, _, last = kept.partition("{}...")
    text = before + whole[: whole.index(last) + len(last)]
    async with opened(lambda _: cut_off(text), output_mode="native") as (server, extractor):
        (found,) = await extracted(extractor, [passage("Voss")])
    assert [e.name for e in found.entities] == names
    assert found.relations == ()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "says"), [(401, "HOPTRAIL_API_KEY"), (403, "HOPTRAIL_API_KEY"), (404, "HOPTRAIL_MODEL")]
)
async def test_an_endpoint_that_refuses_everything_ends_all(status: int, says: str) -> None:
    def reply(body: dict[str, Any]) -> Any:
        return output_for(body) if "Voss is" in str(body["messages"]) else Failure(status)

    async with opened(reply, model_concurrency=1) as (server, extractor):
        found = await extracted(extractor, [passage(town) for town in TOWNS])
    assert [type(each) for each in found] == [Extraction, *[ExtractionStop] * 5]
    assert isinstance(found[-1].error, ModelAccessError)
    assert says in str(found[-1].error)
    assert "secret" not in str(found[-1].error)
    assert len(server.requests) == 2


async def test_an_endpoint_that_is_down_ends_all_before_every_passage_was_tried() -> None:
    passages = [passage(town, n) for town in TOWNS for n in range(4)]
    passages = [p.model_copy(update={"text": f"{p.text} {p.id}"}) for p in passages]
    async with opened(lambda _: Failure(503), retry_attempts=1, model_concurrency=2) as (server, extractor):
        found = await extracted(extractor, passages)
    kinds = [type(each) for each in found]
    assert kinds == sorted(kinds, key=[ExtractionFailure, ExtractionStop].index)
    assert 8 <= kinds.count(ExtractionFailure) <= 9
    assert "503" in str(found[-1].error)
    assert len(server.requests) <= 9


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_cap_holds_and_is_a_stop_not_a_failure(concurrency: int) -> None:
    """A token is a word, and costs a dollar; a call is sent only if its worst case fits."""
    prices = {"input_price": 1e6, "output_price": 1e6}
    cap = 3_300.0
    async with opened(output_for, max_cost=cap, model_concurrency=concurrency, **prices) as (server, extractor):
        found = await extracted(extractor, [passage(town, n) for town in TOWNS for n in range(3)])
        budget = extractor.budget
        stops = [each for each in found if isinstance(each, ExtractionStop)]
        assert 0 < len(server.requests) < len(TOWNS)
        assert len(stops) == 3 * (len(TOWNS) - len(server.requests))
        assert isinstance(stops[0].error, BudgetExceededError)
        assert "HOPTRAIL_MAX_COST" in str(stops[0].error)
        assert 0 < budget.cost <= cap
        assert (budget.held_tokens, budget.held_cost) == (0, pytest.approx(0))


async def test_concurrency_does_not_change_what_a_cap_allows() -> None:
    """A worst case that does not fit now may fit when the others' are settled."""
    counts = []
    for concurrency in (1, 4):
        async with opened(output_for, max_tokens=3_600, model_concurrency=concurrency) as (server, extractor):
            await extracted(extractor, [passage(town) for town in TOWNS])
            counts.append(len(server.requests))
    assert 1 < counts[0] == counts[1] < len(TOWNS)


async def test_no_call_is_sent_where_none_may_be() -> None:
    async with opened(output_for, max_calls=0) as (server, extractor):
        (found,) = await extracted(extractor, [passage("Voss")])
    assert isinstance(found, ExtractionStop)
    assert server.requests == []


async def test_a_cap_on_money_needs_a_price() -> None:
    async with opened(output_for, max_cost=1.0) as (_, extractor):
        with pytest.raises(ConfigurationError, match="HOPTRAIL_INPUT_PRICE"):
            await extracted(extractor, [passage("Voss")])


async def test_calls_keep_the_pace() -> None:
    passages = [passage(town) for town in TOWNS[:4]]
    async with opened(output_for, requests_per_minute=300) as (server, extractor):
        started = time.monotonic()
        await extracted(extractor, passages)
    assert 0.6 <= time.monotonic() - started < 5
    assert len(server.requests) == 4


async def test_a_schema_guides_the_model_and_is_part_of_the_name() -> None:
    guides = {"entity_types": ("Town",), "relation_labels": ("lives in",)}
    async with opened(output_for, output_mode="native", **guides) as (server, extractor):
        (found,) = await extracted(extractor, [passage("Voss")])
    assert [(e.name, e.type) for e in found.entities] == [("Voss", "Town")], "Jon is no town"
    assert found.relations == ()
    body = server.requests[0].body
    schema = body["response_format"]["json_schema"]["schema"]["properties"]
    assert schema["entities"]["items"]["properties"]["type"]["enum"] == ["Town"]
    assert schema["relations"]["items"]["properties"]["label"]["enum"] == ["lives in"]
    assert "[[types" in body["messages"][-1]["content"]
    assert extractor.name == "llm/scripted/1/types: Town/labels: lives in"


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({}, "llm/qwen2.5-coder-1.5b/1"),
        ({"model": "openai-chat:gpt-4o-mini"}, "llm/gpt-4o-mini/1"),
        ({"model": "openai:gpt-5"}, "llm/gpt-5/1"),
        ({"model": "anthropic:claude"}, "llm/claude/1"),
        ({"model": "vendor/model:free", "base_url": "http://host/v1"}, "llm/vendor/model:free/1"),
        ({"model": "openai-chat:m", "base_url": "http://host/v1"}, "llm/m/1"),
    ],
)
def test_the_name_is_known_before_the_model_is_opened(overrides: dict[str, Any], name: str) -> None:
    assert extractor_name(Settings.load(**overrides)) == name


def test_a_model_that_is_not_here_is_an_error(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTRAIL_CACHE", str(tmp_path))
    extractor = LlmExtractor(Settings.load(), budget=Budget())
    with pytest.raises(ModelFileError, match="hoptrail models pull"):
        list(extractor.extract([passage("Voss")]))
    extractor.close()
