"""Where a corpus is: its folder, and the servers that hold its rows or vectors instead of files there."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pydantic import SecretStr

from hoptrail.config import Settings

__all__ = ["Place", "Where"]


@dataclass(frozen=True)
class Place:
    """A corpus's whereabouts.

    `folder` always holds what the tools derive; rows are in a file there, or in the PostgreSQL database at `store_url`;
    vectors are indexed there, or by the Chroma server at `chroma_url`. One database is one corpus.
    """

    folder: Path
    store_url: str | None = field(default=None, repr=False)  # may hold a password
    chroma_url: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, where: "Where") -> "Place":
        """`where` itself, or the folder that it is."""
        return where if isinstance(where, Place) else Place(where)

    @classmethod
    def configured(cls, settings: Settings) -> Self:
        """The one that the settings name."""
        return cls(settings.corpus, _secret(settings.store_url), _secret(settings.chroma_url))

    def __str__(self) -> str:
        return str(self.folder)


Where = Path | Place
"""What names a corpus: a folder is enough where no server has a part in it."""


def _secret(value: SecretStr | None) -> str | None:
    return value.get_secret_value() if value is not None else None
