"""Parts that are real but small: an extractor and an encoder that need no model."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hoptrail.corpus.extraction import ExtractedEntity, ExtractedRelation, Extraction, ExtractionFailure
from hoptrail.corpus.types import Passage

_NAME = re.compile(r"[A-Z]\w+(?: [A-Z]\w+)*")
_SENTENCE = re.compile(r"[^.!?]+[.!?]?")
_WORD = re.compile(r"\w+")


class WordExtractor:
    """Capitalised words are entities, what stands between two of a sentence is their relation, years are attributes."""

    name = "words/v1"

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        self.failing: set[str] = set()
        """Ids of passages that cannot be read."""

    def extract(self, passages: Sequence[Passage]) -> list[Extraction | ExtractionFailure]:
        self.read.update(passage.id for passage in passages)
        return [
            ExtractionFailure(reason="it cannot be read") if passage.id in self.failing else extraction(passage.text)
            for passage in passages
        ]

    def close(self) -> None:
        pass


def extraction(text: str) -> Extraction:
    sentences = [found.strip() for found in _SENTENCE.findall(text) if found.strip()]
    entities: list[ExtractedEntity] = []
    relations: list[ExtractedRelation] = []
    for ordinal, sentence in enumerate(sentences):
        years = tuple(("year", year) for year in re.findall(r"\b\d{4}\b", sentence))
        found = list(_NAME.finditer(sentence))
        entities += [
            ExtractedEntity(name=match[0], type="NAME", attributes=years, mentions=(ordinal,)) for match in found
        ]
        relations += [
            ExtractedRelation(label=sentence[one.end() : other.start()], head=(one[0], "NAME"), tail=(other[0], "NAME"))
            for one, other in pairwise(found)
        ]
    return Extraction(sentences=tuple(sentences), entities=tuple(entities), relations=tuple(relations))


class HashEncoder:
    """Bags of hashed words: near where words are shared."""

    name = "hashed-words"
    dimension = 32

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        matrix = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in ["", *_WORD.findall(text.lower())]:
                for number in hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:3]:
                    matrix[row, number % self.dimension] += 1 if number < 128 else -1
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        return np.divide(matrix, norms, out=np.full_like(matrix, 1 / np.sqrt(self.dimension)), where=norms > 0)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.encode([text])[0]
        return vector
