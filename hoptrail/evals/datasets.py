"""Questions with gold evidence: hoptrail's own format and BEIR folders.

Own format: `NAME.questions.jsonl.gz` and `NAME.corpus.jsonl.gz` in one folder (plain `.jsonl` too). BEIR: a folder NAME with
`corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, of which `test` is read, else `dev`, else the only one there is.
"""

import gzip
import json
import random
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from hoptrail.errors import ConfigurationError

__all__ = ["DataSet", "Hop", "Question"]

_SPLITS = ("test", "dev")


class Hop(BaseModel):
    """One step of a gold decomposition; `#n` in `question` is the answer of the n-th hop, from 1."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    question: str
    answer: str = ""
    passage: str | None = None


class Question(BaseModel):
    """One question with its gold answers and the ids of the passages that support them.

    `hops` is `None` where the set does not say; `evidences` are gold triples, `supporting_sentences` pairs of passage id and
    sentence, `candidates` the passages that the set's authors gave with the question.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    question: str
    answers: tuple[str, ...] = ()
    type: str = ""
    hops: int | None = None
    supporting: tuple[str, ...] = ()
    decomposition: tuple[Hop, ...] = ()
    evidences: tuple[tuple[str, str, str], ...] = ()
    supporting_sentences: tuple[tuple[str, str], ...] = ()
    candidates: tuple[str, ...] = ()


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
            ConfigurationError: There is no such set, it has no questions, or a line of it is malformed (named by file and
                number).
        """
        if (folder / name / "queries.jsonl").is_file():
            source, corpus = folder / name / "queries.jsonl", folder / name / "corpus.jsonl"
            questions = _unique(source, _beir(folder / name))
        else:
            source, corpus = _file(folder, f"{name}.questions"), _file(folder, f"{name}.corpus")
            questions = _unique(source, _own(source))
        if not questions:
            raise ConfigurationError(f"{source} holds no questions with gold data: check --data and --set.")
        return cls(name=name, corpus=corpus, questions=questions)

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


def _unique(path: Path, numbered: Iterable[tuple[int, Question]]) -> tuple[Question, ...]:
    found: dict[str, Question] = {}
    for number, question in numbered:
        if question.id in found:
            raise _fault(path, number, f"id {question.id!r} was used before")
        found[question.id] = question
    return tuple(found.values())


def _own(path: Path) -> Iterator[tuple[int, Question]]:
    for number, row in _rows(path):
        try:
            yield number, Question.model_validate(row)
        except ValidationError as error:
            first = error.errors()[0]
            raise _fault(path, number, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _beir(folder: Path) -> Iterator[tuple[int, Question]]:
    """The queries that the split has judgements for."""
    relevant = _judgements(_qrels(folder / "qrels"))
    path = folder / "queries.jsonl"
    for number, row in _rows(path):
        if "_id" not in row or not isinstance(row.get("text"), str):
            raise _fault(path, number, "a query needs `_id` and `text`")
        key = str(row["_id"])
        if key in relevant:
            yield number, Question(id=key, question=row["text"], supporting=tuple(relevant[key]))


def _qrels(folder: Path) -> Path:
    files = {file.stem: file for file in sorted(folder.glob("*.tsv"))}
    chosen = next((files[split] for split in _SPLITS if split in files), None)
    if chosen is None and len(files) == 1:
        chosen = next(iter(files.values()))
    if chosen is None:
        raise ConfigurationError(f"There is no test.tsv in {folder}: a BEIR set needs its judgements there.")
    return chosen


def _judgements(path: Path) -> dict[str, list[str]]:
    """Relevant document ids by query id; lines are `query-id`, `corpus-id`, `score`, after a header or none."""
    relevant: dict[str, list[str]] = {}
    for number, line in _lines(path):
        fields = line.rstrip("\r\n").split("\t")
        if number == 1 and fields[0] == "query-id":
            continue
        try:
            query, document, score = fields
            positive = float(score) > 0
        except ValueError:
            raise _fault(path, number, "not query id, document id and a number, parted by tabs") from None
        if positive:
            relevant.setdefault(query, []).append(document)
    return relevant


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _fault(path, number, f"not JSON ({error})") from None
        if not isinstance(row, dict):
            raise _fault(path, number, "not an object")
        yield number, row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, numbered from 1."""
    number = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise _fault(path, number, "not UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise _fault(path, number + 1, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _fault(path: Path, number: int, what: str) -> ConfigurationError:
    return ConfigurationError(f"{path}, line {number}: {what}.")
