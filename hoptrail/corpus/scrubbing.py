"""Chroma writes its graph with room for more vectors, and into that room whatever the process's memory held.

That may be text of documents which have since been deleted, so the room is emptied before an index is put in use.
"""

import struct
from pathlib import Path

__all__ = ["scrub"]

_HEADER = struct.Struct("<iQQQQ")
"""Version, offset, how many vectors there is room for, how many there are, bytes of each: hnswlib's, as Chroma writes it."""

_LENGTH_BYTES = 4


def scrub(folder: Path) -> None:
    """Empty the unused room in the graphs under `folder`, which no client may have open."""
    for header in folder.glob("*/header.bin"):
        _, _, room, count, size = _HEADER.unpack(header.read_bytes()[: _HEADER.size])
        for name, width in (("data_level0.bin", size), ("length.bin", _LENGTH_BYTES)):
            file = header.with_name(name)
            if file.stat().st_size == room * width and count <= room:
                with file.open("r+b") as opened:
                    opened.truncate(count * width)
                    opened.truncate(room * width)
