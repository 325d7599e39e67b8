import functools
import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from hypothesis import HealthCheck, settings

from hoptrail.config import Settings
from hoptrail.corpus.indexing import index
from hoptrail.corpus.place import Place
from hoptrail.models.base import Embedder
from hoptrail.models.catalog import DEFAULT
from hoptrail.models.embeddings import open_embedder
from hoptrail.models.pull import locate

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"

settings.register_profile("hoptrail", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hoptrail")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own HOPTRAIL_* variables must not decide whether tests pass."""
    for name in list(os.environ):
        if name.startswith("HOPTRAIL_") and name != "HOPTRAIL_CACHE":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the evaluation data is not beside the project ({SHARED})")
    return SHARED


@pytest.fixture(scope="session")
def embedded_llm() -> None:
    if locate(DEFAULT) is None:
        pytest.skip(f"the embedded model {DEFAULT.name} is not here: run `hoptrail models pull`")


@pytest.fixture(scope="session")
def sample() -> Path:
    return ROOT / "hoptrail" / "data" / "sample"


@pytest.fixture(scope="session")
def encoder() -> Callable[[], Embedder]:
    """Opens the embedded encoder, loaded once for all tests."""
    return functools.partial(open_embedder, Settings())


@pytest.fixture(scope="session")
def mini() -> Path:
    """50 passages of MuSiQue; `mini.questions.jsonl` beside it has 9 questions on them."""
    return ROOT / "tests" / "data" / "mini.jsonl"


@pytest.fixture(scope="session")
def mini_corpus(mini: Path, encoder: Callable[[], Embedder], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the corpus of these passages; tests only read it."""
    folder = tmp_path_factory.mktemp("mini") / "corpus"
    index([mini], Place(folder), encoder)
    return folder
