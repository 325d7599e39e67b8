"""Corpora of data sets, indexed once and kept."""

import functools
import hashlib
from pathlib import Path

from hoptrail.config import Settings
from hoptrail.corpus.extractors.registry import open_extractor
from hoptrail.corpus.indexing import IndexProgress, index
from hoptrail.errors import ConfigurationError
from hoptrail.evals.datasets import DataSet
from hoptrail.models.embeddings import open_embedder

__all__ = ["indexed"]


def indexed(data: DataSet, work: Path, settings: Settings, progress: IndexProgress | None = None) -> Path:
    """The folder of the set's corpus under `work`, brought up to date.

    Its name tells the set, the encoder, the extractor and the corpus file's content: passages of a former version never
    stay behind.

    Raises:
        ConfigurationError: A passage of the set cannot be read; measures over a part of a corpus would flatter.
    """
    try:
        digest = hashlib.sha256(data.corpus.read_bytes()).hexdigest()[:8]
    except OSError as error:
        raise ConfigurationError(f"Cannot read {data.corpus}: {error.strerror or error}.") from None
    extractor = open_extractor(settings)
    parts = data.name, settings.embedding_model.replace("/", "-"), settings.extractor, digest
    folder = work / "-".join(parts)
    embedder = functools.partial(open_embedder, settings)
    done = index([data.corpus], folder, embedder, extractor=extractor, progress=progress)
    if done.failed:
        raise ConfigurationError(f"{len(done.failed)} passages of set {data.name} were left out. {done.failed[0]}")
    return folder
