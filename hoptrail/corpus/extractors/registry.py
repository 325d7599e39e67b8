"""The extractor that the settings name."""

from hoptrail.config import Settings
from hoptrail.corpus.extraction import Extractor
from hoptrail.corpus.extractors.offline import OfflineExtractor

__all__ = ["open_extractor"]


def open_extractor(settings: Settings) -> Extractor | None:
    """The extractor that the settings name; `None` for `none`."""
    if settings.extractor == "offline":
        return OfflineExtractor()
    if settings.extractor == "llm":
        from hoptrail.corpus.extractors.llm import LlmExtractor  # noqa: PLC0415 - the clients take seconds

        return LlmExtractor(settings)
    return None
