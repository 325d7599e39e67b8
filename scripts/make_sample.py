"""Make the sample corpus that the project ships from two public data sets.

    python scripts/make_sample.py DATA_FOLDER

DATA_FOLDER holds `SET.corpus.jsonl.gz` and `SET.questions.jsonl.gz` for each set below. The questions were chosen by hand
because they are clear, natural English and need two passages; each comes with all of its own passages, gold and
distractors. The same input makes the same bytes.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

CHOSEN = {
    # MuSiQue, training split: thirteen questions of two hops and one of three.
    "musique_train": (
        "2hop__155827_84254",
        "2hop__143456_782099",
        "2hop__243339_774871",
        "2hop__145681_54580",
        "2hop__763678_127255",
        "2hop__140732_126525",
        "2hop__102960_54210",
        "2hop__639451_47353",
        "2hop__54638_5348",
        "2hop__28482_46077",
        "2hop__131318_49700",
        "2hop__205146_62031",
        "2hop__544523_73460",
        "3hop1__520721_132413_16030",
    ),
    # 2WikiMultiHopQA, development split: eleven compositional questions, by the first half of their ids.
    "2wiki": (
        "ad4195740b",
        "18cf460a0b",
        "42a5f1a40b",
        "6606043c0b",
        "daad21e40b",
        "680e91260b",
        "39bd87c80b",
        "6392cf220b",
        "e6ee7ed80b",
        "7e815a440b",
        "4b26a6fc0b",
    ),
}
TARGET = Path(__file__).parents[1] / "hoptrail" / "data" / "sample"
KEPT = ("id", "question", "answers", "type", "hops", "supporting", "decomposition")


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def lines(chosen: list[dict[str, Any]], keys: tuple[str, ...]) -> str:
    return "".join(json.dumps({key: row[key] for key in keys}, ensure_ascii=False) + "\n" for row in chosen)


def chosen_of(data: Path, name: str, starts: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The chosen questions of one set, and their passages in the set's order."""
    known = rows(data / f"{name}.questions.jsonl.gz")
    questions = [next(row for row in known if row["id"].startswith(start)) for start in starts]
    wanted = {key for row in questions for key in (*row["supporting"], *row["candidates"])}
    return questions, [row for row in rows(data / f"{name}.corpus.jsonl.gz") if row["id"] in wanted]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    questions, passages = [], []
    for name, starts in CHOSEN.items():
        found = chosen_of(Path(sys.argv[1]), name, starts)
        questions += found[0]
        passages += found[1]
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "questions.jsonl").write_text(lines(questions, KEPT), encoding="utf-8", newline="\n")
    # No time stamp and no file name, which would make the bytes depend on when and where this ran.
    with (TARGET / "passages.jsonl.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(lines(passages, ("id", "title", "text")).encode())
    print(f"{len(questions)} questions, {len(passages)} passages")


if __name__ == "__main__":
    main()
