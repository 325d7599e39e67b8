"""What extraction by a language model will cost, before any of it is done."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from hoptrail.config import OutputMode, Settings
from hoptrail.corpus.extractors.grounding import Schema
from hoptrail.corpus.types import Passage
from hoptrail.models.budget import Estimate
from hoptrail.models.prices import Prices
from hoptrail.models.requests import estimate_tokens, messages_of
from hoptrail.prompts.extraction import render_extraction

__all__ = ["CostMeter", "passage_key", "worth_asking"]

_CHARS_PER_TOKEN = 4
"""Of English text and of the prompt; `estimate_tokens` alone is an upper estimate."""

_OUTPUT_BASE, _OUTPUT_PER_TOKEN = 60, 3
"""Tokens of output: two short passages of 35 and 42 tokens gave 216 and 145 with the embedded model."""


@dataclass(frozen=True)
class CostMeter:
    """Estimates for one model, asked in `mode`, with examples if `guided`; `prices` are `None` where none are known."""

    settings: Settings
    schema: Schema
    mode: OutputMode
    guided: bool
    prices: Prices | None

    def of(self, passages: Iterable[Passage]) -> Estimate:
        """The estimate for all of `passages`; equal ones are asked about once, empty ones never."""
        seen: set[bytes] = set()
        asked = written = most_asked = 0
        for passage in passages:
            key = passage_key(passage)
            if key in seen or not worth_asking(passage):
                continue
            seen.add(key)
            likely, most = self._input(passage)
            asked, most_asked = asked + likely, most_asked + most
            written += self._output(passage)
        most_written = len(seen) * self.settings.max_output_tokens
        return Estimate(
            calls=len(seen),
            input_tokens=asked,
            output_tokens=written,
            most_tokens=most_asked + most_written,
            cost=self.prices.cost(asked, written) if self.prices else None,
            most_cost=self.prices.cost(most_asked, most_written) if self.prices else None,
        )

    def _input(self, passage: Passage) -> tuple[int, int]:
        types, labels = self.schema.types, self.schema.labels
        rendered = render_extraction(passage.title, passage.text, types=types, labels=labels, guided=self.guided)
        messages = messages_of(rendered, self.mode)
        likely = estimate_tokens(messages, rendered, ascii_per_token=_CHARS_PER_TOKEN)
        return likely, estimate_tokens(messages, rendered)

    def _output(self, passage: Passage) -> int:
        likely = _OUTPUT_BASE + _OUTPUT_PER_TOKEN * len(passage.text) // _CHARS_PER_TOKEN
        return min(likely, self.settings.max_output_tokens)


def passage_key(passage: Passage) -> bytes:
    """What a model is told of the passage, as a digest."""
    return hashlib.sha256(f"{passage.title}\0{passage.text}".encode("utf-8", "surrogatepass")).digest()


def worth_asking(passage: Passage) -> bool:
    """Whether there is any letter or digit to read."""
    return any(c.isalnum() for c in passage.text)
