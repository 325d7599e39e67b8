"""Relations of a parsed passage: pairs of mentions, labelled by the words between them in the dependency tree.

A pronoun, or a part of its name, that is a sentence's subject or possessor stands for what the passage is about.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hoptrail.corpus.extractors.mentions import Mention

if TYPE_CHECKING:
    from spacy.tokens import Span, Token

__all__ = ["Triple", "find_relations", "subjects"]

Triple = tuple[int | None, str, int]
"""Position of the head among the mentions (`None` for the passage's subject), label, position of the tail."""

_PRONOUNS = frozenset({"he", "she", "it", "they", "his", "her", "hers", "its", "their", "him", "them"})
_LABEL_POS = frozenset({"NOUN", "VERB", "ADJ", "ADP", "PROPN", "NUM", "ADV"})
_LABEL_WORDS = 5
_LONGEST_PATH = 6


def find_relations(sentence: "Span", mentions: Sequence[Mention], subject: frozenset[int]) -> list[Triple]:
    """The relations in one sentence.

    `mentions` are all of the document; the positions of those that name the passage's subject are in `subject`.
    """
    here = [i for i in _outermost(mentions) if sentence.start <= mentions[i].start < sentence.end]
    heads = _heads(sentence, mentions, here, subject)
    roots = {i: sentence.doc[mentions[i].start : mentions[i].end].root for i in here}
    found: dict[tuple[int | None, int], Triple] = {}
    for tail in here:
        for head, token in heads:
            path = _path(token, roots[tail])
            if tail not in subject and head != tail and path is not None and (head, tail) not in found:
                # A sentence's own root stands for a subject that it does not name, and says what it does.
                whole = [token, *path] if token.i == sentence.root.i else path
                found[head, tail] = (head, _label(whole, mentions, here), tail)
    return list(found.values())


def _outermost(mentions: Sequence[Mention]) -> Iterator[int]:
    """Positions of the mentions that lie inside no other and overlap none before them."""
    reached = -1
    for i in sorted(range(len(mentions)), key=lambda i: (mentions[i].start, -mentions[i].end)):
        if mentions[i].start >= reached:
            reached = mentions[i].end
            yield i


def _heads(
    sentence: "Span", mentions: Sequence[Mention], here: list[int], subject: frozenset[int]
) -> list[tuple[int | None, "Token"]]:
    """What may be a relation's head: the passage's subject, and other mentions that are a clause's subject."""
    own: list[tuple[int | None, Token]] = [
        (None, sentence.doc[mentions[i].start : mentions[i].end].root) for i in here if i in subject
    ]
    own += [(None, token) for token in sentence if token.lower_ in _PRONOUNS]
    others: list[tuple[int | None, Token]] = []
    for i in here:
        root = sentence.doc[mentions[i].start : mentions[i].end].root
        if i not in subject and root.dep_ in {"nsubj", "nsubjpass"}:
            others.append((i, root))
    return [*(own or [(None, sentence.root)]), *others]


def _path(start: "Token", end: "Token") -> list["Token"] | None:
    """The tokens between two in the tree, without the two; `None` if it is too long."""
    above = [start, *start.ancestors]
    climbed = [end]
    places = {token.i: place for place, token in enumerate(above)}
    for token in [end, *end.ancestors]:
        if token.i in places:
            whole = (
                [*above[: places[token.i] + 1], *reversed(climbed[1:])] if token.i != end.i else above[: places[end.i]]
            )
            path = [each for each in dict.fromkeys(whole) if each.i not in {start.i, end.i}]
            return path if len(path) <= _LONGEST_PATH else None
        climbed.append(token)
    return None


def _label(path: Sequence["Token"], mentions: Sequence[Mention], here: Sequence[int]) -> str:
    """The path's words in the sentence's order, verbs by their lemma, without names."""
    named = {i for m in here for i in range(mentions[m].start, mentions[m].end)}
    words = [_word(token) for token in sorted(path, key=lambda token: token.i) if _tells(token, named)]
    return " ".join(words[:_LABEL_WORDS]) or "related to"


def _tells(token: "Token", named: set[int]) -> bool:
    return token.i not in named and token.pos_ in _LABEL_POS and not token.is_punct


def _word(token: "Token") -> str:
    return str(token.lemma_.lower() if token.pos_ == "VERB" else token.lower_)


def subjects(names: Sequence[str], mentions: Sequence[Mention], first: int) -> Iterator[int]:
    """Positions of the mentions that name what a passage of these titles is about.

    Those are a title itself, one of its words such as a family name, and before token `first` a longer form of it.
    """
    titles = [set(name.casefold().split()) for name in names]
    for i, mention in enumerate(mentions):
        words = set(mention.name.casefold().split())
        if any(_names(words, title, early=mention.start < first) for title in titles):
            yield i


def _names(words: set[str], title: set[str], *, early: bool) -> bool:
    part = len(words) == 1 and words < title
    return words == title or part or (early and len(title) > 1 and words > title)
