"""Which names of a corpus a query holds, read off its words: no model, any language."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

__all__ = ["names_in"]

_WORDS = re.compile(r"[\w&][\w.'\u2019&/-]*|[,:!?()]")
_POSSESSIVE = re.compile(r"['\u2019]s?\Z")
_BEFORE_MARK = re.compile(r" (?=[,:!?)])")
_LONGEST = 10

Span = tuple[int, int]
Known = TypeVar("Known")


def names_in(query: str, find: Callable[[list[str]], dict[str, Known]]) -> list[Known]:
    """What `find` knows of the names that `query` holds, longest first; none overlaps another.

    `find` is given every run of words that may be a name and returns those that are one with what they stand for. A single
    word is tried only if it has a capital or a digit and does not begin the query.
    """
    words = _WORDS.findall(query)
    candidates = {span: list(dict.fromkeys(_forms(words, span))) for span in _spans(words)}
    known = find(sorted({form for forms in candidates.values() for form in forms}))
    taken = [False] * len(words)
    found: list[Known] = []
    for (start, end), forms in candidates.items():
        name = next((form for form in forms if form in known), None)
        if name is not None and not any(taken[start:end]):
            taken[start:end] = [True] * (end - start)
            found.append(known[name])
    return found


def _spans(words: Sequence[str]) -> Iterator[Span]:
    """Runs of words, longest first."""
    for length in range(min(_LONGEST, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            if length > 1 or (start > 0 and any(c.isupper() or c.isdigit() for c in words[start])):
                yield start, start + length


def _forms(words: Sequence[str], span: Span) -> Iterator[str]:
    text = _BEFORE_MARK.sub("", " ".join(words[slice(*span)]).replace("( ", "("))
    yield text
    yield _POSSESSIVE.sub("", text)
