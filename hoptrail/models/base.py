"""What the rest of hoptrail knows of models."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic_ai.models import Model

__all__ = ["Embedder", "LanguageModel"]


class Embedder(Protocol):
    """A sentence encoder. Synchronous and CPU-bound: call it in a worker thread."""

    @property
    def name(self) -> str:
        """Identity of the weights, stored in a corpus's manifest."""
        ...

    @property
    def dimension(self) -> int:
        """Length of one vector."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """L2-normalised vectors of documents, shape `(len(texts), dimension)`."""
        ...

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """L2-normalised vector of a query, shape `(dimension,)`."""
        ...


@dataclass(frozen=True)
class LanguageModel:
    """An opened language model, ready to be called.

    `output_mode` is how typed outputs are asked for; `guided` says that the model is small and wants examples,
    `local` that it runs on this machine and costs no money.
    `aclose` releases what was opened for it (an HTTP client, a server process) and may be called twice.
    """

    model: Model
    name: str
    output_mode: Literal["tool", "native", "prompted"]
    guided: bool
    aclose: Callable[[], Awaitable[None]]
    local: bool = False
