"""Opening a language model by its settings."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.test import TestModel as StubModel

from hoptrail.config import Settings
from hoptrail.errors import ConfigurationError, ModelFileError
from hoptrail.models.base import LanguageModel
from hoptrail.models.language import open_language_model, wrap_model
from hoptrail.testing.openai_server import ScriptedOpenAI

ASK = [ModelRequest.user_text_prompt("Who?")]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().endswith(("_API_KEY", "_PROXY", "_BASE_URL")):
            monkeypatch.delenv(name)


async def opened(**overrides: Any) -> LanguageModel:
    return await open_language_model(Settings.load(**overrides))


async def key_sent(**overrides: Any) -> str:
    async with ScriptedOpenAI(lambda body: "ok") as server:
        model = await opened(base_url=server.base_url, model="m", **overrides)
        await model_request(model.model, ASK)
        await model.aclose()
    return server.requests[0].headers["authorization"]


@pytest.mark.parametrize("name", ["m", "vendor/model:free", "openai-chat:m", "openai:m"])
async def test_an_endpoint_is_asked_for_its_own_name(name: str) -> None:
    async with ScriptedOpenAI(lambda body: "ok") as server:
        model = await opened(base_url=server.base_url, model=name)
        response = await model_request(model.model, ASK)
        await model.aclose()
        await model.aclose()
    assert response.text == "ok"
    assert server.requests[0].body["model"] == model.name == name.removeprefix("openai-chat:").removeprefix("openai:")
    assert (model.guided, model.local) == (False, False)


async def test_the_key_for_openai_is_not_sent_to_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    assert await key_sent() == "Bearer none"
    assert await key_sent(api_key=" own-key\n") == "Bearer own-key"


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "a\x00"])
async def test_a_key_that_no_header_can_hold_is_refused_unshown(key: str) -> None:
    with pytest.raises(ConfigurationError, match="HOPTRAIL_API_KEY") as refused:
        await opened(base_url="http://127.0.0.1:1/v1", model="m", api_key=key)
    assert key not in str(refused.value)


async def test_the_client_of_openai_models_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {
        "openai:gpt-5": OpenAIResponsesModel,
        "openai-responses:gpt-5": OpenAIResponsesModel,
        "openai-chat:gpt-5": OpenAIChatModel,
    }
    for name, kind in kinds.items():
        model = await opened(model=name, api_key="k", retry_attempts=2)
        assert isinstance(model.model, kind)
        assert model.model.client.max_retries == 0
        assert str(model.model.client.base_url) == "https://api.openai.com/v1/"
        assert model.name == "gpt-5"
        await model.aclose()
    monkeypatch.setenv("OPENAI_API_KEY", "from-outside")
    model = await opened(model="openai-chat:gpt-5")
    assert isinstance(model.model, OpenAIChatModel)
    assert model.model.client.api_key == "from-outside"
    await model.aclose()


@pytest.mark.parametrize(
    ("overrides", "hint"),
    [
        ({"model": "openai-chat:gpt-5"}, "HOPTRAIL_API_KEY"),
        ({"model": "openai-chat:gpt-5", "api_key": " "}, "HOPTRAIL_API_KEY"),
        ({"model": "gpt-5"}, "HOPTRAIL_MODEL"),
        ({"model": ""}, "HOPTRAIL_MODEL"),
        ({"model": ":"}, "HOPTRAIL_MODEL"),
        ({"model": "openai:"}, "HOPTRAIL_MODEL"),
        ({"model": "nobody:model"}, "HOPTRAIL_MODEL"),
        ({"model": "anthropic:claude-sonnet-4-5"}, "HOPTRAIL_MODEL"),
        ({"model": "m", "base_url": "localhost:8000"}, "HOPTRAIL_BASE_URL"),
        ({"model": "m", "base_url": "ftp://host/v1"}, "HOPTRAIL_BASE_URL"),
        ({"model": "m", "base_url": "http://"}, "HOPTRAIL_BASE_URL"),
        ({"model": "m", "base_url": "http://host:port/v1"}, "HOPTRAIL_BASE_URL"),
        ({"model": "embedded", "base_url": "http://host/v1"}, "HOPTRAIL_MODEL"),
    ],
)
async def test_a_setting_that_leads_nowhere_is_named(overrides: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint) as refused:
        await opened(**overrides)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("name", ["embedded", "qwen2.5-coder-0.5b", "smollm2-135m"])
async def test_an_embedded_model_has_to_be_pulled_first(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPTRAIL_CACHE", str(tmp_path))
    with pytest.raises(ModelFileError, match="absent: run `hoptrail models pull"):
        await opened(model=name)


async def test_a_model_of_the_callers_own_is_taken_as_it_is() -> None:
    stub = StubModel()
    model = wrap_model(stub, Settings.load(guided=True))
    assert (model.model, model.name, model.guided) == (stub, "test", True)
    await model.aclose()
    assert isinstance((await opened(model="test")).model, StubModel)


@pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
async def test_the_output_mode_can_be_set(mode: Any) -> None:
    assert wrap_model(StubModel(), Settings.load(output_mode=mode)).output_mode == mode
    model = await opened(base_url="http://127.0.0.1:1/v1", model="m", output_mode=mode)
    assert model.output_mode == mode
    await model.aclose()


@pytest.mark.parametrize(
    ("profile", "mode"),
    [
        ({"supports_json_schema_output": True, "default_structured_output_mode": "native"}, "native"),
        ({"supports_json_schema_output": True}, "tool"),
        ({"supports_tools": True}, "tool"),
        ({"supports_tools": False}, "prompted"),
    ],
)
def test_the_output_mode_comes_from_the_profile(profile: Any, mode: str) -> None:
    assert wrap_model(StubModel(profile=profile), Settings.load()).output_mode == mode


async def test_the_environments_proxy_is_used_but_not_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedOpenAI(lambda body: "by proxy") as proxy, ScriptedOpenAI(lambda body: "direct") as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        far = await opened(base_url="http://model.example/v1", model="m")
        near = await opened(base_url=server.base_url, model="m")
        assert (await model_request(far.model, ASK)).text == "by proxy"
        assert (await model_request(near.model, ASK)).text == "direct"
        await far.aclose()
        await near.aclose()
    assert proxy.requests[0].headers["host"] == "model.example"
