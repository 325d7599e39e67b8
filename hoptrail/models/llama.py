"""llama.cpp's OpenAI-compatible server as a supervised child process."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

import anyio
import anyio.to_thread

from hoptrail.errors import ModelError, ModelFileError, ModelUnavailableError
from hoptrail.models.llama_child import KEY_VARIABLE

__all__ = ["LlamaServer"]

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 3.0
DYING_S = 0.5
_POLL_S = 0.05
_REASON_CHARS = 200


def _cores() -> int:
    """The cores this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LlamaServer:
    """One model served on a loopback port.

    `context` is the window of each of `parallel` slots, in tokens; `threads` 0 means all cores; `states` is the folder for
    the slots' saved states.
    """

    def __init__(self, path: Path, states: Path, *, threads: int = 0, parallel: int = 4, context: int = 8192) -> None:
        self._states = states
        self._options = {
            "--model": str(path),
            "--context": str(context),
            "--parallel": str(parallel),
            "--threads": str(threads or _cores()),
            "--states": str(states),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._turn = anyio.Lock()
        self.base_url = ""
        self.api_key = secrets.token_urlsafe(24)

    @property
    def running(self) -> bool:
        """Whether the child is alive."""
        return self._process is not None and self._process.poll() is None

    async def died(self) -> bool:
        """Whether the child is dead or dying: its connections break a moment before its process is gone."""
        with anyio.move_on_after(DYING_S):
            while self.running:  # noqa: ASYNC110 - a process can only be polled
                await anyio.sleep(_POLL_S)
        return not self.running

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._process.pid if self._process else None

    async def start(self) -> str:
        """Start the child, unless it runs, and return its base URL.

        Raises:
            ModelFileError: The file is no model.
            ModelUnavailableError: It ended or was not ready in time; the message says what its log does.
        """
        async with self._turn:
            if not self.running:
                self._discard()
                self._spawn()
                try:
                    self.base_url = await self._address()
                except BaseException:
                    self._discard()
                    raise
            return self.base_url

    async def aclose(self) -> None:
        """Stop the child; may be called twice."""
        process = self._process
        if process is not None:
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
            with anyio.move_on_after(STOP_TIMEOUT_S, shield=True):
                while process.poll() is None:  # noqa: ASYNC110 - a process has no event to wait for
                    await anyio.sleep(_POLL_S)
        self._discard()

    def _spawn(self) -> None:
        self._states.mkdir(parents=True, exist_ok=True)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        command = [sys.executable, "-m", "hoptrail.models.llama_child"]
        for name, value in self._options.items():
            command += [name, value]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, KEY_VARIABLE: self.api_key},
        )

    async def _address(self) -> str:
        process = self._process
        assert process is not None and process.stdout is not None  # noqa: S101, PT018 - just spawned
        line = b""
        with anyio.move_on_after(START_TIMEOUT_S):
            line = await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
        try:
            address = json.loads(line)["address"]
        except (ValueError, KeyError, TypeError):
            raise self._refusal() from None
        return f"{address}/v1"

    def _refusal(self) -> ModelError:
        lines = self._logged()
        why = next(
            (line.partition(" E ")[2] for line in lines if " E " in line), lines[-1] if lines else "it left no log"
        )
        why = " ".join(why.split())[:_REASON_CHARS]
        if any("failed to load model" in line for line in lines):
            return ModelFileError(f"The embedded model cannot be loaded ({why}): run `hoptrail models verify`.")
        return ModelUnavailableError(f"The embedded model's server did not start: {why}")

    def _logged(self) -> list[str]:
        if self._log is None:
            return []
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace").splitlines()

    def _discard(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None
