"""A PostgreSQL server and a Chroma server on loopback, and corpora on them that are named by folders."""

import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pg8000.native

from hoptrail.corpus.place import Place, Where

STORE, CHROMA = "TESTED_STORE", "TESTED_CHROMA"
PATIENCE_S = 60
ACCOUNT = "postgres"


def postgres_folder() -> Path | None:
    """Where PostgreSQL's programs are: on the path, or where Debian keeps them."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def running() -> Iterator[dict[str, str]]:
    """Start both servers; the environment variables by which other processes find them."""
    programs = postgres_folder()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="hoptrail-servers-"))
    # PostgreSQL does not run as root, so there it runs as the account that its package made.
    user = ACCOUNT if hasattr(os, "geteuid") and os.geteuid() == 0 else None
    store, chroma = folder / "store", folder / "chroma"
    store.mkdir()
    if user is not None:
        folder.chmod(0o755)
        shutil.chown(store, user)
    try:
        initialise = [programs / "initdb", "-D", store, "-A", "trust", "-U", ACCOUNT, "-E", "UTF8", "--no-sync"]
        subprocess.run(initialise, check=True, user=user, capture_output=True, cwd=store)
        store_port, chroma_port = free_port(), free_port()
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=200"]
        database = [programs / "postgres", "-D", store, "-p", str(store_port), "-k", store, *options]
        vectors = [Path(sys.executable).with_name("chroma"), "run", "--path", chroma, "--host", "127.0.0.1"]
        with (
            started(database, store_port, store / "log", user, signal.SIGINT),
            started([*vectors, "--port", str(chroma_port)], chroma_port, folder / "chroma.log", None, signal.SIGTERM),
        ):
            yield {STORE: str(store_port), CHROMA: f"http://127.0.0.1:{chroma_port}"}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started(command: list[str | Path], port: int, log: Path, user: str | None, stop: signal.Signals) -> Iterator[None]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, user=user, cwd=log.parent
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not answers(port):
            assert process.poll() is None, log.read_text(errors="replace")[-2_000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2_000:]
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(stop)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def served(where: Where) -> Place:
    """The corpus of a folder, with a database of its own, which is made if absent."""
    if isinstance(where, Place):
        return where
    if (where / "corpus.sqlite3").is_file():
        return Place(where)  # what tests of all modules share
    port, name = int(os.environ[STORE]), database_of(where)
    connection = connected(port)
    try:
        if not connection.run("SELECT 1 FROM pg_database WHERE datname = :name", name=name):
            connection.run(f"CREATE DATABASE {name} STRATEGY file_copy")
    finally:
        connection.close()
    url = f"postgresql://{ACCOUNT}:not-secret@127.0.0.1:{port}/{name}"
    return Place(where, url, os.environ[CHROMA])


def database_of(folder: Path) -> str:
    name = "c_" + hashlib.sha256(str(folder.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:40]
    assert re.fullmatch(r"c_[0-9a-f]{40}", name)
    return name


def connected(port: int, name: str = "postgres") -> pg8000.native.Connection:
    return pg8000.native.Connection(ACCOUNT, host="127.0.0.1", port=port, database=name)
