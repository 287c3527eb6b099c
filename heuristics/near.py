"""What is near a misspelt name or verb, for the suggestions in an `unknown_tool` answer and in lint. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import fuzz, process, utils

from .lexicon import Lexicon
from .lexicon_file import default_lexicon
from .words import fold

__all__ = ["nearest", "nearest_verb"]

_LONGEST = 256
_ENOUGH = 60.0
_LONGEST_VERB = 64
_SHORTEST_VERB = 4
_ENOUGH_FOR_A_VERB = 82.0  # one slip in five letters or two swapped in six; flow is not follow


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


def nearest_verb(word: str, *, lexicon: Lexicon | None = None) -> str | None:
    """The listed verb that `word` misspells (`cancle` -> `cancel`), or None if it is one itself or resembles none.

    Words of fewer than four letters and over 64 characters resemble nothing: too many verbs lie one letter away.
    """
    tables = default_lexicon() if lexicon is None else lexicon
    folded = fold(word).lower()
    known = folded in tables.verbs or folded in tables.tails or folded in tables.heads
    if known or not _SHORTEST_VERB <= len(folded) <= _LONGEST_VERB:
        return None
    found = process.extractOne(folded, tables.misspelt, scorer=fuzz.ratio, score_cutoff=_ENOUGH_FOR_A_VERB)
    # A word that only shares its end with a verb ('elocate') is more often another word than a slip.
    return found[0] if found is not None and found[0][0] == folded[0] else None
