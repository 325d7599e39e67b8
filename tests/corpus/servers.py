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

import chromadb
import numpy as np
import pg8000.native
from sqlalchemy import create_engine, select

from hoptrail.corpus import schema
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
    with scratch() as folder, postgres(folder, free_port()) as store, chroma(folder, free_port()) as vectors:
        yield {STORE: str(store), CHROMA: vectors}


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hoptrail-servers-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres(folder: Path, port: int) -> Iterator[int]:
    """A PostgreSQL server whose files are below `folder`, made if absent; its port."""
    programs = postgres_folder()
    assert programs is not None
    # PostgreSQL does not run as root, so there it runs as the account that its package made.
    user = ACCOUNT if hasattr(os, "geteuid") and os.geteuid() == 0 else None
    store = folder / "store"
    if not store.is_dir():
        store.mkdir()
        if user is not None:
            folder.chmod(0o755)
            shutil.chown(store, user)
        initialise = [programs / "initdb", "-D", store, "-A", "trust", "-U", ACCOUNT, "-E", "UTF8", "--no-sync"]
        subprocess.run(initialise, check=True, user=user, capture_output=True, cwd=store)
    options = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=200"]
    command = [programs / "postgres", "-D", store, "-p", str(port), "-k", store, *options]
    with started(command, port, store / "log", user, signal.SIGINT):
        yield port


@contextmanager
def chroma(folder: Path, port: int) -> Iterator[str]:
    """A Chroma server whose files are below `folder`; its URL."""
    program = Path(sys.executable).with_name("chroma")
    command = [program, "run", "--path", folder / "chroma", "--host", "127.0.0.1", "--port", str(port)]
    with started(command, port, folder / "chroma.log", None, signal.SIGTERM):
        yield f"http://127.0.0.1:{port}"


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


def contents(where: Path) -> Iterator[tuple[str, bytes]]:
    """All that the servers show of a corpus: each row, as text, and each vector, with the name of what it is in."""
    engine = create_engine(f"postgresql+pg8000://{ACCOUNT}@127.0.0.1:{os.environ[STORE]}/{database_of(where)}")
    with engine.connect() as connection:
        for table in schema.metadata.sorted_tables:
            for row in connection.execute(select(table)):
                yield table.name, b" ".join(each if isinstance(each, bytes) else str(each).encode() for each in row)
        of_store = select(schema.manifest.c.value).where(schema.manifest.c.key == "identity")
        identity = connection.execute(of_store).scalar_one()
    engine.dispose()
    host, port = os.environ[CHROMA].removeprefix("http://").split(":")
    client = chromadb.HttpClient(host, int(port))
    for collection in client.list_collections():
        if collection.name.startswith(identity):
            found = collection.get(include=["embeddings", "metadatas", "documents"])
            yield collection.name, repr((found["ids"], found["metadatas"], found["documents"])).encode()
            for vector in found["embeddings"]:
                yield collection.name, np.asarray(vector, dtype=np.float32).tobytes()


def connected(port: int, name: str = "postgres") -> pg8000.native.Connection:
    return pg8000.native.Connection(ACCOUNT, host="127.0.0.1", port=port, database=name)
