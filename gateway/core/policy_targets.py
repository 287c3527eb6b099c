"""Which tools or models a rule is about: exact names and globs (`*`, `?`, `[…]`), compared byte for byte. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache
from typing import Final

_WILD: Final = re.compile(r"[*?\[]")


class Targets:
    """Names and globs of which one must fit. A name that stands there letter for letter always fits, whatever signs
    are in it."""

    __slots__ = ("_globs", "_names", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns: Final = tuple(patterns)
        self._names: Final = frozenset(self.patterns)
        self._globs: Final[tuple[Callable[[str], object], ...]] = tuple(
            re.compile(translate(pattern)).match for pattern in self.patterns if _WILD.search(pattern)
        )

    def fit(self, name: str) -> bool:
        return name in self._names or any(glob(name) for glob in self._globs)

    def within(self, other: Targets) -> bool:
        """Whether every name that fits here is sure to fit there. False where that takes more than a look: at names,
        equal globs, and globs of one star at an end."""
        if not other._globs:
            return self._names <= other._names
        return all(any(covers(wide, narrow) for wide in other.patterns) for narrow in self.patterns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Targets) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        return f"Targets({self.patterns!r})"


@lru_cache(maxsize=16_384)
def covers(wide: str, narrow: str) -> bool:
    """Whether all that fits the one is sure to fit the other."""
    if wide in ("*", narrow):
        return True
    if not _WILD.search(narrow):
        return Targets((wide,)).fit(narrow)
    # Both the name that is the glob letter for letter and those that the glob stands for begin, and end, alike.
    if wide.endswith("*") and not _WILD.search(wide[:-1]):
        return _WILD.split(narrow, maxsplit=1)[0].startswith(wide[:-1])
    if wide.startswith("*") and not _WILD.search(wide[1:]):
        return re.split(r"[*?\]]", narrow)[-1].endswith(wide[1:])
    return False
