"""Prompt beginnings that an embedded model has read before, kept on disk.

Every request of one prompt begins with the same instructions and examples, some hundred tokens that a small machine reads
for many seconds. The server can write a slot's state to a file and read it back in milliseconds, so each beginning is read
once per machine. A file holds only the prompt's own text, never a question or a document: the state is saved before those
are sent.
"""

import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import anyio
import httpx2
from pydantic_ai.messages import ModelMessage, ModelRequest, TextPart, UserPromptPart

from hoptrail.models.catalog import ModelSpec, cache_folder

__all__ = ["PrefixSlots", "prefix_folder", "prefix_key"]

_KEPT_FILES = 16
_MIN_CHARS = 400
_DRAFT_S = 3600.0

ReadPrefix = Callable[[int], Awaitable[object]]
"""Has the server read the beginning alone into the slot of this number."""


def prefix_folder() -> Path:
    """Where the states are kept."""
    return cache_folder() / "prefixes"


def prefix_key(spec: ModelSpec, messages: list[ModelMessage]) -> str | None:
    """The name of what comes before the last user text of `messages`, or `None` when it is too short to be kept."""
    texts = [f"{spec.sha256} {version('xllamacpp')}"]
    for message in messages[:-1]:
        texts += [
            p.content for p in message.parts if isinstance(p, UserPromptPart | TextPart) and isinstance(p.content, str)
        ]
    last = messages[-1]
    texts.append((last.instructions or "") if isinstance(last, ModelRequest) else "")
    if sum(map(len, texts)) < _MIN_CHARS:
        return None
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:32]


@dataclass
class _Slot:
    number: int
    key: str | None = None
    busy: bool = False
    used: int = 0


class PrefixSlots:
    """The slots of one server: which beginning each holds, and who is using it."""

    def __init__(self, count: int, client: httpx2.AsyncClient) -> None:
        self._slots = [_Slot(number) for number in range(count)]
        self._free = anyio.Semaphore(count)
        self._client = client
        self._clock = 0

    def forget(self) -> None:
        """Note that the server was started anew and its slots are empty."""
        for slot in self._slots:
            slot.key = None

    @asynccontextmanager
    async def take(self, root: str, key: str | None, read: ReadPrefix) -> AsyncIterator[int]:
        """A slot for one request, holding the beginning `key` if that can be had; `root` is the server's address."""
        async with self._free:
            slot = self._choose(key)
            slot.busy = True
            try:
                if key is not None and slot.key != key:
                    slot.key = None
                    await self._fill(root, slot.number, key, read)
                    slot.key = key
                yield slot.number
            finally:
                slot.busy = False

    def _choose(self, key: str | None) -> _Slot:
        """The free slot that holds `key`, else the one unused for longest."""
        self._clock += 1
        free = [slot for slot in self._slots if not slot.busy]
        chosen = min(free, key=lambda slot: (key is None or slot.key != key, slot.used))
        chosen.used = self._clock
        return chosen

    async def _fill(self, root: str, number: int, key: str, read: ReadPrefix) -> None:
        file = prefix_folder() / f"{key}.kv"
        if file.is_file():
            if await self._act(root, number, "restore", file.name):
                os.utime(file)
                return
            file.unlink(missing_ok=True)
        await read(number)
        draft = f"{key}.{os.getpid()}.{number}.draft"
        if await self._act(root, number, "save", draft):
            (prefix_folder() / draft).replace(file)
            _tidy()

    async def _act(self, root: str, number: int, action: str, filename: str) -> bool:
        """Save or restore; a failure costs only time."""
        try:
            answer = await self._client.post(f"{root}/slots/{number}?action={action}", json={"filename": filename})
        except httpx2.HTTPError:
            return False
        return answer.is_success


def _tidy() -> None:
    files = sorted(prefix_folder().glob("*.kv"), key=lambda file: file.stat().st_mtime, reverse=True)
    abandoned = [file for file in prefix_folder().glob("*.draft") if file.stat().st_mtime < time.time() - _DRAFT_S]
    for file in files[_KEPT_FILES:] + abandoned:
        file.unlink(missing_ok=True)
