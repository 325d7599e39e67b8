"""What a corpus is made of."""

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict

__all__ = ["Document", "Passage"]


class Document(BaseModel):
    """One source document before it is cut into passages.

    `id` is unique within a corpus and does not change when the document's text does.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    title: str
    text: str
    source: str = ""
    """Where it came from: a path, with a line number for JSONL."""

    form: Literal["row", "text", "markup"] = "text"
    """A JSONL row is a passage already; text and markup are cut into passages, markup along its headings first."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything that passages are made from: it changes when they would."""
        return hashlib.sha256(f"{self.form}\0{self.title}\0{self.text}".encode()).hexdigest()


class Passage(BaseModel):
    """One retrievable piece of a document; the unit of evidence and of citation.

    `id` is the document's id where the document is a single passage, else `document#ordinal`; also then if the document's
    own id ends in `#` and digits, so that no two documents have a passage of the same id.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    document: str
    ordinal: int
    title: str
    text: str

    @property
    def content(self) -> str:
        """What is embedded and indexed: the title, then the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text
