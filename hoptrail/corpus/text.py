"""Cleaning of text that comes from outside."""

import re

__all__ = ["clean"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` without what no store or tokenizer takes: NUL becomes a space, a lone surrogate the replacement character."""
    return _SURROGATE.sub("\ufffd", text.replace("\x00", " ")).strip()
