"""Slots: where a step's question takes the answer of an earlier step (ConRAG, section 3.3).

A slot is written `<dep:j>`. Binding is one pass over the step's own text: what an answer contains is never scanned
again, so an answer that reads `<dep:2>` stays those characters.
"""

import re
import unicodedata
from collections.abc import Mapping

__all__ = ["bind", "canonical_slots", "inert", "remove_slots", "slot_value", "slots"]

_SLOT = re.compile(r"<dep:(0|[1-9][0-9]{0,5})>")
_LOOSE_SLOT = re.compile(r"<\s*dep\s*:\s*(?:step\s*)?([0-9]{1,6})\s*>", re.IGNORECASE)

MAX_VALUE_CHARS = 200
"""Longest slot value; a slot carries an entity, a date, a number or a short list, never a paragraph."""


def slots(text: str) -> tuple[int, ...]:
    """The step ids that `text` has slots for, each once, in order of appearance."""
    return tuple(dict.fromkeys(int(match[1]) for match in _SLOT.finditer(text)))


def bind(text: str, values: Mapping[int, str]) -> str:
    """`text` with every slot that has a value replaced by it; other slots stay."""
    return _SLOT.sub(lambda match: values.get(int(match[1]), match[0]), text)


def remove_slots(text: str, keep: Mapping[int, int] | None = None) -> str:
    """`text` with its slots renumbered by `keep` and those not in it taken out, white space closed up."""
    keep = keep or {}
    changed = _SLOT.sub(lambda match: f"<dep:{keep[int(match[1])]}>" if int(match[1]) in keep else "", text)
    return " ".join(changed.split())


def canonical_slots(text: str) -> str:
    """`text` with near misses of the slot syntax (`<Dep: 1>`, `<dep:step1>`) in their exact form."""
    return _LOOSE_SLOT.sub(lambda match: f"<dep:{int(match[1])}>", text)


def inert(text: str) -> str:
    """`text` with what looks like a slot made plain text: a user's question has none, whatever it says."""
    return _SLOT.sub(lambda match: f"(dep:{match[1]})", text)


def slot_value(answer: str) -> str:
    """`answer` as one short line: NFKC, no control characters, white space collapsed, at most 200 characters."""
    normal = unicodedata.normalize("NFKC", answer)
    printable = "".join(" " if unicodedata.category(c) in {"Cc", "Zl", "Zp"} else c for c in normal)
    line = " ".join(printable.split()).strip(" .;,")
    if len(line) <= MAX_VALUE_CHARS:
        return line
    return line[:MAX_VALUE_CHARS].rsplit(" ", 1)[0]
