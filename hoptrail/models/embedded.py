"""An embedded model as a pydantic-ai model: its server supervised, its prompts' beginnings read once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from hoptrail.models.catalog import ModelSpec
from hoptrail.models.llama import LlamaServer
from hoptrail.models.prefixes import PrefixSlots, prefix_key

__all__ = ["PARALLEL", "EmbeddedModel"]

PARALLEL = 4
"""Slots of the server: requests that are read and written side by side."""


class EmbeddedModel(WrapperModel):
    """A chat model whose server is started again when it has died between two calls."""

    def __init__(self, wrapped: OpenAIChatModel, spec: ModelSpec, server: LlamaServer, slots: PrefixSlots) -> None:
        super().__init__(wrapped)
        self._chat = wrapped
        self._spec = spec
        self._server = server
        self._slots = slots

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """As the wrapped model; when the server dies meanwhile, once more on a new one."""
        try:
            async with self._slot(messages) as slot:
                return await self._read(messages, _in_slot(model_settings, slot), model_request_parameters)
        except Exception:
            if not await self._server.died():
                raise
        async with self._slot(messages) as slot:
            return await self._read(messages, _in_slot(model_settings, slot), model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncIterator[StreamedResponse]:
        """As the wrapped model."""
        async with (
            self._slot(messages) as slot,
            super().request_stream(
                messages, _in_slot(model_settings, slot), model_request_parameters, run_context
            ) as stream,
        ):
            yield stream

    async def _read(
        self, messages: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
    ) -> ModelResponse:
        """A whole response, read as a stream.

        The server looks once a second whether the reader of a whole answer has left, and never while other slots are busy;
        of a stream it learns that with the next piece.
        """
        async with self._chat.request_stream(messages, settings, parameters) as stream:
            async for _ in stream:
                pass
            return stream.get()

    @asynccontextmanager
    async def _slot(self, messages: list[ModelMessage]) -> AsyncIterator[int]:
        if not self._server.running:
            self._slots.forget()
            self._chat.client.base_url = await self._server.start()
        root = self._server.base_url.removesuffix("/v1")

        async def read(slot: int) -> ModelResponse:
            last = messages[-1]
            instructions = last.instructions if isinstance(last, ModelRequest) else None
            empty = ModelRequest(parts=[UserPromptPart("")], instructions=instructions)
            one_token = _in_slot(ModelSettings(max_tokens=1, temperature=0.0), slot)
            return await self._read([*messages[:-1], empty], one_token, ModelRequestParameters())

        async with self._slots.take(root, prefix_key(self._spec, messages), read) as slot:
            yield slot


def _in_slot(settings: ModelSettings | None, slot: int) -> ModelSettings:
    chosen = OpenAIChatModelSettings(**(settings or {}))  # type: ignore[typeddict-item]
    # Progress is sent with every batch of the prompt, so a reader who leaves is noticed before the first token too.
    chosen["extra_body"] = {"id_slot": slot, "cache_prompt": True, "return_progress": True}
    return chosen
