"""Names near a given one, for the suggestions in an `unknown_tool` answer and in lint."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import fuzz, process, utils

__all__ = ["nearest"]

_LONGEST = 256
_ENOUGH = 60.0


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """At most `limit` of the known names that resemble `name`, most alike first, ties in alphabetical order.

    Case and separators are ignored. A name over 256 characters is nobody's misspelling and gets no suggestion.
    """
    if limit < 1 or len(name) > _LONGEST:
        return []
    candidates = sorted({candidate for candidate in known if len(candidate) <= _LONGEST})
    found = process.extract(
        name, candidates, scorer=fuzz.WRatio, processor=utils.default_process, score_cutoff=_ENOUGH, limit=limit
    )
    return [candidate for candidate, _score, _place in found]
