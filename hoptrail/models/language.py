"""Opening a language model: an embedded one, any OpenAI-compatible endpoint, or any pydantic-ai model string."""

import os
from typing import Literal

import httpx2
import openai
from pydantic import SecretStr
from pydantic_ai import exceptions as ai
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from hoptrail.config import Settings
from hoptrail.errors import ConfigurationError, ModelFileError
from hoptrail.models.base import LanguageModel
from hoptrail.models.catalog import ModelSpec, find_spec
from hoptrail.models.embedded import PARALLEL, EmbeddedModel
from hoptrail.models.llama import LlamaServer
from hoptrail.models.prefixes import PrefixSlots, prefix_folder
from hoptrail.models.pull import file_state, locate
from hoptrail.models.retries import retrying_transport
from hoptrail.models.transport import EnvironmentTransport

__all__ = ["embedded_ways", "is_embedded", "model_name", "open_language_model", "wrap_model"]

_OPENAI = {"openai": "responses", "openai-responses": "responses", "openai-chat": "chat"}
_CONNECT_S = 10.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


async def open_language_model(settings: Settings) -> LanguageModel:
    """The language model that the settings name.

    Raises:
        ModelFileError: An embedded model's file has not been pulled.
        ConfigurationError: The name is no model string, or its key is missing.
        ModelUnavailableError: The embedded model's server does not start.
    """
    if settings.base_url is not None:
        return _endpoint(settings, settings.base_url)
    spec = find_spec(settings.model)
    if spec is not None:
        return await _embedded(spec, settings)
    provider, _, name = settings.model.partition(":")
    if provider in _OPENAI and name:
        return _openai(_OPENAI[provider], name, settings)
    return _inferred(settings)


def is_embedded(settings: Settings) -> bool:
    """Whether the settings name an embedded model."""
    return settings.base_url is None and find_spec(settings.model) is not None


def model_name(settings: Settings) -> str:
    """The name of the model that `open_language_model` opens, without opening it."""
    spec = find_spec(settings.model)
    if spec is not None and is_embedded(settings):
        return spec.name
    provider, _, rest = settings.model.partition(":")
    own_name = settings.base_url is not None and provider not in _OPENAI
    return settings.model if own_name else rest or settings.model


def wrap_model(model: Model, settings: Settings) -> LanguageModel:
    """A pydantic-ai model that the caller made and will close."""
    return LanguageModel(model, model.model_name, _mode(model, settings), bool(settings.guided), _nothing)


async def _embedded(spec: ModelSpec, settings: Settings) -> LanguageModel:
    path = locate(spec)
    if path is None:
        raise ModelFileError(
            f"The embedded model {spec.name} is {file_state(spec)}: run `hoptrail models pull {spec.name}` "
            f"({spec.size / 1e9:.1f} GB, once), or set HOPTRAIL_MODEL to another model."
        )
    server = LlamaServer(path, prefix_folder(), threads=settings.model_threads, parallel=PARALLEL)
    await server.start()
    client = _client(settings, server.base_url, server.api_key)
    http = httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {server.api_key}"}, timeout=settings.model_timeout_s, trust_env=False
    )
    model = EmbeddedModel(_chat(spec.name, client), spec, server, PrefixSlots(PARALLEL, http))

    async def close() -> None:
        await client.close()
        await http.aclose()
        await server.aclose()

    return LanguageModel(model, spec.name, *embedded_ways(settings), close, local=True)


def embedded_ways(settings: Settings) -> tuple[Literal["tool", "native", "prompted"], bool]:
    """How an embedded model is asked: its output mode, and whether examples are shown."""
    mode = "native" if settings.output_mode == "auto" else settings.output_mode
    return mode, True if settings.guided is None else settings.guided


def _endpoint(settings: Settings, base_url: str) -> LanguageModel:
    """A model behind an OpenAI-compatible endpoint; the name is the endpoint's own."""
    if not _is_url(base_url):
        raise ConfigurationError(
            f"HOPTRAIL_BASE_URL {base_url[:60]!r} is no address of an endpoint: give one like `http://localhost:8000/v1`."
        )
    provider, _, rest = settings.model.partition(":")
    name = rest if provider in _OPENAI and rest else settings.model
    if find_spec(name) is not None:
        raise ConfigurationError(
            "HOPTRAIL_BASE_URL is set, so HOPTRAIL_MODEL must be the name of a model at that endpoint."
        )
    # A key in OPENAI_API_KEY is OpenAI's; only HOPTRAIL_API_KEY is meant for this endpoint.
    client = _client(settings, base_url, _key(settings.api_key) or "none")
    return _of_client(_chat(name, client), client, settings)


def _openai(kind: str, name: str, settings: Settings) -> LanguageModel:
    key = _key(settings.api_key or SecretStr(os.environ.get("OPENAI_API_KEY", "")))
    if not key:
        raise ConfigurationError(f"Model {settings.model!r} needs a key: set HOPTRAIL_API_KEY or OPENAI_API_KEY.")
    client = _client(settings, None, key)
    if kind == "chat":
        return _of_client(_chat(name, client), client, settings)
    model = OpenAIResponsesModel(name, provider=OpenAIProvider(openai_client=client))
    return _of_client(model, client, settings)


def _inferred(settings: Settings) -> LanguageModel:
    try:
        model = infer_model(settings.model)
    except (ai.UserError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigurationError(
            f"HOPTRAIL_MODEL {settings.model!r} cannot be used ({reason}): give `embedded`, a pydantic-ai model string "
            "such as `openai-chat:gpt-4o-mini`, or set HOPTRAIL_BASE_URL as well."
        ) from None
    return wrap_model(model, settings)


def _of_client(model: Model, client: openai.AsyncOpenAI, settings: Settings) -> LanguageModel:
    return LanguageModel(model, model.model_name, _mode(model, settings), bool(settings.guided), client.close)


def _chat(name: str, client: openai.AsyncOpenAI) -> OpenAIChatModel:
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))


def _key(given: SecretStr | None) -> str:
    """The key, or nothing; one that no header can hold would end up in an error message."""
    key = given.get_secret_value().strip() if given else ""
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError("The model's key contains characters that no key has: set HOPTRAIL_API_KEY anew.")
    return key


def _is_url(text: str) -> bool:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        return False
    return url.scheme in {"http", "https"} and bool(url.host)


def _client(settings: Settings, base_url: str | None, key: str) -> openai.AsyncOpenAI:
    """A client whose retries are all on the transport; the SDK's own would multiply them."""
    timeout = httpx2.Timeout(settings.model_timeout_s, connect=_CONNECT_S)
    on_this_machine = base_url is not None and httpx2.URL(base_url).host in _LOOPBACK
    transport = retrying_transport(settings.retry_attempts, None if on_this_machine else EnvironmentTransport())
    http = httpx2.AsyncClient(transport=transport, timeout=timeout, follow_redirects=True)
    return openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, http_client=http, timeout=timeout)


def _mode(model: Model, settings: Settings) -> Literal["tool", "native", "prompted"]:
    if settings.output_mode != "auto":
        return settings.output_mode
    profile = model.profile
    if profile.get("supports_json_schema_output", False) and profile.get("default_structured_output_mode") == "native":
        return "native"
    return "tool" if profile.get("supports_tools", True) else "prompted"


async def _nothing() -> None:
    pass
