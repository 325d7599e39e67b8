"""Which of the retrieved passages support an answer.

A model may name passages that do not hold what it says, or none at all. So a citation is kept only when the passage's own
text carries the answer (or, for yes/no and the like, the finding it rests on), and where the model named none that does,
the best-ranked passage that does is cited.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from semantic_text_splitter import TextSplitter

from hoptrail.runtime.answer import Citation, StepResult
from hoptrail.tools.base import Hit

__all__ = ["content_words", "number_citations", "supporting"]

_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be been being but by did do does for from had has have he her his how in is it its no not of
        on or she that the their them they this to was were what when where which who whom whose why will with yes""",
    )
)
_MIN_SHARE = 0.6
"""Share of the content words that a passage must hold to support a text that it does not hold literally."""

_QUOTE_CHARS = 300


def supporting(hits: Sequence[Hit], answer: str, summary: str, named: Iterable[int]) -> tuple[str, ...]:
    """Ids of the hits that support `answer`, those `named` (positions from 1) by the model first choice.

    When none of the named ones holds the answer, the best-ranked hit that does is taken.
    """
    chosen = [hits[n - 1] for n in dict.fromkeys(named) if 1 <= n <= len(hits)]
    kept = [hit.id for hit in chosen if _supports(hit, answer, summary)]
    holding = [hit.id for hit in hits if _holds(hit, answer)]
    if holding and not set(kept) & set(holding):
        kept.append(holding[0])
    return tuple(kept)


def number_citations(steps: Sequence[StepResult], answer: str) -> tuple[Citation, ...]:
    """The citations of a run, numbered from 1, each passage once: those of its answered steps, in the steps' order."""
    citations: dict[str, Citation] = {}
    for step in steps:
        passages = {hit.id: hit for hit in step.evidence}
        for passage_id in step.citations if step.found else ():
            hit = passages.get(passage_id)
            if hit is None or passage_id in citations:
                continue
            quote = _quote(hit, f"{step.answer} {answer}", step.question)
            citations[passage_id] = Citation(
                number=len(citations) + 1, id=hit.id, document=hit.document, title=hit.title, quote=quote, step=step.id
            )
    return tuple(citations.values())


def content_words(text: str) -> list[str]:
    """The words of `text` that carry meaning, folded to lower case, in order."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word for word in _WORD.findall(folded) if word not in _COMMON]


def _holds(hit: Hit, answer: str) -> bool:
    wanted = content_words(answer)
    if not wanted:
        return False
    return f" {' '.join(wanted)} " in f" {' '.join(content_words(f'{hit.title} {hit.text}'))} "


def _supports(hit: Hit, answer: str, summary: str) -> bool:
    if _holds(hit, answer):
        return True
    held = set(content_words(f"{hit.title} {hit.text}"))
    return any(_share(held, text) >= _MIN_SHARE for text in (answer, summary))


def _share(held: set[str], text: str) -> float:
    wanted = set(content_words(text))
    return len(wanted & held) / len(wanted) if wanted else 0.0


def _quote(hit: Hit, answer: str, question: str) -> str:
    """The sentence of the passage that shares most with the answer, then with the question."""
    sentences = TextSplitter(_QUOTE_CHARS).chunks(hit.text) or [hit.text]
    wanted, asked = set(content_words(answer)), set(content_words(question))

    def rank(sentence: str) -> tuple[int, int]:
        words = set(content_words(sentence))
        return len(words & wanted), len(words & asked)

    return max(sentences, key=rank)
