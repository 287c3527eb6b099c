"""How rules put things: quoted names that fit a line, and lists joined as one says them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["either", "joined", "quoted"]

_LONGEST: Final = 60


def quoted(name: str) -> str:
    """A name between quotes, cut where it is longer than anyone reads."""
    cut = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return f"'{cut}'"


def joined(parts: Iterable[str], word: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    listed = list(parts)
    return f" {word} ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def either(names: Sequence[str]) -> str:
    """`rename it ('a' or 'b')`, or `rename it` without suggestions."""
    return f"rename it ({joined(map(quoted, names), 'or')})" if names else "rename it"
