"""The command line as a user meets it: results on standard output, one line and exit code 2 for what is wrong."""

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from hoptrail.cli import main
from hoptrail.testing.openai_server import Failure, ScriptedOpenAI

ROWS = (
    {"id": "a", "title": "Harbour Lights", "text": "Harbour Lights is an album by Ilse Brandvold."},
    {"id": "b", "title": "Ilse Brandvold", "text": "Ilse Brandvold was born in Voss."},
    {"id": "c", "title": "Voss", "text": "Voss is a town in Norway."},
)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


class Run:
    """Calls the command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str | Path) -> Outcome:
        self._monkeypatch.setattr(sys, "argv", ["hoptrail", *map(str, arguments)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = self._capsys.readouterr()
        return Outcome(int(ended.value.code or 0), captured.out, captured.err)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "200")
    return Run(capsys, monkeypatch)


@pytest.fixture
def corpus(run: Run, tmp_path: Path) -> Path:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps(row) for row in ROWS))
    outcome = run("index", rows, "--corpus", tmp_path / "corpus")
    assert outcome.code == 0, outcome.err
    assert "3 documents added" in outcome.out
    return tmp_path / "corpus"


def check_refusal(outcome: Outcome, *says: str) -> None:
    assert outcome.code == 2
    assert len(outcome.err.strip().splitlines()) == 1, outcome.err
    assert "Traceback" not in outcome.err
    for words in says:
        assert words in outcome.err


def test_indexing_again_changes_nothing(run: Run, corpus: Path, tmp_path: Path) -> None:
    outcome = run("index", tmp_path / "rows.jsonl", "-c", corpus)
    assert "0 documents added, 0 updated, 3 unchanged" in outcome.out


def test_an_empty_or_endless_question_is_refused(run: Run, corpus: Path) -> None:
    check_refusal(run("ask", "  ", "-c", corpus), "empty")
    check_refusal(run("ask", "x" * 100_000, "-c", corpus), "100,000 characters", "HOPTRAIL_MAX_QUESTION_CHARS")


def test_a_missing_corpus_is_refused(run: Run, tmp_path: Path) -> None:
    check_refusal(run("ask", "Q?", "-c", tmp_path / "none"), "hoptrail index")
    check_refusal(run("tools", "-c", tmp_path / "none"), "hoptrail index")


def test_an_unreadable_pdf_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7 nothing that follows is a PDF")
    check_refusal(run("index", tmp_path / "bad.pdf", "-c", tmp_path / "corpus"), "bad.pdf")


def test_one_unreadable_document_leaves_the_others(run: Run, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bad.pdf").write_bytes(b"no")
    (tmp_path / "docs" / "good.md").write_text("# Voss\n\nVoss is a town.")
    outcome = run("index", tmp_path / "docs", "-c", tmp_path / "corpus")
    assert outcome.code == 0
    assert "1 documents added" in outcome.out
    assert "bad.pdf" in outcome.err
    assert run("index", tmp_path / "docs", "-c", tmp_path / "corpus", "--strict").code == 2


async def test_a_wrong_key_is_refused(run: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio.to_thread  # noqa: PLC0415

    monkeypatch.setenv("HOPTRAIL_API_KEY", "sk-secret")
    async with ScriptedOpenAI(lambda _: Failure(401)) as server:
        outcome = await anyio.to_thread.run_sync(
            lambda: run("ask", "Q?", "-c", corpus, "--base-url", server.base_url, "-m", "scripted", "-q")
        )
    check_refusal(outcome, "refused the key", "HOPTRAIL_API_KEY")
    assert "sk-secret" not in outcome.err


def test_an_unreachable_endpoint_is_refused(run: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTRAIL_RETRY_ATTEMPTS", "1")
    outcome = run("ask", "Q?", "-c", corpus, "--base-url", "http://127.0.0.1:9/v1", "-m", "scripted", "-q")
    check_refusal(outcome, "HOPTRAIL_BASE_URL")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-m", "no-such-provider:x"), "HOPTRAIL_MODEL"),
        (("-m", "openai-chat:gpt-4o-mini"), "HOPTRAIL_API_KEY"),
        (("-p", "magic"), "No planner is called 'magic'"),
        (("-t", "magic"), "No tool is called 'magic'"),
        (("--base-url", "ftp://x", "-m", "y"), "http://"),
    ],
)
def test_a_wrong_setting_is_refused(
    run: Run, corpus: Path, arguments: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    check_refusal(run("ask", "Q?", "-c", corpus, "-q", *arguments), says)


def test_a_malformed_environment_variable_is_refused(run: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTRAIL_MAX_STEPS", "many")
    check_refusal(run("ask", "Q?", "-c", corpus), "max_steps")


def test_an_absent_model_file_is_refused(
    run: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOPTRAIL_CACHE", str(tmp_path / "cache"))
    check_refusal(run("ask", "Q?", "-c", corpus, "-q"), "hoptrail models pull")
    listed = run("models", "list", "--json")
    assert {row["state"] for row in json.loads(listed.out)} == {"absent"}
    check_refusal(run("models", "verify", "qwen2.5-coder-1.5b"), "hoptrail models pull")
    check_refusal(run("models", "pull", "no-such-model"), "no-such-model")
    assert run("doctor", "-c", corpus).code == 1


def two_hops(body: dict[str, object]) -> dict[str, object]:
    messages = body["messages"]
    assert isinstance(messages, list)
    system, user = messages[0]["content"], messages[-1]["content"]
    if system.startswith("You plan"):
        steps = [("Who made Harbour Lights?", []), ("Where was <dep:0> born?", [0])]
        return {
            "summary": "",
            "steps": [{"id": i, "question": q, "depends_on": d, "tool": "text"} for i, (q, d) in enumerate(steps)],
        }
    if system.startswith("A question"):
        return {"reasoning": "", "answer": "Voss"}
    born = "was Ilse Brandvold born" in user
    return {"summary": "", "answer": "Voss" if born else "Ilse Brandvold", "passages": [1]}


async def test_a_question_is_answered_and_its_trace_shown(run: Run, corpus: Path, tmp_path: Path) -> None:
    import anyio.to_thread  # noqa: PLC0415

    trace = tmp_path / "trace.jsonl"
    question = "Where was the maker of Harbour Lights born?"

    def session(base_url: str) -> tuple[Outcome, Outcome, Outcome, Outcome]:
        to = ("-c", corpus, "--base-url", base_url, "-m", "scripted")
        return (
            run("ask", question, *to, "--trace", trace),
            run("ask", question, *to, "--json"),
            run("plan", question, *to),
            run("plan", question, *to, "--mermaid"),
        )

    async with ScriptedOpenAI(two_hops) as server:
        plain, as_json, plan, mermaid = await anyio.to_thread.run_sync(session, server.base_url)
    assert plain.out.splitlines()[0] == "Voss"
    assert "[1] Harbour Lights (a)" in plain.out
    assert "[2] Ilse Brandvold (b)" in plain.out
    assert json.loads(as_json.out)["text"] == "Voss"
    assert "1. Where was <dep:0> born?" in plan.out
    assert "s0 --> s1" in mermaid.out
    shown = run("trace", "show", trace)
    assert shown.code == 0
    for words in (question, "Who made Harbour Lights?", "tokens", "text 0.", "run.finished", "Voss"):
        assert words in shown.out
    check_refusal(run("trace", "show", trace, "--run", "zzz"), "no run")
    check_refusal(run("trace", "show", tmp_path / "none"), "Cannot read")
    trace.write_text('{"a": 1}\n{"b": 2}\n')
    check_refusal(run("trace", "show", trace), "line 1")


def test_tools_and_help(run: Run, corpus: Path) -> None:
    listed = json.loads(run("tools", "-c", corpus, "--json").out)
    assert {"text", "lexical", "dag", "single"} <= {row["name"] for row in listed}
    assert run("--version").out.startswith("hoptrail ")
    assert "ask" in run("--help").out
    assert run("ask").code == 2
    assert run("no-such-command").code == 2


def test_what_a_shell_can_pass_is_refused_in_one_line(
    run: Run, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_refusal(run("tools", "-c", "x" * 5_000), "corpus")
    check_refusal(run("tools", "-c", "a\x1b[31mb\nc"), "hoptrail index")
    assert "\x1b" not in run("tools", "-c", "a\x1b[31mb\nc").err
    os.mkfifo(tmp_path / "pipe.txt")
    check_refusal(run("index", tmp_path / "pipe.txt", "-c", corpus), "neither a file nor a folder")
    check_refusal(run("index", tmp_path, "-c", tmp_path / "new", "--embedding-model", "[/]"), "neither a folder")
    monkeypatch.setenv("HOPTRAIL_FALLBACK_TOOLS", "text")
    check_refusal(run("tools", "-c", corpus), "fallback_tools")


def test_documents_are_deleted_and_counted(run: Run, corpus: Path, tmp_path: Path) -> None:
    before = json.loads(run("status", "-c", corpus, "--json").out)
    assert (before["documents"], before["unembedded"], before["complete"]) == (3, 0, True)
    check_refusal(run("delete", "a", "no-such", "-c", corpus), "no document 'no-such'", "nothing was deleted")
    assert json.loads(run("status", "-c", corpus, "--json").out) == before
    deleted = run("delete", "a", "a", "-c", corpus)
    assert "1 documents deleted, 1 passages" in deleted.out, deleted.err
    shown = run("status", "-c", corpus)
    assert shown.code == 0
    assert any(line.split() == ["documents", "2"] for line in shown.out.splitlines())
    check_refusal(run("delete", "a", "-c", corpus), "no document 'a'")
    check_refusal(run("delete", "a", "-c", tmp_path / "none"), "hoptrail index")
    assert not (tmp_path / "none").exists()
    check_refusal(run("status", "-c", tmp_path / "none"), "hoptrail index")
