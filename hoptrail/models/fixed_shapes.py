"""The embedded encoder's arithmetic: batches of fixed shapes, so that a text's vector depends on nothing but the text.

Matrix products add up in an order that depends on the shapes given, so a text's last digits would otherwise depend on which
texts it was encoded together with, and a corpus built in other portions would rank near-ties differently.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["FixedShapes", "has_fast_bfloat16"]

_ROWS = 16
_STEP = 16
"""Lengths are padded to multiples of this many tokens."""


class FixedShapes:
    """Mean-pooled, L2-normalised vectors by a BERT encoder; not safe to call from several threads at once.

    A text of more than `head` tokens is read twice, its first `head` tokens and the whole window, and has the mean of both
    as its vector: see `EmbeddedEncoder`. With `bfloat16` the matrices are of that type and the pooling is not.
    """

    def __init__(self, model: "SentenceTransformer", *, head: int, bfloat16: bool) -> None:
        import torch  # noqa: PLC0415 - takes a second

        transformer: Any = model[0]
        self._tokenizer: Any = model.tokenizer
        self._window = int(model.max_seq_length or 0)
        self._head = head
        self._model = transformer.auto_model.eval().to(torch.bfloat16 if bfloat16 else torch.float32)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of documents, shape `(len(texts), dimension)`; they do not depend on each other."""
        return self._encode(texts, _ROWS)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """The vector of one text by itself, shape `(dimension,)`; its last digits may differ from `encode`'s."""
        return np.asarray(self._encode([text], 1)[0], dtype=np.float32)

    def _encode(self, texts: Sequence[str], rows: int) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self._model.config.hidden_size), dtype=np.float32)
        tokens = self._tokenizer(list(texts), truncation=True, max_length=self._window, verbose=False)["input_ids"]
        long = [i for i, ids in enumerate(tokens) if len(ids) > self._head]
        heads = [[*tokens[i][: self._head - 1], tokens[i][-1]] for i in long]
        vectors = self._vectors([*tokens, *heads], rows)
        whole = vectors[: len(texts)]
        if long:
            both = whole[long] + vectors[len(texts) :]
            whole[long] = both / np.linalg.norm(both, axis=1, keepdims=True)
        return whole

    def _vectors(self, tokens: list[list[int]], rows: int) -> NDArray[np.float32]:
        of_length: dict[int, list[int]] = defaultdict(list)
        for i, ids in enumerate(tokens):
            of_length[-(-len(ids) // _STEP) * _STEP].append(i)
        vectors = np.empty((len(tokens), self._model.config.hidden_size), dtype=np.float32)
        for length, places in of_length.items():
            for start in range(0, len(places), rows):
                some = places[start : start + rows]
                vectors[some] = self._forward([tokens[i] for i in some], length, rows)[: len(some)]
        return vectors

    def _forward(self, tokens: list[list[int]], length: int, rows: int) -> NDArray[np.float32]:
        import torch  # noqa: PLC0415

        ids = np.full((rows, length), self._tokenizer.pad_token_id, dtype=np.int64)
        mask = np.zeros((rows, length), dtype=np.int64)
        # Rows that are not needed hold the first text again: one without any token would be divided by nothing.
        for row in range(rows):
            given = tokens[row] if row < len(tokens) else tokens[0]
            ids[row, : len(given)] = given
            mask[row, : len(given)] = 1
        with torch.inference_mode():
            attention = torch.from_numpy(mask)
            states = self._model(input_ids=torch.from_numpy(ids), attention_mask=attention).last_hidden_state.float()
            weights = attention.unsqueeze(-1).float()
            means = (states * weights).sum(1) / weights.sum(1)
            return np.asarray(torch.nn.functional.normalize(means, dim=1).numpy(), dtype=np.float32)


def has_fast_bfloat16() -> bool:
    """Whether this processor multiplies matrices of bfloat16 by instructions of its own (AMX); others are slower so."""
    import torch  # noqa: PLC0415

    told: Any = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(told.get("amx_bf16"))
