"""Extraction without a language model: spaCy's entities and dependency trees, and what a passage's title says."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hoptrail.corpus.extraction import ExtractedEntity, ExtractedRelation, Extraction, ExtractionFailure, ExtractionStop
from hoptrail.corpus.extractors.mentions import DATE, NAME, find_mentions, without_parenthesis
from hoptrail.corpus.extractors.relations import Triple, find_relations, subjects
from hoptrail.corpus.graph import normalised_name
from hoptrail.corpus.types import Passage
from hoptrail.models.nlp import PIPELINE, load_pipeline

if TYPE_CHECKING:
    from spacy.tokens import Doc

__all__ = ["OfflineExtractor"]

_VERSION = "v1"
_BATCH = 64
_NAME_CHARS = 200
_DESCRIPTION_WORDS = 4

Key = tuple[str, str]


class OfflineExtractor:
    """Entities, relations and sentences by the embedded English pipeline.

    Entities are what spaCy recognises but for numbers, capitalised names that it passes over and quoted titles (type
    `NAME`), dates that a relation ends in, and what the passage is about, as its title says. That one has attributes: `kind`
    from the title's parenthesis, `is` from the noun the first sentence says it is, `also` for longer forms of its name.
    """

    name = f"offline/{PIPELINE}/{_VERSION}"

    def extract(self, passages: Sequence[Passage]) -> list[Extraction | ExtractionFailure | ExtractionStop]:
        """One result for each of `passages`, in their order.

        Raises:
            ModelFileError: The pipeline is not installed.
        """
        docs = load_pipeline().pipe([passage.text for passage in passages], batch_size=_BATCH)
        return [_Reading(passage.title, doc).extraction() for passage, doc in zip(passages, docs, strict=True)]

    def close(self) -> None:
        """Nothing to let go of."""


class _Reading:
    """One passage being read."""

    def __init__(self, title: str, doc: "Doc") -> None:
        self._title = title[:_NAME_CHARS]
        self._sentences = [span for span in doc.sents if span.text.strip()]
        self._short = normalised_name(without_parenthesis(self._title))
        self._mentions = find_mentions(doc, self._short)
        names = [name for name in (self._short, normalised_name(self._title)) if name]
        first = self._sentences[0].end if self._sentences else 0
        self._about = frozenset(subjects(names, self._mentions, first))
        self._subject = self._find_subject()

    def extraction(self) -> Extraction:
        triples = [
            triple
            for span in self._sentences
            for triple in find_relations(span, self._mentions, self._about)
            if triple[0] is not None or self._subject is not None
        ]
        return Extraction(
            sentences=tuple(span.text.strip() for span in self._sentences),
            entities=tuple(self._entities({tail for _, _, tail in triples})),
            relations=tuple(self._relations(triples)),
        )

    def _find_subject(self) -> Key | None:
        """What the passage is about: its title, of the type that its name has in the text."""
        if not self._short:
            return None
        kinds = [self._mentions[i].type for i in sorted(self._about)]
        return self._short, next((kind for kind in kinds if kind not in {NAME, DATE}), NAME)

    def _key(self, position: int) -> Key:
        if position in self._about and self._subject is not None:
            return self._subject
        mention = self._mentions[position]
        return mention.name[:_NAME_CHARS], mention.type

    def _entities(self, tails: set[int]) -> Iterator[ExtractedEntity]:
        found: dict[Key, list[int]] = {} if self._subject is None else {self._subject: []}
        ends = [span.end for span in self._sentences]
        for i, mention in enumerate(self._mentions):
            if mention.type != DATE or i in tails:
                found.setdefault(self._key(i), []).append(sum(end <= mention.start for end in ends))
        for key, ordinals in found.items():
            attributes = tuple(self._attributes()) if key == self._subject else ()
            yield ExtractedEntity(name=key[0], type=key[1], attributes=attributes, mentions=tuple(ordinals))

    def _relations(self, triples: list[Triple]) -> Iterator[ExtractedRelation]:
        seen: set[tuple[Key | None, str, Key]] = set()
        for position, label, tail in triples:
            head, end = self._subject if position is None else self._key(position), self._key(tail)
            if head is not None and head != end and (head, label, end) not in seen:
                seen.add((head, label, end))
                yield ExtractedRelation(label=label, head=head, tail=end)

    def _attributes(self) -> Iterator[tuple[str, str]]:
        kind = normalised_name(self._title[len(without_parenthesis(self._title)) :])
        if kind:
            yield "kind", kind
        for position in sorted(self._about):
            if len(self._mentions[position].name) > len(self._short):
                yield "also", self._mentions[position].name[:_NAME_CHARS]
        if self._sentences and self._sentences[0].root.lemma_ == "be":
            yield from (("is", said) for said in self._descriptions())

    def _descriptions(self) -> Iterator[str]:
        for child in self._sentences[0].root.children:
            if child.dep_ == "attr":
                words = [each for each in child.subtree if each.i <= child.i and not (each.is_stop or each.is_punct)]
                said = normalised_name(" ".join(each.text for each in words[-_DESCRIPTION_WORDS:]))
                if said:
                    yield said
