"""The pinned facts of the embedded models."""

import re
from pathlib import Path

import pytest

from hoptrail.models.catalog import CATALOG, DEFAULT, cache_folder, find_spec


def test_pins_are_complete_and_nobodys_twice() -> None:
    hashes = [spec.sha256 for spec in CATALOG] + [archive.sha256 for spec in CATALOG for archive in spec.archives]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes)
    assert len(set(hashes)) == len(hashes) == 3 + 22 + 6 + 1
    for spec in CATALOG:
        assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", archive.requirement) for archive in spec.archives)
        assert spec.licence == "Apache-2.0"


def test_names_and_aliases_lead_to_one_model_each() -> None:
    names = [name for spec in CATALOG for name in (spec.name, *spec.aliases)]
    assert len(set(names)) == len(names)
    assert all(find_spec(f" {name.upper()} ") in CATALOG for name in names)
    assert find_spec("embedded") is DEFAULT
    assert find_spec("openai:gpt-4o") is None


def test_the_cache_can_be_put_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOPTRAIL_CACHE", str(tmp_path))
    assert DEFAULT.path == tmp_path / "models" / DEFAULT.filename
    monkeypatch.setenv("HOPTRAIL_CACHE", "~/kept")
    assert cache_folder() == Path.home() / "kept"
    monkeypatch.delenv("HOPTRAIL_CACHE")
    assert cache_folder().name == "hoptrail"
