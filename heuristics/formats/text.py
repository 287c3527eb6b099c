"""From bytes to text, and from an offset in it to line and column."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from typing import Final

from heuristics.declared_tool import Place
from heuristics.formats.limits import MAX_BYTES
from heuristics.formats.source import Spot
from heuristics.formats.unreadable import UnreadableSource

__all__ = ["Lines", "decode"]

# Longest first: the mark of UTF-32 begins with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode(data: bytes, path: str) -> str:
    """UTF-8, or what a byte order mark says. Raises UnreadableSource, also for what is too big."""
    if len(data) > MAX_BYTES:
        raise UnreadableSource(f"has {len(data):,} bytes; at most {MAX_BYTES:,} are read", Place(path))
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as broken:
        line = data.count(b"\n", 0, broken.start) + 1
        label = encoding.removesuffix("-sig").upper()
        raise UnreadableSource(
            f"is not {label} text: byte {broken.start:,} cannot be read", Place(path, line, 1)
        ) from None
    if "\0" in text:
        raise UnreadableSource("is not a text: it holds zero bytes", Place(path, *Lines(text).spot(text.index("\0"))))
    return text


class Lines:
    """Where a text's lines begin, counted when first asked for. A line ends with LF, as in CR LF."""

    __slots__ = ("_starts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []

    def spot(self, offset: int) -> Spot:
        starts = self._starts
        if not starts:
            starts.append(0)
            for line in self._text.split("\n"):
                starts.append(starts[-1] + len(line) + 1)
        line_number = bisect_right(starts, offset, hi=len(starts) - 1)
        return line_number, offset - starts[line_number - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column."""
        self.spot(0)
        return self._starts[line - 1] + column - 1
