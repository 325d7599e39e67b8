"""Index in processes that are killed at one point after another, until one reaches the end.

    python killing.py DOCUMENTS CORPUS LOG [SEED]

Without a seed each process kills itself at the first point at which none died before; with one, this process kills them
soon after they have reached a random number of points.

`LOG` gets a line for each batch that is extracted: the process, then the passages.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import servers
from numpy import float32
from numpy.typing import NDArray
from small_parts import HashEncoder, WordExtractor

from hoptrail.corpus import chroma, chroma_server, embeddings, indexing, phases, rows, writer
from hoptrail.corpus.extraction import Extraction, ExtractionFailure
from hoptrail.corpus.place import Place
from hoptrail.corpus.store import Store
from hoptrail.corpus.types import Passage

if servers.STORE in os.environ:
    Place.of = staticmethod(servers.served)  # type: ignore[method-assign]
phases._BATCH_PASSAGES, phases._BATCH_EXTRACTIONS, phases._BATCH_TEXTS = 50, 25, 400
RANDOM_KILLS = 12
MOST_POINTS = 5
MOST_WAIT_S = 0.02


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


class ToldPoints(Points):
    """Points at which nothing dies, but of which the parent process hears."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def reach(self, *point: object) -> None:
        os.write(self.pipe, b".")


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
    batches, keep = embeddings.Embeddings.batches, chroma_server.ServerShelf.keep

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

    def batches_or_die(
        self: embeddings.Embeddings, kind: str, size: int
    ) -> Iterator[tuple[list[str], NDArray[float32]]]:
        yield from batches(self, kind, size)
        points.reach("a draft not renamed", kind)

    def keep_or_die(self: chroma_server.ServerShelf, revisions: set[int]) -> None:
        points.reach("nothing former removed")
        keep(self, revisions)

    def erase_or_die(self: Store) -> None:
        points.reach("nothing erased")

    rows.Rows.put_facts, chroma.scrub, Path.rename = put_facts_or_die, scrub_or_die, rename_or_die  # type: ignore[assignment,method-assign]
    embeddings.Embeddings.batches = batches_or_die  # type: ignore[method-assign]
    chroma_server.ServerShelf.keep = keep_or_die  # type: ignore[method-assign]
    writer.Store.erase = erase_or_die  # type: ignore[method-assign]
    indexing.index([documents], corpus, Encoder, extractor=Extractor(log, points), progress=points.tell)


def killed_at_points(documents: Path, corpus: Path, log: Path) -> int:
    for kills in range(sys.maxsize):
        child = os.fork()
        if child == 0:
            index(documents, corpus, log, Points(log.with_suffix(".points")))
            os._exit(0)
        if ended(child):
            return kills
    raise AssertionError


def killed_at_random(documents: Path, corpus: Path, log: Path, seed: str) -> int:
    chance = random.Random(seed)  # noqa: S311 - no secret
    for kills in range(sys.maxsize):
        heard, told = os.pipe()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            os.close(heard)
            index(documents, corpus, log, ToldPoints(told))
            os._exit(0)
        os.close(told)
        points = chance.randint(1, MOST_POINTS) if kills < RANDOM_KILLS else sys.maxsize
        while points and os.read(heard, 1):
            points -= 1
        if not points:
            time.sleep(chance.uniform(0, MOST_WAIT_S))
            os.kill(child, signal.SIGKILL)
        os.close(heard)
        if ended(child):
            return kills
    raise AssertionError


def ended(child: int) -> bool:
    """Whether the process went on to its end; if it failed, so does this one."""
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("a process failed otherwise than by being killed")
    return os.WIFEXITED(status)


def main(documents: Path, corpus: Path, log: Path, seed: str = "") -> None:
    print(killed_at_random(documents, corpus, log, seed) if seed else killed_at_points(documents, corpus, log))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), *sys.argv[4:])
