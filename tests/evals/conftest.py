import gzip
import json
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def small_set(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """A folder with set `small`: three MuSiQue questions of the shipped sample, one of three hops, over 60 passages."""
    folder = tmp_path_factory.mktemp("data")
    questions = [json.loads(line) for line in (sample / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    chosen = [*[q for q in questions if q["hops"] == 2][:2], *[q for q in questions if q["hops"] == 3][:1]]
    with gzip.open(sample / "passages.jsonl.gz", "rt", encoding="utf-8") as file:
        passages = [json.loads(line) for line in file]
    gold = {key for q in chosen for key in q["supporting"]}
    others = [p for p in passages if p["id"] not in gold][: 60 - len(gold)]
    corpus = [*(p for p in passages if p["id"] in gold), *others]
    _write(folder / "small.questions.jsonl", chosen)
    _write(folder / "small.corpus.jsonl", corpus)
    return folder


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
