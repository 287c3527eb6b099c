"""What is near a misspelt name or verb, for the suggestions in an `unknown_tool` answer and in lint. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import fuzz, process, utils
from rapidfuzz.distance import OSA

from .lexicon import Lexicon
from .lexicon_file import default_lexicon
from .words import fold

__all__ = ["nearest", "nearest_verb"]

_LONGEST = 256
_ENOUGH = 60.0
_LONGEST_VERB = 64
_SHORTEST_WORD = 5
_LOOKED_AT = 5


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

    A slip is one letter more, less or another, or two neighbours swapped. Verbs of fewer than six letters are nobody's
    misspelling, since other words lie one letter away; for longer ones the tables list those words (`remote`).
    """
    tables = default_lexicon() if lexicon is None else lexicon
    folded = fold(word).lower()
    known = folded in tables.verbs or folded in tables.tails or folded in tables.heads
    if known or not _SHORTEST_WORD <= len(folded) <= _LONGEST_VERB:
        return None
    near = process.extract(folded, tables.misspelt, scorer=OSA.distance, score_cutoff=1, limit=_LOOKED_AT)
    return next((verb for verb, _distance, _place in near if _is_slip(folded, verb)), None)


def _is_slip(word: str, verb: str) -> bool:
    """Not another form of the verb (`orders`, `shared`, `recovery`) or a word that only shares its end (`elocate`)."""
    if word[0] != verb[0]:
        return False
    return not (word.startswith(verb) and word[-1] != verb[-1])
