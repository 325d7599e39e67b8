"""Corpora of data sets, indexed once and kept."""

import functools
from pathlib import Path

from hoptrail.config import Settings
from hoptrail.corpus.indexing import IndexProgress, index
from hoptrail.evals.datasets import DataSet
from hoptrail.models.embeddings import open_embedder

__all__ = ["indexed"]


def indexed(data: DataSet, work: Path, settings: Settings, progress: IndexProgress | None = None) -> Path:
    """The folder of the set's corpus under `work`, brought up to date."""
    folder = work / f"{data.name}-{settings.embedding_model.replace('/', '-')}"
    index([data.corpus], folder, functools.partial(open_embedder, settings), progress=progress)
    return folder
