"""Everything a developer runs, with nothing but Python 3.11 or newer installed.

    python3 dev.py demo     set up, fetch the model, index the shipped sample, answer a question of two hops
    python3 dev.py test     run the tests; further arguments go to pytest
    python3 dev.py check    formatting, lint, types, generated pages
    python3 dev.py fix      format, mend what lint can mend, write the generated pages
    python3 dev.py wheel    build the wheel and try it in a fresh environment
    python3 dev.py bench    runtime overhead beside other frameworks; with `indexing`, `retrieval` or `extraction`: of those
    python3 dev.py clean    remove what these commands made here

Each first brings the virtual environment `.venv` in this folder up to date, and leaves the rest of the machine alone.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMPS = VENV / "set-up.json"
CONSTRAINTS = ROOT / "constraints.txt"
# Installed before anything that wants torch: pip would else take the newest release, whose build may be for GPUs.
TORCH = "torch==2.13.0"
SAMPLE = ROOT / "hoptrail" / "data" / "sample"
DEMO_CORPUS = ROOT / "demo-corpus"
DEMO_QUESTION = "Where was the husband of Octavie Coudreau born?"
MADE_HERE = (
    VENV,
    DEMO_CORPUS,
    *(
        ROOT / name
        for name in ("dist", "benchmarks/.venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
    ),
)

PACKAGE = ("--editable", ".[embedded]")
# What pip is given for each kind of work; a later layer holds the earlier ones.
LAYERS: dict[str, tuple[str, ...]] = {
    "use": PACKAGE,
    "dev": (*PACKAGE, "--group", "dev"),
}

BENCHMARKS = {
    "overhead": "runtime_overhead",
    "indexing": "index_scaling",
    "retrieval": "retrieval",
    "extraction": "extraction",
}

STARTED = time.monotonic()
TAIL_LINES = 30
BEAT_S = 15.0


@contextmanager
def step(text: str) -> Iterator[None]:
    print(f"\n== {text}", flush=True)
    started = time.monotonic()
    yield
    now = time.monotonic()
    print(f"   {now - started:.1f} s, {now - STARTED:.0f} s in all", flush=True)


def environment() -> dict[str, str]:
    """Ours, without what would change which hoptrail runs and how; where models are kept may be chosen."""
    dropped = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    kept = {
        k: v
        for k, v in os.environ.items()
        if k not in dropped and (k == "HOPTRAIL_CACHE" or not k.startswith("HOPTRAIL_"))
    }
    return {**kept, "PYTHONUNBUFFERED": "1", "OMP_WAIT_POLICY": "passive"}


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command that speaks for itself."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, check=False, env=environment())
    if done.returncode:
        fail(command, done.returncode)


def run_quietly(*command: str | Path) -> None:
    """Run a command of many lines: now and then the newest one is shown, and the last ones when it fails."""
    lines: deque[str] = deque(maxlen=TAIL_LINES)
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    reader = threading.Thread(target=lambda: lines.extend(line.strip() for line in process.stdout or ()), daemon=True)
    reader.start()
    started = time.monotonic()
    while process.poll() is None:
        reader.join(BEAT_S)
        if reader.is_alive():
            newest = next((line for line in reversed([*lines]) if line and not line.startswith("WARNING")), "")
            print(f"   … {time.monotonic() - started:.0f} s  {newest[:100]}", flush=True)
        else:
            process.wait()
    reader.join()
    if process.returncode:
        print("\n".join(lines), file=sys.stderr)
        fail(command, process.returncode)


def fail(command: tuple[str | Path, ...], code: int) -> None:
    shown = " ".join(Path(part).name if isinstance(part, Path) else part for part in command)
    sys.exit(f"dev.py: `{shown[:200]}` ended with {code}")


def tool(name: str, folder: Path = VENV) -> Path:
    """A program of a virtual environment."""
    return folder / ("Scripts/" if os.name == "nt" else "bin/") / name


def make_environment(folder: Path) -> None:
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit("dev.py: this Python cannot make virtual environments: install your system's python3-venv package.")
    venv.create(folder, with_pip=True, clear=True, symlinks=os.name != "nt")
    run_quietly(tool("python", folder), "-m", "pip", "install", "--upgrade", "pip>=25.1")


def install(folder: Path, *what: str) -> None:
    # Python compiles what it imports; compiling all that is installed would take longer than the rest.
    command = ("-m", "pip", "install", "--no-compile", "--progress-bar", "off", "--disable-pip-version-check")
    run_quietly(tool("python", folder), *command, "--constraint", str(CONSTRAINTS), *what)


def fingerprint(layer: str) -> str:
    """Changes whenever the layer has to be installed again."""
    files = (ROOT / "pyproject.toml").read_bytes() + CONSTRAINTS.read_bytes()
    facts = repr((LAYERS[layer], TORCH, sys.version, str(ROOT)))
    return hashlib.sha256(files + facts.encode()).hexdigest()


def usable() -> bool:
    """Whether `.venv` is whole and of this Python."""
    asked = [str(tool("python")), "-c", "import pip, sys; print(sys.version)"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, env=environment())
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == sys.version.strip()


def set_up(layer: str) -> None:
    """Bring `.venv` up to date; does nothing when neither the requirements nor the Python have changed."""
    if sys.version_info < (3, 11):
        sys.exit(f"dev.py: hoptrail needs Python 3.11 or newer, and this is {sys.version.split()[0]}.")
    try:
        stamps = json.loads(STAMPS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stamps = {}
    names = list(LAYERS)
    if any(stamps.get(name) == fingerprint(name) for name in names[names.index(layer) :]) and usable():
        return
    if not usable():
        stamps = {}
        with step("making the virtual environment .venv"):
            make_environment(VENV)
    with step(f"installing {TORCH}, the largest part"):
        install(VENV, TORCH)
    with step(f"installing hoptrail and what it needs ({layer})"):
        install(VENV, *LAYERS[layer])
    STAMPS.write_text(json.dumps({**stamps, layer: fingerprint(layer)}), encoding="utf-8")


def model_is_here() -> bool:
    """Whether the embedded language model has been fetched; asking so costs less than the command line would."""
    code = "from hoptrail.models.catalog import DEFAULT as d; raise SystemExit(not d.path.is_file())"
    return subprocess.run([str(tool("python")), "-c", code], check=False).returncode == 0


def demo() -> None:
    """Everything from nothing to an answer, which is then compared with the data set's own."""
    set_up("use")
    trace = DEMO_CORPUS / "trace.jsonl"
    if not model_is_here():
        with step("fetching the embedded language model: 1.1 GB, once"):
            run(tool("hoptrail"), "models", "pull")
    passages, indexed = SAMPLE / "passages.jsonl.gz", DEMO_CORPUS / "sample.sha256"
    digest = hashlib.sha256(passages.read_bytes()).hexdigest()
    if not (indexed.is_file() and indexed.read_text(encoding="utf-8") == digest):
        with step("indexing the shipped sample"):
            run(tool("hoptrail"), "index", passages, "--corpus", DEMO_CORPUS)
        indexed.write_text(digest, encoding="utf-8")
    with step(f"asking: {DEMO_QUESTION}"):
        run(tool("hoptrail"), "ask", DEMO_QUESTION, "--corpus", DEMO_CORPUS, "--model", "embedded", "--trace", trace)
    with step("comparing with the data set's answer"):
        run(tool("python"), ROOT / "scripts" / "check_demo.py", trace, SAMPLE / "questions.jsonl")
    print(f"\nThe run in full:   {tool('hoptrail').relative_to(ROOT)} trace show {trace.relative_to(ROOT)}")
    print(f'Your own question: {tool("hoptrail").relative_to(ROOT)} ask --corpus demo-corpus "…"')


def test() -> None:
    """The tests."""
    set_up("dev")
    with step("tests"):
        run(tool("python"), "-m", "pytest", *sys.argv[2:])


def check() -> None:
    """What can be said of the code without running it."""
    set_up("dev")
    with step("formatting"):
        run(tool("ruff"), "format", "--check", ".")
    with step("lint"):
        run(tool("ruff"), "check", ".")
    with step("types"):
        run(tool("mypy"))
    with step("generated pages"):
        run(tool("python"), ROOT / "scripts" / "generate_reference.py", "--check")


def fix() -> None:
    """Let the tools mend what they can."""
    set_up("dev")
    run(tool("ruff"), "format", ".")
    run(tool("python"), ROOT / "scripts" / "generate_reference.py")
    run(tool("ruff"), "check", "--fix", ".")


def wheel() -> None:
    """Build the source archive, the wheel from it, and use the wheel where nothing else of this folder is."""
    set_up("dev")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    with step("building the source archive, and the wheel from it"):
        run_quietly(tool("python"), "-m", "build", "--outdir", ROOT / "dist")
    built = next((ROOT / "dist").glob("*.whl"))
    print(f"   {built.name}, {built.stat().st_size / 1024:.0f} KB")
    with tempfile.TemporaryDirectory(prefix="hoptrail-wheel-") as folder:
        elsewhere = Path(folder)
        fresh = elsewhere / "venv"
        with step("installing it in a fresh environment"):
            make_environment(fresh)
            install(fresh, TORCH)
            install(fresh, f"{built}[embedded]")
        with step("using it there"):
            script = shutil.copy(ROOT / "scripts" / "try_wheel.py", elsewhere)
            run(tool("python", fresh), script, cwd=elsewhere)


def bench() -> None:
    """One benchmark, by name; what it compares with is installed in an environment of its own."""
    name, *options = sys.argv[2:] if sys.argv[2:3] and sys.argv[2] in BENCHMARKS else ["overhead", *sys.argv[2:]]
    set_up("dev")
    with step(f"benchmark: {name}"):
        run(tool("python"), ROOT / "benchmarks" / f"{BENCHMARKS[name]}.py", *options)


def clean() -> None:
    """Remove what these commands made in this folder; pulled models stay in the user's cache folder."""
    for path in MADE_HERE:
        shutil.rmtree(path, ignore_errors=True)


COMMANDS: dict[str, Callable[[], None]] = {f.__name__: f for f in (demo, test, check, fix, wheel, bench, clean)}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    try:
        COMMANDS[sys.argv[1]]()
    except KeyboardInterrupt:
        sys.exit("dev.py: interrupted")


if __name__ == "__main__":
    main()
