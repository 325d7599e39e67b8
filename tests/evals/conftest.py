from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def small_set() -> Path:
    """A folder with set `small`: three MuSiQue questions, one of three hops, over their own passages."""
    return Path(__file__).parent / "data"
