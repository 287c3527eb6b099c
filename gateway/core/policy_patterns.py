"""Regular expressions of policies, in time that grows with the text only (9.4).

The standard library's engine backtracks: one pattern such as `(a+)+$` and one unlucky address would stop a worker
that all companies share. RE2 does not, and has no look-around and no back-references for that. What is left is the
size of a pattern's program times the length of the text, so both are bounded.
"""

from __future__ import annotations

from typing import Final

import re2

MAX_PATTERN: Final = 1_000
"""Characters of one pattern."""
MAX_PROGRAM: Final = 1_000
"""Steps of the program that one pattern becomes; a text is compared in at most so many times its bytes."""
MAX_PROGRAMS: Final = 5_000
"""Steps of all patterns of one bundle."""
MAX_TEXT: Final = 8_192
"""Bytes of a text that is compared. A longer one cannot be compared, which no `deny` lets pass."""
_MEMORY: Final = 262_144


class PatternRefused(ValueError):
    """The message ends the sentence "must be …"."""


class Pattern:
    """A pattern, compiled. It may match anywhere in a text; `^` and `$` tie it to the text's start and end."""

    __slots__ = ("_search", "size", "text")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN:
            raise PatternRefused(f"at most {MAX_PATTERN:,} characters long")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _MEMORY
        try:
            compiled = re2.compile(text, options)
        except re2.error as wrong:
            said = wrong.args[0] if wrong.args else ""
            words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            # The library repeats the pattern behind the colon; messages repeat no values.
            raise PatternRefused(f"a regular expression as RE2 has them: {words.partition(':')[0]}") from None
        self.text = text
        self.size = int(compiled.programsize)
        if self.size > MAX_PROGRAM:
            raise PatternRefused("a smaller regular expression: its repetitions make it too large to compare with")
        self._search = compiled.search

    def found_in(self, text: str) -> bool | None:
        """Whether it matches somewhere; None if the text is too long to say."""
        data = text.encode("utf-8", "surrogatepass")
        return None if len(data) > MAX_TEXT else self._search(data) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"
