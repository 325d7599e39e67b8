"""Everything a developer runs, with nothing but Python installed.

    python3 dev.py demo     set up, fetch the model, index the shipped sample, answer a question of two hops
    python3 dev.py test     set up, run all tests
    python3 dev.py check    formatting, lint and types
    python3 dev.py wheel    build the wheel and try it in a fresh environment
    python3 dev.py bench    runtime overhead beside other frameworks

Each makes the virtual environment `.venv` here if it is not up to date, and leaves the rest of the machine alone.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"
# Before anything that wants torch: with none installed, a range that admits newer releases brings in a build for GPUs.
TORCH = "torch==2.13.0"
DEMO_CORPUS = ROOT / "demo-corpus"
DEMO_QUESTION = "Who is the spouse of the director of Jump for Glory?"
SAMPLE = ROOT / "hoptrail" / "data" / "sample" / "passages.jsonl.gz"


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


@contextmanager
def timed(text: str) -> Iterable[None]:
    say(text)
    started = time.monotonic()
    yield
    print(f"   ({time.monotonic() - started:.0f} s)", flush=True)


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, check=False, env={**os.environ, **(env or {})})
    if done.returncode:
        sys.exit(f"dev.py: `{' '.join(str(part) for part in command[:6])}` ended with {done.returncode}")


def in_venv(folder: Path, name: str) -> Path:
    return folder / ("Scripts" if os.name == "nt" else "bin") / name


def pip(folder: Path, *arguments: str) -> None:
    run(in_venv(folder, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def wanted() -> str:
    files = (ROOT / "pyproject.toml", CONSTRAINTS, ROOT / "dev.py")
    return hashlib.sha256(b"".join(file.read_bytes() for file in files) + sys.version.encode()).hexdigest()


def set_up() -> None:
    if sys.version_info < (3, 11):
        sys.exit(f"dev.py: hoptrail needs Python 3.11 or newer, this is {sys.version.split()[0]}")
    stamp = VENV / "set-up"
    if stamp.is_file() and stamp.read_text() == wanted():
        return
    with timed("virtual environment in .venv"):
        venv.create(VENV, with_pip=True, clear=True)
        pip(VENV, "--upgrade", "pip>=25.1")
    with timed(f"{TORCH} (the largest part)"):
        pip(VENV, TORCH)
    with timed("hoptrail and its dependencies"):
        pip(VENV, "--constraint", str(CONSTRAINTS), "--editable", ".[embedded]", "--group", "dev")
    stamp.write_text(wanted())


def hoptrail(*arguments: str | Path) -> None:
    run(in_venv(VENV, "hoptrail"), *arguments)


def demo() -> None:
    started = time.monotonic()
    set_up()
    with timed("the embedded language model (1.1 GB, once)"):
        hoptrail("models", "pull")
    with timed("indexing the shipped sample: 399 passages of MuSiQue"):
        hoptrail("index", SAMPLE, "--corpus", DEMO_CORPUS)
    with timed(f"asking: {DEMO_QUESTION}"):
        hoptrail("ask", DEMO_QUESTION, "--corpus", DEMO_CORPUS, "--trace", DEMO_CORPUS / "trace.jsonl")
    say(
        f"done in {time.monotonic() - started:.0f} s. The run in full: .venv/bin/hoptrail trace show demo-corpus/trace.jsonl"
    )


def test() -> None:
    set_up()
    with timed("tests"):
        run(in_venv(VENV, "python"), "-m", "pytest", *sys.argv[2:])


def check() -> None:
    set_up()
    with timed("formatting and lint"):
        run(in_venv(VENV, "ruff"), "format", "--check", ".")
        run(in_venv(VENV, "ruff"), "check", ".")
    with timed("types"):
        run(in_venv(VENV, "mypy"))


def wheel() -> None:
    set_up()
    with tempfile.TemporaryDirectory() as scratch:
        with timed("building the wheel"):
            run(in_venv(VENV, "python"), "-m", "build", "--wheel", "--outdir", scratch)
        built = next(Path(scratch).glob("*.whl"))
        fresh = Path(scratch) / "venv"
        with timed("installing it in a fresh environment"):
            venv.create(fresh, with_pip=True)
            pip(fresh, "--upgrade", "pip>=25.1")
            pip(fresh, TORCH)
            pip(fresh, "--constraint", str(CONSTRAINTS), f"{built}[embedded]")
        with timed("trying it"):
            trial = shutil.copy(ROOT / "scripts" / "try_wheel.py", scratch)
            run(in_venv(fresh, "python"), trial)


def bench() -> None:
    set_up()
    run(in_venv(VENV, "python"), ROOT / "benchmarks" / "runtime_overhead.py", *sys.argv[2:])


COMMANDS: dict[str, Callable[[], None]] = {"demo": demo, "test": test, "check": check, "wheel": wheel, "bench": bench}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]]()
