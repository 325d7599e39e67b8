"""Questions with gold evidence: hoptrail's own format and BEIR folders.

Own format: `NAME.questions.jsonl.gz` and `NAME.corpus.jsonl.gz` in one folder (plain `.jsonl` too). BEIR: a folder NAME with
`corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`.
"""

import csv
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hoptrail.errors import ConfigurationError

__all__ = ["DataSet", "Hop", "Question"]


class Hop(BaseModel):
    """One step of a gold decomposition; `#n` in `question` is the answer of the n-th hop, from 1."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    question: str
    answer: str = ""
    passage: str | None = None


class Question(BaseModel):
    """One question with its gold answers and the ids of the passages that support them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    question: str
    answers: tuple[str, ...] = ()
    type: str = ""
    hops: int = 1
    supporting: tuple[str, ...] = ()
    decomposition: tuple[Hop, ...] = Field(default=())


class DataSet(BaseModel):
    """The questions of one set and the file its corpus is indexed from."""

    model_config = ConfigDict(frozen=True)

    name: str
    corpus: Path
    questions: tuple[Question, ...]

    @classmethod
    def load(cls, folder: Path, name: str) -> Self:
        """Read set `name` in `folder`.

        Raises:
            ConfigurationError: There is no such set, or a line of it is malformed (named by file and number).
        """
        beir = folder / name
        if (beir / "queries.jsonl").is_file():
            return cls(name=name, corpus=beir / "corpus.jsonl", questions=tuple(_beir(beir)))
        questions, corpus = _file(folder, f"{name}.questions"), _file(folder, f"{name}.corpus")
        return cls(name=name, corpus=corpus, questions=tuple(_parsed(questions)))

    def sample(self, limit: int | None, seed: int) -> tuple[Question, ...]:
        """At most `limit` questions, drawn by `seed`, in the set's order."""
        if limit is None or limit >= len(self.questions):
            return self.questions
        chosen = set(random.Random(seed).sample(range(len(self.questions)), limit))  # noqa: S311 - a draw, no secret
        return tuple(q for i, q in enumerate(self.questions) if i in chosen)


def _file(folder: Path, stem: str) -> Path:
    for suffix in (".jsonl.gz", ".jsonl"):
        if (folder / f"{stem}{suffix}").is_file():
            return folder / f"{stem}{suffix}"
    raise ConfigurationError(f"There is no {stem}.jsonl.gz in {folder}: check --data and --set.")


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ConfigurationError(f"{path}, line {number}: not JSON ({error}).") from None
            if not isinstance(row, dict):
                raise ConfigurationError(f"{path}, line {number}: not an object.")
            yield number, row


def _parsed(path: Path) -> Iterator[Question]:
    for number, row in _lines(path):
        try:
            yield Question.model_validate(row)
        except ValidationError as error:
            faults: Sequence[Any] = error.errors()
            where = ".".join(map(str, faults[0]["loc"]))
            raise ConfigurationError(f"{path}, line {number}: {where}: {faults[0]['msg']}.") from None


def _beir(folder: Path) -> Iterator[Question]:
    relevant: dict[str, list[str]] = {}
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if int(row["score"]) > 0:
                relevant.setdefault(row["query-id"], []).append(row["corpus-id"])
    for _, row in _lines(folder / "queries.jsonl"):
        key = str(row["_id"])
        if key in relevant:
            yield Question(id=key, question=row["text"], supporting=tuple(relevant[key]), hops=len(relevant[key]))
