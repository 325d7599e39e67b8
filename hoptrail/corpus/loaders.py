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
from typing import Any, BinaryIO, Literal

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
        try:
            yield from _walk(path) if path.is_dir() else _single(path, path.name)
        except OSError as error:
            yield _failure(path, f"{error.strerror or error}.")


def load_documents(paths: Iterable[Path]) -> Iterator[Document | DocumentError]:
    """Every document under `paths`, and an error for each that cannot be read.

    A second document of an id is an error too; the same one met twice is not, and is yielded once.
    """
    seen: dict[str, tuple[str, str]] = {}
    for found in find_files(paths):
        if isinstance(found, DocumentError):
            yield found
            continue
        for document in _load(*found):
            if isinstance(document, DocumentError):
                yield document
            elif document.id not in seen:
                seen[document.id] = document.source, document.digest
                yield document
            elif seen[document.id][1] != document.digest:
                yield _failure(document.source, f"its id {document.id[:80]!r} is taken by {seen[document.id][0]}.")


def _walk(folder: Path) -> Iterator[tuple[Path, str] | DocumentError]:
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        if not any(part.startswith(".") for part in inside.parts) and file.is_file():
            yield from _single(file, inside.as_posix())


def _single(path: Path, identity: str) -> Iterator[tuple[Path, str] | DocumentError]:
    if not path.exists():
        yield _failure(path, "there is no such file or folder.")
    elif not path.is_file():
        yield _failure(path, "it is neither a file nor a folder.")
    elif _kind(path) is None:
        yield _failure(path, f"files of kind {path.suffix or 'without suffix'!r} are not supported; it was left out.")
    else:
        yield path, clean(identity)


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


def _load(path: Path, identity: str) -> Iterator[Document | DocumentError]:
    reader = _kind(path)
    assert reader is not None  # noqa: S101 - find_files yields known kinds only
    try:
        yield from reader(path, identity)
    except (OSError, EOFError, zlib.error) as error:
        yield _failure(path, f"{getattr(error, 'strerror', None) or error}.")


def _rows(path: Path, _: str) -> Iterator[Document | DocumentError]:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _row(line, f"{path}:{number}")


def _row(line: bytes, source: str) -> Document | DocumentError:
    try:
        row: Any = json.loads(line.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        return _failure(source, f"the line is not JSON ({' '.join(str(error).split())[:100]}).")
    if not isinstance(row, dict):
        return _failure(source, "the line is JSON but no object.")
    identity = row.get("id", row.get("_id"))
    text, title = row.get("text"), row.get("title") or ""
    if isinstance(identity, bool) or not isinstance(identity, str | int) or not clean(str(identity)):
        return _failure(source, "the row has no `id`.")
    if not isinstance(text, str) or not isinstance(title, str):
        return _failure(source, "the row's `text` and `title` must be strings.")
    return _document(clean(str(identity)), title, text, source, "row")


def _plain(path: Path, identity: str) -> Iterator[Document | DocumentError]:
    text = path.read_bytes().decode("utf-8-sig", "replace")
    form: Form = "markup" if path.suffix.lower() in _MARKUP else "text"
    yield _document(identity, _title(text, path), text, str(path), form)


def _converted(path: Path, identity: str) -> Iterator[Document | DocumentError]:
    try:
        with path.open("rb") as file:
            result = _convert(path.suffix.lower(), file)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - the converters raise whatever their parsers raise
        reason = " ".join(f"{type(error).__name__} {error}".split())[:120]
        yield _failure(path, f"it is damaged, encrypted or not what its name says ({reason}).")
        return
    text = result.markdown or ""
    yield _document(identity, result.title or _title(text, path), text, str(path), "markup")


def _convert(suffix: str, file: BinaryIO) -> Any:
    """Convert by the kind that the name says; MarkItDown itself would take a damaged PDF for plain text."""
    from markitdown import StreamInfo, converters  # noqa: PLC0415 - takes a second

    for noisy in ("pdfminer", "pdfplumber", "markitdown"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    kinds: dict[str, Any] = {".pdf": converters.PdfConverter, ".docx": converters.DocxConverter}
    converter = kinds.get(suffix, converters.HtmlConverter)()
    return converter.convert(file, StreamInfo(extension=suffix))


def _title(text: str, path: Path) -> str:
    heading = _HEADING.search(text[:2000])
    return heading[1] if heading else path.stem.replace("_", " ")


def _document(identity: str, title: str, text: str, source: str, form: Form) -> Document | DocumentError:
    cleaned = clean(text)
    if not cleaned:
        return _failure(source, "it holds no text.")
    short = " ".join(clean(title).split())[:_TITLE_CHARS]
    return Document(id=identity, title=short, text=cleaned, source=clean(source), form=form)


def _failure(source: Path | str, reason: str) -> DocumentError:
    # File names may hold bytes that are no UTF-8, which cannot be printed.
    return DocumentError(clean(str(source)), clean(reason))
