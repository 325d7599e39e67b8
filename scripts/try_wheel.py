"""Use an installed hoptrail as a user would: the command line, the library, and the embedded model if it is here.

Run by `dev.py wheel` from a folder that holds no source, in an environment that holds the wheel alone.
"""

import asyncio
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import hoptrail
from hoptrail.models.catalog import DEFAULT
from hoptrail.models.pull import locate
from hoptrail.testing.doubles import scripted_model

QUESTION = "Who is the director of Jump for Glory?"


def cli(*arguments: str) -> str:
    command = str(Path(sys.executable).with_name("hoptrail"))
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stderr}"
    return done.stdout


async def library(corpus: str) -> None:
    model = scripted_model(lambda name, text: {"summary": "It says so.", "answer": "Raoul Walsh", "passages": [1]})
    answer = await hoptrail.ask(QUESTION, corpus=corpus, model=model, planner="single")
    assert answer.text == "Raoul Walsh", answer
    assert answer.citations, answer
    if locate(DEFAULT):
        answer = await hoptrail.ask(QUESTION, corpus=corpus, planner="single")
        assert "Walsh" in answer.text, answer


def main() -> None:
    assert "site-packages" in hoptrail.__file__, hoptrail.__file__
    sample = files("hoptrail") / "data" / "sample" / "passages.jsonl.gz"
    with tempfile.TemporaryDirectory() as folder:
        assert "ask" in cli("--help")
        assert "399 documents added" in cli("index", str(sample), "--corpus", folder)
        assert "lexical" in cli("tools", "--corpus", folder)
        assert DEFAULT.name in cli("models", "list")
        asyncio.run(library(folder))
    print(f"hoptrail {hoptrail.__version__} works as installed")


if __name__ == "__main__":
    main()
