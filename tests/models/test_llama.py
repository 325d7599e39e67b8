"""The embedded model's server, with a real model: the smallest that is here."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import openai
import pytest
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from hoptrail.config import Settings
from hoptrail.errors import ModelFileError
from hoptrail.models.base import LanguageModel
from hoptrail.models.catalog import CATALOG, ModelSpec
from hoptrail.models.embedded import PARALLEL, EmbeddedModel
from hoptrail.models.language import open_language_model
from hoptrail.models.llama import LlamaServer
from hoptrail.models.prefixes import prefix_folder
from hoptrail.models.pull import locate

pytestmark = [pytest.mark.embedded_llm, pytest.mark.timeout(300)]

GONE_S = 0.5
"""What the design promises: nothing is in flight this long after a cancellation, on a machine that is not overloaded."""

LONG = "The river rises in the northern hills and flows past the old mill town to the sea. " * 150


@pytest.fixture(scope="module")
def spec() -> ModelSpec:
    here = [spec for spec in CATALOG if locate(spec)]
    if not here:
        pytest.skip("no embedded model is here: run `hoptrail models pull smollm2-135m`")
    return min(here, key=lambda spec: spec.size)


@pytest.fixture
def states(tmp_path: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for saved beginnings, beside a link to the model's file."""
    path = spec.path
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / path.name).symlink_to(path)
    monkeypatch.setenv("HOPTRAIL_CACHE", str(tmp_path))
    return prefix_folder()


@asynccontextmanager
async def opened(spec: ModelSpec) -> AsyncIterator[tuple[LanguageModel, "Watch"]]:
    model = await open_language_model(Settings.load(model=spec.name, model_threads=1))
    assert isinstance(model.model, EmbeddedModel)
    server = model.model._server
    async with httpx2.AsyncClient(
        base_url=server.base_url.removesuffix("/v1"),
        headers={"Authorization": f"Bearer {server.api_key}"},
        trust_env=False,
    ) as client:
        try:
            yield model, Watch(client, server)
        finally:
            await model.aclose()


class Watch:
    """Looks at the server's slots from outside."""

    def __init__(self, client: httpx2.AsyncClient, server: LlamaServer) -> None:
        self.client, self.server = client, server

    async def busy(self) -> int:
        slots = (await self.client.get("/slots", timeout=30)).json()
        return sum(slot["is_processing"] for slot in slots)

    async def until_busy(self, count: int) -> None:
        with anyio.fail_after(60):
            while await self.busy() != count:  # noqa: ASYNC110 - the server can only be asked
                await anyio.sleep(0.02)

    async def time_until_busy(self, count: int) -> float:
        began = anyio.current_time()
        await self.until_busy(count)
        return anyio.current_time() - began


async def patience(model: LanguageModel) -> float:
    """How long a cancelled request may go on: what is promised, and what this machine now needs for some batches."""
    began = anyio.current_time()
    await model_request(model.model, ask(f"{began} {LONG[:100]}"), model_settings=tokens(2))
    return GONE_S + 3 * (anyio.current_time() - began)


def ask(text: str, instructions: str | None = None) -> list[Any]:
    return [ModelRequest(parts=[UserPromptPart(text)], instructions=instructions)]


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def tokens(count: int) -> ModelSettings:
    return ModelSettings(max_tokens=count, temperature=0.0)


async def test_answers_are_the_same_whole_and_streamed_and_counted(spec: ModelSpec, states: Path) -> None:
    async with opened(spec) as (model, _):
        assert (model.name, model.local, model.guided, model.output_mode) == (spec.name, True, True, "native")
        whole = await model_request(model.model, ask("Count to five."), model_settings=tokens(24))
        pieces: list[str] = []
        async with model_request_stream(model.model, ask("Count to five."), model_settings=tokens(24)) as stream:
            async for _ in stream:
                pieces.append(stream.get().text or "")  # noqa: PERF401 - each state of the answer is wanted
            streamed = stream.get()
    assert whole.text
    assert whole.text == streamed.text
    assert len(set(pieces)) > 3
    assert 0 < whole.usage.output_tokens <= 24
    assert whole.usage == streamed.usage
    assert whole.usage.input_tokens > 3


async def test_output_keeps_to_the_schema(spec: ModelSpec, states: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "maxLength": 40}, "sure": {"type": "boolean"}},
        "required": ["answer", "sure"],
        "additionalProperties": False,
    }
    parameters = ModelRequestParameters(
        output_mode="native",
        output_object=OutputObjectDefinition(name="reply", json_schema=schema, strict=True),
    )
    async with opened(spec) as (model, _):
        response = await model_request(
            model.model,
            ask("What is the capital of France?"),
            model_settings=tokens(120),
            model_request_parameters=parameters,
        )
    reply = json.loads(response.text or "", strict=False)
    assert set(reply) == {"answer", "sure"}
    assert isinstance(reply["sure"], bool)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_cancelled_answer_stops(spec: ModelSpec, states: Path, streamed: bool) -> None:
    async def call(model: LanguageModel) -> None:
        # Hot, so that the small model goes on and on.
        settings = ModelSettings(max_tokens=4000, temperature=1.0)
        if not streamed:
            await model_request(model.model, ask("Write a very long story."), model_settings=settings)
            return
        async with model_request_stream(
            model.model, ask("Write a very long story."), model_settings=settings
        ) as stream:
            async for _ in stream:
                pass

    async with opened(spec) as (model, watch), anyio.create_task_group() as tasks:
        limit = await patience(model)
        tasks.start_soon(call, model)
        await watch.until_busy(1)
        await anyio.sleep(0.3)
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            took = await watch.time_until_busy(0)
    print(f"stopped after {took:.2f} s of {limit:.2f}")
    assert took < limit


async def test_a_request_cancelled_while_its_prompt_is_read_stops(spec: ModelSpec, states: Path) -> None:
    async with opened(spec) as (model, watch), anyio.create_task_group() as tasks:
        limit = await patience(model)
        tasks.start_soon(model_request, model.model, ask(LONG))
        await watch.until_busy(1)
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            took = await watch.time_until_busy(0)
    print(f"stopped after {took:.2f} s of {limit:.2f}")
    assert took < limit


async def test_cancelling_one_leaves_the_others(spec: ModelSpec, states: Path) -> None:
    scopes = [anyio.CancelScope() for _ in range(3)]
    ended: list[ModelResponse] = []

    async def call(model: LanguageModel, scope: anyio.CancelScope, number: int) -> None:
        with scope:
            settings = ModelSettings(max_tokens=150, temperature=0.0)
            text = f"{number}. Write a very long story about the sea."
            ended.append(await model_request(model.model, ask(text), model_settings=settings))

    async with opened(spec) as (model, watch), anyio.create_task_group() as tasks:
        limit = await patience(model)
        for number, scope in enumerate(scopes):
            tasks.start_soon(call, model, scope, number)
        await watch.until_busy(3)
        scopes[1].cancel()
        took = await watch.time_until_busy(2)
    assert took < 3 * limit  # the others take their share of each batch
    assert len(ended) == 2


async def test_more_requests_than_slots_all_end(spec: ModelSpec, states: Path) -> None:
    answers: list[str] = []

    async def call(model: LanguageModel, number: int) -> None:
        response = await model_request(model.model, ask(f"Say {number}."), model_settings=tokens(5))
        answers.append(response.text or "")

    async with opened(spec) as (model, _), anyio.create_task_group() as tasks:
        for number in range(2 * PARALLEL):
            tasks.start_soon(call, model, number)
    assert len(answers) == 2 * PARALLEL
    assert all(answers)


async def test_a_beginning_is_read_once_and_kept_over_restarts(spec: ModelSpec, states: Path) -> None:
    instructions = "Answer in one word, as in the examples. " * 30
    async with opened(spec) as (model, _):
        first = await model_request(model.model, ask("Name a colour.", instructions), model_settings=tokens(5))
    [saved] = files_in(states)
    async with opened(spec) as (model, _):
        again = await model_request(model.model, ask("Name a colour.", instructions), model_settings=tokens(5))
    assert again.text == first.text
    assert again.usage.cache_read_tokens > 100
    assert files_in(states) == [saved]
    assert b"Name a colour" not in saved.read_bytes()


async def test_a_damaged_beginning_costs_only_time(spec: ModelSpec, states: Path) -> None:
    instructions = "Answer in one word, as in the examples. " * 30
    async with opened(spec) as (model, _):
        first = await model_request(model.model, ask("Name a colour.", instructions), model_settings=tokens(5))
    [saved] = files_in(states)
    saved.write_bytes(b"?" * 1000)
    async with opened(spec) as (model, _):
        again = await model_request(model.model, ask("Name a colour.", instructions), model_settings=tokens(5))
    assert again.text == first.text
    assert saved.stat().st_size > 1000


async def test_a_server_that_died_is_started_again(spec: ModelSpec, states: Path) -> None:
    async with opened(spec) as (model, watch):
        assert watch.server.pid is not None
        os.kill(watch.server.pid, signal.SIGKILL)
        response = await model_request(model.model, ask("Say hello."), model_settings=tokens(5))
        assert response.text
        assert watch.server.running


async def test_a_server_that_dies_during_an_answer_is_started_again(spec: ModelSpec, states: Path) -> None:
    responses: list[ModelResponse] = []

    async def call(model: LanguageModel) -> None:
        settings = ModelSettings(max_tokens=60, temperature=0.0)
        responses.append(await model_request(model.model, ask(LONG[:1500]), model_settings=settings))

    async with opened(spec) as (model, watch), anyio.create_task_group() as tasks:
        tasks.start_soon(call, model)
        await watch.until_busy(1)
        assert watch.server.pid is not None
        os.kill(watch.server.pid, signal.SIGKILL)
    assert responses[0].text


async def test_only_the_holder_of_the_key_is_served(spec: ModelSpec, states: Path) -> None:
    async with opened(spec) as (_, watch), httpx2.AsyncClient(trust_env=False) as stranger:
        url = watch.server.base_url
        assert url.startswith("http://127.0.0.1:")
        for path in ("/slots", "/props", "/v1/models/x"):
            assert (await stranger.get(url.removesuffix("/v1") + path)).status_code in {401, 404}
        async with openai.AsyncOpenAI(base_url=url, api_key="wrong", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])


async def test_each_slot_has_the_promised_window(spec: ModelSpec, states: Path) -> None:
    async with opened(spec) as (_, watch):
        slots = (await watch.client.get("/slots")).json()
    assert [slot["n_ctx"] >= 8192 for slot in slots] == [True] * PARALLEL


async def test_closing_ends_the_child_and_may_be_repeated(spec: ModelSpec, states: Path) -> None:
    async with opened(spec) as (model, watch):
        pid = watch.server.pid
        began = anyio.current_time()
        await model.aclose()
        assert anyio.current_time() - began < 3
        await model.aclose()
        assert pid is not None
        assert not is_running(pid)
        assert not watch.server.running


@pytest.mark.parametrize("content", [b"no model at all" * 100, b"GGUF" + bytes(1000)])
async def test_a_file_that_is_no_model_is_an_error_of_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    server = LlamaServer(path, tmp_path / "states", threads=1)
    with pytest.raises(ModelFileError, match="hoptrail models verify") as refused:
        await server.start()
    assert str(refused.value).isprintable()
    assert not server.running
    await server.aclose()


async def test_a_start_that_is_cancelled_leaves_nothing(spec: ModelSpec, tmp_path: Path) -> None:
    server = LlamaServer(spec.path, tmp_path / "states", threads=1)
    with anyio.move_on_after(0.3) as watch:
        await server.start()
    assert watch.cancelled_caught
    assert not server.running


PARENT = """
import asyncio, sys
from pathlib import Path
from hoptrail.models.llama import LlamaServer

async def main():
    server = LlamaServer(Path(sys.argv[1]), Path(sys.argv[2]), threads=1)
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


@pytest.fixture
def parent(spec: ModelSpec, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PARENT, str(spec.path), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for the process in /proc")
async def test_the_child_does_not_outlive_a_killed_parent(parent: subprocess.Popen[str]) -> None:
    assert parent.stdout is not None
    child = int(await anyio.to_thread.run_sync(parent.stdout.readline))
    assert is_running(child)
    parent.kill()
    with anyio.fail_after(5):
        while is_running(child):  # noqa: ASYNC110 - another process's end can only be looked for
            await anyio.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
