"""Index in processes that are killed at one point after another, until one reaches the end.

    python killing.py DOCUMENTS CORPUS LOG [SEED]

Without a seed each process kills itself at the first point at which none died before; with one, this process kills them
after random times. `LOG` gets a line for each batch that is extracted: the process, then the passages.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from numpy import float32
from numpy.typing import NDArray
from small_parts import HashEncoder, WordExtractor

from hoptrail.corpus import chroma, indexing, phases, rows, writer
from hoptrail.corpus.extraction import Extraction, ExtractionFailure
from hoptrail.corpus.store import Store
from hoptrail.corpus.types import Passage

phases._BATCH_PASSAGES, phases._BATCH_EXTRACTIONS, phases._BATCH_TEXTS = 50, 25, 400
RANDOM_KILLS = 12


class Points:
    """Where processes have died."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.known = set(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else set()
        self.phase: tuple[object, ...] = ()

    def reach(self, *point: object) -> None:
        text = repr((*self.phase, *point))
        if text not in self.known:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
            os.kill(os.getpid(), signal.SIGKILL)

    def tell(self, done: int, total: int, note: str) -> None:
        self.phase = (note, done, total)
        self.reach("boundary")


class NoPoints(Points):
    def reach(self, *point: object) -> None:
        pass


class Extractor(WordExtractor):
    def __init__(self, log: Path, points: Points) -> None:
        super().__init__()
        self.log, self.points = log, points

    def extract(self, passages: Sequence[Passage]) -> list[Extraction | ExtractionFailure]:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(" ".join([str(os.getpid()), *(passage.id for passage in passages)]) + "\n")
        self.points.reach("extracting")
        return super().extract(passages)


def index(documents: Path, corpus: Path, log: Path, points: Points) -> None:
    """Index, with points of death in the midst of batches, transactions and the building of indexes."""

    class Encoder(HashEncoder):
        def encode(self, texts: Sequence[str]) -> NDArray[float32]:
            points.reach("encoding")
            return super().encode(texts)

    put_facts, scrub, rename = rows.Rows.put_facts, chroma.scrub, Path.rename

    def put_facts_or_die(self: rows.Rows, facts: dict[str, str]) -> None:
        put_facts(self, facts)
        points.reach("before the commit", *sorted(facts))

    def scrub_or_die(folder: Path) -> None:
        points.reach("half an index", folder.parts[-3])
        scrub(folder)

    def rename_or_die(self: Path, target: Path) -> Path:
        points.reach("an index not renamed", target.parts[-3])
        renamed = rename(self, target)
        points.reach("an index renamed", target.parts[-3])
        return renamed

    def erase_or_die(self: Store) -> None:
        points.reach("nothing erased")

    rows.Rows.put_facts, chroma.scrub, Path.rename = put_facts_or_die, scrub_or_die, rename_or_die  # type: ignore[assignment,method-assign]
    writer.Store.erase = erase_or_die  # type: ignore[method-assign]
    indexing.index([documents], corpus, Encoder, extractor=Extractor(log, points), progress=points.tell)


def main(documents: Path, corpus: Path, log: Path, seed: str = "") -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    kills = 0
    while True:
        dying = not seed or kills < RANDOM_KILLS
        child = os.fork()
        if child == 0:
            points = Points(log.with_suffix(".points")) if not seed else NoPoints(log.with_suffix(".points"))
            index(documents, corpus, log, points)
            os._exit(0)
        if seed and dying:
            time.sleep(chance.uniform(0.05, 1.5))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                sys.exit("a process failed otherwise than by being killed")
            if not seed or not dying or kills >= 1:
                break
        kills += 1
    print(kills)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), *sys.argv[4:])
