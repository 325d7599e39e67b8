import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hoptrail.corpus.migrations import MIGRATIONS
from hoptrail.corpus.place import Place
from hoptrail.corpus.rows import Entry, Rows
from hoptrail.corpus.schema import documents, embeddings, passages
from hoptrail.corpus.store import Store
from hoptrail.corpus.types import Document, Passage
from hoptrail.corpus.writer import writing_to
from hoptrail.errors import CorpusError, CorpusMismatchError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path, "default")
    opened.migrate()
    yield opened
    opened.close()


def entry(key: str, *texts: str) -> Entry:
    parts = [Passage(id=f"{key}#{i}", document=key, ordinal=i, title="", text=text) for i, text in enumerate(texts)]
    return Entry(Document(id=key, title="", text="".join(texts)), parts)


def vectors_of(given: Entry) -> NDArray[np.float32]:
    return np.arange(4 * len(given.passages), dtype=np.float32).reshape(-1, 4)


def write(store: Store, *entries: Entry) -> None:
    with store.writing() as rows:
        rows.replace(entries)
        for given in entries:
            texts = {p.id: p.content for p in given.passages}
            missing = rows.embeddings.missing("passage")
            assert set(texts) <= set(missing)
            rows.embeddings.put("passage", texts, vectors_of(given))


def counts(rows: Rows) -> tuple[int, int, int]:
    return rows.count(documents), rows.count(passages), rows.count(embeddings)


def test_a_changed_document_leaves_nothing_of_the_former_one(store: Store) -> None:
    write(store, entry("a", "one", "two", "three"), entry("b", "other"))
    write(store, entry("a", "new"))
    with store.reading() as rows:
        assert counts(rows) == (2, 2, 2)
        assert [p.text for p in rows.iter_passages()] == ["new", "other"]
        assert list(rows.passages(["b#0", "a#2", "a#0"])) == ["a#0", "b#0"]
        ((ids, matrix),) = rows.embeddings.batches("passage", 10)
    assert ids == ["a#0", "b#0"]
    np.testing.assert_array_equal(matrix[0], [0, 1, 2, 3])


def test_vectors_come_back_as_they_were_in_any_portion(store: Store) -> None:
    given = entry("a", *map(str, range(23)))
    write(store, given)
    with store.reading() as rows:
        portions = list(rows.embeddings.batches("passage", 5))
    assert [len(ids) for ids, _ in portions] == [5, 5, 5, 5, 3]
    back = dict(zip([key for ids, _ in portions for key in ids], np.concatenate([m for _, m in portions]), strict=True))
    for passage, vector in zip(given.passages, vectors_of(given), strict=True):
        np.testing.assert_array_equal(back[passage.id], vector)


def test_a_failed_write_changes_nothing(store: Store) -> None:
    write(store, entry("a", "one"))
    with store.reading() as rows:
        before = rows.state()
    with pytest.raises(CorpusError):
        write(store, entry("a", "changed"), entry("b", "x"), entry("b", "x"))
    with store.reading() as rows:
        assert rows.state() == before
        assert [p.text for p in rows.iter_passages()] == ["one"]


def test_every_write_has_a_revision_of_its_own_and_settling_has_none(store: Store) -> None:
    revisions = set()
    for number in range(20):
        write(store, entry(str(number), "x"))
        with store.reading() as rows:
            assert not rows.state().settled
            revisions.add(rows.state().revision)
    assert len(revisions) == 20
    store.settle()
    with store.reading() as rows:
        assert rows.state().settled
        assert rows.state().revision in revisions


def test_namespaces_do_not_see_each_other(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path, "other")
    write(store, entry("a", "mine"))
    write(other, entry("a", "theirs", "too"))
    with store.reading() as mine, other.reading() as theirs:
        assert [p.text for p in mine.iter_passages()] == ["mine"]
        assert counts(theirs) == (1, 2, 2)
        assert mine.state().revision != theirs.state().revision
    other.close()


def test_a_reader_sees_one_state_while_another_writes(store: Store) -> None:
    write(store, entry("a", "one"))
    with store.reading() as rows:
        before = counts(rows)
        writer = threading.Thread(target=write, args=(store, entry("b", "two")))
        writer.start()
        writer.join(10)
        assert not writer.is_alive()
        assert counts(rows) == before
    with store.reading() as rows:
        assert counts(rows) == (2, 2, 2)


def test_writers_in_threads_take_turns(store: Store) -> None:
    threads = [threading.Thread(target=write, args=(store, entry(str(n), "x"))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with store.reading() as rows:
        assert counts(rows) == (8, 8, 8)


def test_opening_again_migrates_nothing_and_needs_no_write(store: Store, tmp_path: Path) -> None:
    with store.writing():
        again = Store(tmp_path, "default")
        again.migrate()
        again.close()


@pytest.mark.files_only
def test_a_store_of_a_later_version_is_refused(store: Store, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "corpus.sqlite3") as raw:
        raw.execute("UPDATE manifest SET value = '99' WHERE key = 'format'")
    with pytest.raises(CorpusMismatchError, match=f"format 99.*{len(MIGRATIONS)}"):
        store.migrate()


@pytest.mark.files_only
def test_a_migration_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "corpus.sqlite3") as raw:
        raw.execute(
            "CREATE TABLE manifest (namespace VARCHAR(200), key VARCHAR(100), value TEXT, PRIMARY KEY (namespace, key))"
        )
    store = Store(tmp_path, "default")
    store.migrate()
    write(store, entry("a", "one"))
    store.close()


@pytest.mark.files_only
@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to look at" * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_file_that_is_no_store_is_one_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "corpus.sqlite3").write_bytes(content)
    store = Store(tmp_path, "default")
    with pytest.raises(CorpusError) as caught:
        store.migrate()
    assert "\n" not in str(caught.value)
    store.close()


@pytest.mark.files_only
def test_a_server_that_is_not_there_is_one_error_without_the_password(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        place = Place(tmp_path, f"postgresql://me:hidden-word@127.0.0.1:{bound.getsockname()[1]}/corpus")
        with pytest.raises(CorpusError, match="store_url") as caught, writing_to(place, "default"):
            pass
    assert "hidden-word" not in str(caught.value)
    assert "\n" not in str(caught.value)
