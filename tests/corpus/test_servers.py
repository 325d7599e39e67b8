"""Servers that stop and come back while a corpus on them is in use."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import servers
from small_parts import HashEncoder, WordExtractor

from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.deleting import delete
from hoptrail.corpus.indexing import index
from hoptrail.corpus.place import Place
from hoptrail.errors import CorpusError

FACTS = ["Ada Lovelace met Charles Babbage in London.", "Charles Babbage left London.", "London praised Ada Lovelace."]


@pytest.fixture
def folder() -> Iterator[Path]:
    with servers.scratch() as made:
        yield made


def documents(folder: Path, count: int) -> Path:
    rows = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(FACTS[:count])]
    (folder / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return folder / "rows.jsonl"


def ranking(corpus: Corpus) -> list[tuple[str, float]]:
    return corpus.search("passage", corpus.encode_query("Who met Ada Lovelace?"), 10)


def test_a_chroma_server_that_stops_and_comes_back(folder: Path, tmp_path: Path) -> None:
    port = servers.free_port()
    index([documents(tmp_path, 3)], tmp_path / "files", HashEncoder, extractor=WordExtractor())
    on_files = Corpus.open(tmp_path / "files", HashEncoder)
    with ExitStack() as running:
        place = Place(tmp_path / "c", chroma_url=running.enter_context(servers.chroma(folder, port)))
        index([documents(tmp_path, 2)], place, HashEncoder, extractor=WordExtractor())
        corpus = Corpus.open(place, HashEncoder)
        before = ranking(corpus)
        running.close()
        for attempt in (
            lambda: ranking(corpus),
            lambda: index([documents(tmp_path, 3)], place, HashEncoder, extractor=WordExtractor()),
            lambda: delete(["d0"], place, HashEncoder),
        ):
            with pytest.raises(CorpusError, match="chroma_url") as caught:
                attempt()
            assert "\n" not in str(caught.value)
        running.enter_context(servers.chroma(folder, port))
        # The rows were written before the server was missed, and are the truth.
        index([documents(tmp_path, 3)], place, HashEncoder, extractor=WordExtractor())
        assert {key for key, _ in ranking(corpus)} == {key for key, _ in before} | {"d2"}
        assert ranking(corpus) == ranking(on_files)
        corpus.close()
    on_files.close()


def test_a_postgresql_server_that_stops_and_comes_back(folder: Path, tmp_path: Path) -> None:
    if servers.postgres_folder() is None:
        pytest.skip("PostgreSQL's programs are not here (Debian: apt-get install postgresql)")
    port = servers.free_port()
    with ExitStack() as running:
        running.enter_context(servers.postgres(folder, port))
        place = Place(tmp_path / "c", f"postgresql://{servers.ACCOUNT}@127.0.0.1:{port}/postgres")
        index([documents(tmp_path, 2)], place, HashEncoder, extractor=WordExtractor())
        corpus = Corpus.open(place, HashEncoder)
        before = ranking(corpus)
        assert len(before) == 2
        running.close()
        for attempt in (
            corpus.status,
            lambda: index([documents(tmp_path, 3)], place, HashEncoder, extractor=WordExtractor()),
            lambda: delete(["d0"], place, HashEncoder),
            lambda: Corpus.open(place, HashEncoder),
        ):
            with pytest.raises(CorpusError, match="store_url") as caught:
                attempt()
            assert "\n" not in str(caught.value)
        running.enter_context(servers.postgres(folder, port))
        assert ranking(corpus) == before
        index([documents(tmp_path, 3)], place, HashEncoder, extractor=WordExtractor())
        assert len(ranking(corpus)) == 3
        corpus.close()
