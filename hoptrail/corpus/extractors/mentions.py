"""Which stretches of a parsed passage name something: spaCy's entities, capitalised names and quoted titles."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoptrail.corpus.graph import normalised_name

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

__all__ = ["Mention", "find_mentions", "without_parenthesis"]

NAME = "NAME"
"""The type of a capitalised name that spaCy's entity recogniser passed over: titles of works above all."""

DATE = "DATE"
_LEFT_OUT = frozenset({"CARDINAL", "ORDINAL", "QUANTITY", "PERCENT", "MONEY", "TIME"})
_EDGE = frozenset({"the", "a", "an", "'s", "and", "of", "his", "her", "its", "their"})
_JOINING = frozenset(
    "of the de la von van and & for in di du del le 's to on a - \u2013 y der den al el ' : d' da do dos".split()  # noqa: SIM905
)
_MOST_JOINING = 2
_NUMBER_CHARS = 4
_YEAR = re.compile(r"\d{3}")
_QUOTED = re.compile('["\u201c]([^"\u201c\u201d]{2,60})["\u201d]')
_PARENTHESIS = re.compile(r"\s*\([^()]*\)\s*\Z")


@dataclass(frozen=True)
class Mention:
    """Tokens `start` to `end` (exclusive) of a document name `name`."""

    start: int
    end: int
    name: str
    type: str


def find_mentions(doc: "Doc", title: str) -> list[Mention]:
    """The mentions in `doc`, in order; one may lie inside another, as a place in the name of a school.

    Where the text has `title` word for word, that is one too.
    """
    found: dict[tuple[int, int], Mention] = {}
    recognised = list(doc.ents)
    for span in recognised:
        if span.label_ not in _LEFT_OUT and (span.label_ != DATE or _YEAR.search(span.text)):
            _add(found, doc, span.start, span.end, span.label_)
    for start, end in [*_names(doc), *((span.start, span.end) for span in _quoted(doc))]:
        inside = [span for span in recognised if span.start < end and start < span.end]
        joined = len(inside) > 1 and any(token.lower_ == "and" for token in doc[start:end])
        if not joined and not any(span.label_ == DATE for span in inside):
            _add(found, doc, start, end, NAME)
    for match in re.finditer(rf"\b{re.escape(title)}\b", doc.text) if title else ():
        span = doc.char_span(*match.span(), alignment_mode="expand")
        if span is not None:
            _add(found, doc, span.start, span.end, NAME)
    return sorted(found.values(), key=lambda mention: (mention.start, mention.end))


def _names(doc: "Doc") -> Iterator[tuple[int, int]]:
    """The capitalised runs, without words that only a sentence's beginning made capital."""
    starts = {sentence.start for sentence in doc.sents}
    for run in _capitalised(doc):
        start, end = run
        if start in starts and doc[start].is_stop:
            start += 1
        if end - start > (start in starts) and not all(token.is_stop for token in doc[start:end]):
            yield start, end


def without_parenthesis(title: str) -> str:
    """A title without the parenthesis that tells it from others of the same name."""
    return _PARENTHESIS.sub("", title) or title


def _add(found: dict[tuple[int, int], Mention], doc: "Doc", start: int, end: int, kind: str) -> None:
    while start < end and _trimmed(doc, start):
        start += 1
    while end > start and _trimmed(doc, end - 1):
        end -= 1
    name = normalised_name(doc[start:end].text)
    if len(name) > 1 and (start, end) not in found:
        found[start, end] = Mention(start, end, name, kind)


def _trimmed(doc: "Doc", position: int) -> bool:
    token = doc[position]
    return bool(token.is_punct or token.is_space or token.lower_ in _EDGE)


def _capitalised(doc: "Doc") -> Iterator[tuple[int, int]]:
    """Runs of capitalised words, with small words and short numbers between them."""
    position, size = 0, len(doc)
    while position < size:
        if not doc[position].text[:1].isupper():
            position += 1
            continue
        start = position
        position = end = start + 1
        while position < size:
            joining = 0
            while position + joining < size and doc[position + joining].lower_ in _JOINING and joining < _MOST_JOINING:
                joining += 1
            if position + joining == size or not _continues(doc[position + joining].text, joining):
                break
            position = end = position + joining + 1
        yield start, end
        position = end


def _continues(word: str, joining: int) -> bool:
    return word[:1].isupper() or (joining == 0 and word[:1].isdigit() and len(word) <= _NUMBER_CHARS)


def _quoted(doc: "Doc") -> Iterator["Span"]:
    for match in _QUOTED.finditer(doc.text):
        span = doc.char_span(match.start(1), match.end(1), alignment_mode="expand")
        if span is not None:
            yield span
