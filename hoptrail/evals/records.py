"""What became of each question, kept as JSON lines, so that an evaluation that was stopped goes on where it was."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hoptrail.errors import ConfigurationError

__all__ = ["Records"]


class Records:
    """The outcomes of one system, by question id; in memory only where `path` is `None`.

    `system` says what was measured. A file of another system is refused, since its outcomes are not this one's; a last
    line that was cut off by a kill is dropped.
    """

    def __init__(self, path: Path | None, system: Mapping[str, Any]) -> None:
        self._path = path
        self._system = dict(system)
        self._rows: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._read(path)

    def get(self, identity: str) -> dict[str, Any] | None:
        """The outcome of that question, if it is known and was no failure: what failed is tried again."""
        row = self._rows.get(identity)
        return None if row is None or "error" in row else row

    def put(self, identity: str, row: Mapping[str, Any]) -> None:
        """Keep an outcome.

        Raises:
            ConfigurationError: The file cannot be written.
        """
        self._rows[identity] = dict(row)
        if self._path is None:
            return
        line = json.dumps({"id": identity, "system": self._system, **row}, ensure_ascii=False)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise ConfigurationError(f"Cannot write {self._path}: {error.strerror or error}.") from None

    def _read(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"Cannot read {path}: {error.strerror or error}.") from None
        lines = content.splitlines(keepends=True)
        # Only a file whose other lines are outcomes may be cut: anything else is the user's, named by mistake.
        torn = lines.pop() if len(lines) > 1 and not content.endswith(b"\n") else b""
        for number, line in enumerate(lines, 1):
            self._take(path, number, line)
        if torn:
            path.write_bytes(content[: -len(torn)])

    def _take(self, path: Path, number: int, line: bytes) -> None:
        try:
            row = json.loads(line)
            identity, system = row.pop("id"), row.pop("system")
            if "measures" not in row:
                raise KeyError("measures")  # noqa: TRY301 - handled as every other fault of the line
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigurationError(
                f"{path}, line {number}: no outcome of an evaluation; delete the file or name another with --records."
            ) from None
        if system != self._system:
            raise ConfigurationError(
                f"{path}, line {number}: of another system, {_shown(system)}, not {_shown(self._system)}: "
                "name another file with --records."
            )
        self._rows[str(identity)] = row


def _shown(system: object) -> str:
    return json.dumps(system, sort_keys=True)
