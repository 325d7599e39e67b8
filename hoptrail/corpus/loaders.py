"""From files to documents. A file that cannot be read is reported and never stops the others.

JSONL rows keep their own ids; a file's id is its path relative to the folder that was given, so that the same folder has
the same ids wherever it lies.
"""

import gzip
import json
import logging
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from hoptrail.corpus.text import clean
from hoptrail.corpus.types import Document
from hoptrail.errors import DocumentError

__all__ = ["find_files", "load_documents"]

_HEADING = re.compile(r"^#{1,3}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_CONVERTED = frozenset({".pdf", ".docx", ".html", ".htm"})
_PLAIN = frozenset({".txt", ".text", ".md", ".markdown", ".rst"})
_LINES = frozenset({".jsonl", ".ndjson"})
_MARKUP = frozenset({".md", ".markdown"})
_TITLE_CHARS = 200

Form = Literal["row", "text", "markup"]


def find_files(paths: Iterable[Path]) -> Iterator[tuple[Path, str] | DocumentError]:
    """The files under `paths` with their ids, folders walked in sorted order, hidden files left out.

    Raises nothing: a path that does not exist and a file of an unknown kind are yielded as errors.
    """
    for path in paths:
        if path.is_dir():
            for file in sorted(p for p in path.rglob("*") if p.is_file()):
                inside = file.relative_to(path)
                if any(part.startswith(".") for part in inside.parts):
                    continue
                yield (file, inside.as_posix()) if _kind(file) else _unknown(file)
        elif not path.exists():
            yield DocumentError(path, "there is no such file or folder.")
        else:
            yield (path, path.name) if _kind(path) else _unknown(path)


def load_documents(paths: Iterable[Path]) -> Iterator[Document | DocumentError]:
    """Every document under `paths`, and an error for each that cannot be read; a second document of an id is an error."""
    seen: dict[str, str] = {}
    for found in find_files(paths):
        if isinstance(found, DocumentError):
            yield found
            continue
        for document in _load(*found):
            if isinstance(document, Document):
                if document.id in seen:
                    yield DocumentError(document.source, f"its id {document.id!r} is taken by {seen[document.id]}.")
                    continue
                seen[document.id] = document.source
            yield document


def _kind(path: Path) -> Callable[[Path, str], Iterator[Document | DocumentError]] | None:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
        return _rows if suffix in _LINES else None
    if suffix in _LINES:
        return _rows
    if suffix in _PLAIN:
        return _plain
    return _converted if suffix in _CONVERTED else None


def _unknown(path: Path) -> DocumentError:
    return DocumentError(path, f"files of kind {path.suffix or 'without suffix'!r} are not supported; it was left out.")


def _load(path: Path, identity: str) -> Iterator[Document | DocumentError]:
    reader = _kind(path)
    assert reader is not None  # noqa: S101 - find_files yields known kinds only
    try:
        yield from reader(path, identity)
    except (OSError, EOFError, zlib.error) as error:
        yield DocumentError(path, f"{getattr(error, 'strerror', None) or error}.")


def _rows(path: Path, _: str) -> Iterator[Document | DocumentError]:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _row(line, f"{path}:{number}")


def _row(line: bytes, source: str) -> Document | DocumentError:
    try:
        row: Any = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        return DocumentError(source, f"the line is not JSON ({' '.join(str(error).split())[:100]}).")
    if not isinstance(row, dict):
        return DocumentError(source, "the line is JSON but no object.")
    identity = row.get("id", row.get("_id"))
    text, title = row.get("text"), row.get("title") or ""
    if isinstance(identity, bool) or not isinstance(identity, str | int) or not str(identity).strip():
        return DocumentError(source, "the row has no `id`.")
    if not isinstance(text, str) or not isinstance(title, str):
        return DocumentError(source, "the row's `text` and `title` must be strings.")
    return _document(clean(str(identity)), title, text, source, "row")


def _plain(path: Path, identity: str) -> Iterator[Document | DocumentError]:
    text = path.read_bytes().decode("utf-8-sig", "replace")
    form: Form = "markup" if path.suffix.lower() in _MARKUP else "text"
    yield _document(identity, _title(text, path), text, str(path), form)


def _converted(path: Path, identity: str) -> Iterator[Document | DocumentError]:
    try:
        result = _converter().convert_local(str(path))
    except Exception as error:  # noqa: BLE001 - the converters raise whatever their parsers raise
        reason = " ".join(f"{type(error).__name__} {error}".split())[:120]
        yield DocumentError(path, f"it is damaged, encrypted or not what its name says ({reason}).")
        return
    text = result.markdown or ""
    yield _document(identity, result.title or _title(text, path), text, str(path), "markup")


def _converter() -> Any:
    from markitdown import MarkItDown  # noqa: PLC0415 - takes a second

    for noisy in ("pdfminer", "pdfplumber", "markitdown"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    return MarkItDown(enable_plugins=False)


def _title(text: str, path: Path) -> str:
    heading = _HEADING.search(text[:2000])
    return heading[1] if heading else path.stem.replace("_", " ")


def _document(identity: str, title: str, text: str, source: str, form: Form) -> Document | DocumentError:
    cleaned = clean(text)
    if not cleaned:
        return DocumentError(source, "it holds no text.")
    return Document(
        id=identity, title=" ".join(clean(title).split())[:_TITLE_CHARS], text=cleaned, source=source, form=form
    )
