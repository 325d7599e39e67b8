"""Processes killed at every point of an indexing: what the next ones make of it is what one would have made."""

import gzip
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from small_parts import HashEncoder, WordExtractor
from test_any_history import assert_same, seen

from hoptrail.corpus.indexing import index

HERE = Path(__file__).parent
PASSAGES = 200


@pytest.fixture(scope="module")
def documents(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("documents") / "rows.jsonl"
    with gzip.open(sample / "passages.jsonl.gz", "rt", encoding="utf-8") as file:
        made.write_text("".join(line for line, _ in zip(file, range(PASSAGES), strict=False)), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def uninterrupted(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    index([documents], folder, HashEncoder, extractor=WordExtractor())
    return seen(folder)


def extracted_again(log: Path) -> set[str]:
    """Passages that were extracted again though the process that did so first had gone on after their batch."""
    batches: dict[str, list[list[str]]] = defaultdict(list)
    for line in log.read_text(encoding="utf-8").splitlines():
        process, *passages = line.split()
        batches[process].append(passages)
    settled: set[str] = set()
    again: set[str] = set()
    for of_process in batches.values():
        again |= settled & {passage for batch in of_process for passage in batch}
        settled |= {passage for batch in of_process[:-1] for passage in batch}
    assert {passage for of_process in batches.values() for batch in of_process for passage in batch} >= settled
    return again


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", ["", "1"])
def test_killed_processes_together_do_what_one_would_have_done(
    seed: str, documents: Path, uninterrupted: dict[str, object], tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    command = [sys.executable, HERE / "killing.py", documents, tmp_path / "corpus", log, *([seed] if seed else [])]
    paths = f"{HERE.parents[1]}{os.pathsep}{HERE}"
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=280, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    kills = int(done.stdout)
    print(f"{kills} processes were killed")
    assert kills >= (5 if seed else 60)
    assert extracted_again(log) == set()
    assert_same(seen(tmp_path / "corpus"), uninterrupted)
