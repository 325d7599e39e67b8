"""The embedded sentence encoder."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hoptrail.config import Settings
from hoptrail.errors import ModelFileError
from hoptrail.models import embeddings
from hoptrail.models.base import Embedder
from hoptrail.models.embeddings import open_embedder

TEXTS = [
    "The Eiffel Tower stands in Paris.",
    "a",
    "",
    "Where is the tower of Gustave Eiffel?",
    "Photosynthesis turns light into sugar. " * 80,
    "日本の首都は東京です。",
]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return open_embedder(Settings.load())


def test_it_is_known_by_the_name_of_its_weights(embedder: Embedder) -> None:
    assert (embedder.name, embedder.dimension) == ("all-MiniLM-L6-v2", 384)


def test_vectors_are_normal_and_the_same_every_time(embedder: Embedder) -> None:
    vectors = embedder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(vectors, embedder.encode(TEXTS))


def test_a_text_has_the_same_vector_alone_and_in_a_batch(embedder: Embedder) -> None:
    together = embedder.encode(TEXTS * 10)
    alone = np.vstack([embedder.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, np.tile(alone, (10, 1)))


def test_a_query_is_near_to_the_same_text_as_a_document(embedder: Embedder) -> None:
    for text in TEXTS:
        assert float(embedder.encode_query(text) @ embedder.encode([text])[0]) > 0.999


def test_what_belongs_together_is_near(embedder: Embedder) -> None:
    tower, _, _, question, plants, _ = embedder.encode(TEXTS)
    assert tower @ question > 0.6
    assert plants @ question < 0.3


def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert embedder.encode([]).shape == (0, 384)


def test_a_text_that_is_no_unicode_is_encoded_all_the_same(embedder: Embedder) -> None:
    assert np.isfinite(embedder.encode(["half a pair \ud800"])).all()


def test_threads_take_turns(embedder: Embedder) -> None:
    expected = embedder.encode(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(embedder.encode, [TEXTS] * 8):
            np.testing.assert_array_equal(found, expected)


def test_it_is_loaded_once_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    load = embeddings._open

    def slow(path: str, *, local: bool) -> object:
        loads.append(threading.get_ident())
        time.sleep(0.1)
        return load(path, local=local)

    monkeypatch.setattr(embeddings, "_open", slow)
    embeddings._load.cache_clear()
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: open_embedder(Settings.load()), range(3)))
        assert loads == []
        list(pool.map(lambda encoder: encoder.encode(["text"]), found))
    assert len(loads) == 1
    assert all(each is found[0] for each in found)


def test_a_folder_is_an_encoder_too(embedder: Embedder) -> None:
    folder = embeddings.embedded_folder()
    assert folder is not None
    same = open_embedder(Settings.load(embedding_model=str(folder)))
    assert same.name == "model"
    short = [text for text in TEXTS if len(text) < 300]
    assert float((same.encode(short) * embedder.encode(short)).sum(axis=1).min()) > 0.999


def test_a_long_text_is_the_mean_of_its_head_and_the_whole(embedder: Embedder) -> None:
    plain = open_embedder(Settings.load(embedding_model=str(embeddings.embedded_folder())))
    start, end = "harbour " * 120, "lighthouse " * 100
    head, whole = plain.encode([start + "harbour " * 6]), plain.encode([start + end])
    mean = (head + whole) / np.linalg.norm(head + whole)
    # The head is cut by tokens, the copy here by words, hence not to the last digit.
    assert float((embedder.encode([start + end]) @ mean.T)[0, 0]) > 0.99
    assert float((embedder.encode([start + end]) @ whole.T)[0, 0]) < 0.999
    texts = ["short", start + end, "another"]
    np.testing.assert_array_equal(embedder.encode(texts), np.vstack([embedder.encode([t]) for t in texts]))


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="holds no embedding model") as refused:
        open_embedder(Settings.load(embedding_model=str(tmp_path)))
    assert "\n" not in str(refused.value)


def test_a_hub_name_that_is_not_here_is_refused_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(ModelFileError, match="nobody/no-model") as refused:
        open_embedder(Settings.load(embedding_model="nobody/no-model"))
    assert time.monotonic() - began < 3
    assert "\n" not in str(refused.value)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "_PACKAGE", "gt_absent")
    embeddings._load.cache_clear()
    with pytest.raises(ModelFileError, match=r"hoptrail\[embedded\]"):
        open_embedder(Settings.load())


def test_loading_is_silent_and_sets_waiting_threads_to_sleep() -> None:
    code = """
import os
os.environ.pop("OMP_WAIT_POLICY", None)
from hoptrail.config import Settings
from hoptrail.models.embeddings import open_embedder
open_embedder(Settings()).encode(["a text"])
print(os.environ["OMP_WAIT_POLICY"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("passive\n", "")
