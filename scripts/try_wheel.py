"""Use an installed hoptrail as a user would: the command line, the library, and the embedded model if it is here.

Run by `dev.py wheel` from a folder that holds no source, in an environment that holds the wheel alone.
"""

import asyncio
import gzip
import json
import subprocess
import sys
import tempfile
from importlib.metadata import metadata, version
from importlib.resources import files
from pathlib import Path

import hoptrail
from hoptrail.models.catalog import DEFAULT
from hoptrail.models.pull import locate
from hoptrail.testing.doubles import scripted_model

SAMPLE = Path(str(files("hoptrail") / "data" / "sample"))
QUESTION = "Who is the husband of Octavie Coudreau?"
ANSWER = "Henri Coudreau"


def expect(what: str, *, holds: bool, seen: object) -> None:
    if not holds:
        sys.exit(f"try_wheel: {what} does not hold; seen: {seen}")
    print(f"   {what}")


def hoptrail_command(*arguments: str, code: int = 0) -> str:
    command = str(Path(sys.executable).with_name("hoptrail"))
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    expect(
        f"`hoptrail {' '.join(arguments)[:60]}` ends with {code}",
        holds=done.returncode == code,
        seen=done.stderr[-2000:],
    )
    return done.stdout + done.stderr


def package() -> None:
    where = str(Path(hoptrail.__file__))
    expect("hoptrail is the installed one", holds="site-packages" in where, seen=where)
    expect("its version is the wheel's", holds=version("hoptrail") == hoptrail.__version__, seen=version("hoptrail"))
    licences = metadata("hoptrail").get_all("License-File")
    expect("licence and notice are in it", holds=licences == ["LICENSE", "NOTICE"], seen=licences)
    for name in ("passages.jsonl.gz", "questions.jsonl", "ATTRIBUTION.md"):
        expect(f"the sample's {name} is in it", holds=(SAMPLE / name).is_file(), seen=list(SAMPLE.iterdir()))
    expect("so is py.typed", holds=(files("hoptrail") / "py.typed").is_file(), seen="absent")


def command_line(corpus: str) -> None:
    with gzip.open(SAMPLE / "passages.jsonl.gz", "rt", encoding="utf-8") as file:
        count = sum(1 for _ in file)
    help_text = hoptrail_command("--help")
    expect(
        "help names the commands", holds=all(word in help_text for word in ("ask", "index", "trace")), seen=help_text
    )
    report = hoptrail_command("index", str(SAMPLE / "passages.jsonl.gz"), "--corpus", corpus)
    expect(f"{count} passages are indexed", holds=f"{count} documents added" in report, seen=report)
    again = hoptrail_command("index", str(SAMPLE / "passages.jsonl.gz"), "--corpus", corpus)
    expect("indexing again changes nothing", holds=f"{count} unchanged" in again, seen=again)
    tools = {row["name"] for row in json.loads(hoptrail_command("tools", "--corpus", corpus, "--json"))}
    expect("tools and planners are listed", holds={"text", "lexical", "dag", "single"} <= tools, seen=tools)
    ready = locate(DEFAULT) is not None
    doctor = hoptrail_command("doctor", "--corpus", corpus, code=0 if ready else 1)
    expect("doctor knows the model", holds=DEFAULT.name in doctor, seen=doctor)
    wrong = hoptrail_command("ask", QUESTION, "--corpus", f"{corpus}/nothing", code=2)
    expect("a wrong path is one line", holds="Traceback" not in wrong and "No corpus" in wrong, seen=wrong)


async def library(corpus: str) -> None:
    reply = {"summary": f"Her husband was {ANSWER}.", "answer": ANSWER, "passages": [1]}
    model = scripted_model(lambda _name, _text: reply)
    answer = await hoptrail.ask(QUESTION, corpus=corpus, model=model, planner="single")
    expect("a scripted model is asked", holds=answer.text == ANSWER and len(answer.citations) > 0, seen=answer)
    if locate(DEFAULT) is None:
        print(f"   (the embedded model {DEFAULT.name} is not here and was not asked)")
        return
    answer = await hoptrail.ask(QUESTION, corpus=corpus, planner="single", tool="text")
    expect(
        "the embedded model answers with a citation",
        holds=ANSWER in answer.text and len(answer.citations) > 0,
        seen=answer,
    )


def main() -> None:
    package()
    with tempfile.TemporaryDirectory() as corpus:
        command_line(corpus)
        asyncio.run(library(corpus))
    print(f"hoptrail {hoptrail.__version__} works as installed")


if __name__ == "__main__":
    main()
