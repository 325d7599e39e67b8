from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.extractors.offline import OfflineExtractor
from hoptrail.corpus.indexing import index
from hoptrail.models.base import Embedder


@pytest.fixture(scope="session")
def graph_folder(mini: Path, encoder: Callable[[], Embedder], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the corpus of 50 MuSiQue passages, with entities and relations; tests only read it."""
    folder = tmp_path_factory.mktemp("graph") / "corpus"
    report = index([mini], folder, encoder, extractor=OfflineExtractor())
    assert report.unextracted == 0
    return folder


@pytest.fixture(scope="session")
def graph_corpus(graph_folder: Path, encoder: Callable[[], Embedder]) -> Iterator[Corpus]:
    corpus = Corpus.open(graph_folder, encoder)
    yield corpus
    corpus.close()
