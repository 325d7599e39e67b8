"""Make the sample corpus that the project ships from the MuSiQue training data.

    python scripts/make_sample.py DATA_FOLDER

DATA_FOLDER holds `musique_train.corpus.jsonl.gz` and `musique_train.questions.jsonl.gz`. The questions below were chosen
by hand because they are clear, natural English; each comes with all of its own passages, gold and distractors.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

CHOSEN = (
    "2hop__155827_8",
    "2hop__116027_3",
    "2hop__243339_7",
    "2hop__116292_4",
    "2hop__145681_5",
    "2hop__145144_5",
    "2hop__196614_8",
    "2hop__814145_7",
    "2hop__102960_5",
    "2hop__639451_4",
    "2hop__54638_53",
    "2hop__28482_46",
    "2hop__131318_4",
    "2hop__205146_6",
    "2hop__544523_7",
    "2hop__1007_597",
)
THREE_HOPS = 4
TARGET = Path(__file__).parents[1] / "hoptrail" / "data" / "sample"
KEPT = ("id", "question", "answers", "type", "hops", "supporting", "decomposition")


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main() -> None:
    data = Path(sys.argv[1])
    questions = rows(data / "musique_train.questions.jsonl.gz")
    passages = {row["id"]: row for row in rows(data / "musique_train.corpus.jsonl.gz")}
    chosen = [q for wanted in CHOSEN for q in questions if q["id"].startswith(wanted)]
    chosen += [q for q in questions if q["hops"] == 3][:THREE_HOPS]
    ids = dict.fromkeys(key for q in chosen for key in (*q["supporting"], *q["candidates"]))
    TARGET.mkdir(parents=True, exist_ok=True)
    with (TARGET / "questions.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({key: q[key] for key in KEPT}, ensure_ascii=False) + "\n" for q in chosen)
    lines = "".join(
        json.dumps({key: passages[i][key] for key in ("id", "title", "text")}, ensure_ascii=False) + "\n" for i in sorted(ids)
    )
    # No time stamp and no file name, so that the same input makes the same bytes.
    with (TARGET / "passages.jsonl.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(lines.encode())
    print(f"{len(chosen)} questions, {len(ids)} passages")


if __name__ == "__main__":
    main()
