"""Names to suggest instead: the same name with another verb, one that every heuristic knows. Pure tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rapidfuzz import fuzz, process

from heuristics.lexicon import Lexicon, Role

__all__ = ["likely_verbs", "platform_names", "renamed"]

_LONGEST: Final = 64

# Verb -> those of the platform's twelve that mean the same, the nearest first.
_MEANT: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        verb: instead
        for verbs, instead in (
            ("finalise finalize complete conclude finish fulfil fulfill confirm capture settle", ("submit", "place")),
            ("buy purchase order preorder prebook repurchase", ("place", "create")),
            ("reserve rebook preempt hold schedule reschedule", ("book",)),
            ("charge recharge topup remit disburse donate repay prepay spend", ("pay",)),
            ("post", ("create", "submit")),
            ("send resend forward reply respond publish notify broadcast announce remind", ("submit", "create")),
            ("insert append prepend attach upload register enrol enroll onboard invite join import", ("add",)),
            ("make mint clone duplicate replicate fork save write generate provision open start", ("create",)),
            ("upsert put persist store configure enable disable activate deactivate toggle mark", ("set", "update")),
            ("modify edit change alter amend adjust patch rename replace revise move merge extend", ("update",)),
            ("renew refresh rotate migrate convert apply restore reopen resume unpause pause", ("update",)),
            ("erase purge destroy drop wipe trash clear discard prune", ("delete", "remove")),
            ("detach unlink unassign unset uninstall deregister unregister archive revoke", ("remove",)),
            ("void abort terminate withdraw unsubscribe stop refuse reject decline revert undo", ("cancel",)),
            ("subscribe redeem approve accept authorise authorize acknowledge sign", ("submit",)),
            ("transfer refund return exchange withdraw", ("submit", "create")),
            ("export", ("create",)),
            ("ask", ("submit",)),
        )
        for verb in verbs.split()
        for instead in [instead]
    }
)
_CHANGING: Final = (Role.MUTATING, Role.MUTATING_OR_NOUN, Role.FRONT, Role.ACT)
_READING: Final = (Role.GET, Role.READ, Role.READ_OR_NOUN)
_ALIKE: Final = 80.0


def platform_names(name: str, verb: str) -> list[str]:
    """The name with its verb replaced by those of the twelve that mean the same; empty where none does."""
    return [new for each in _MEANT.get(verb, ()) if (new := renamed(name, verb, each)) is not None]


def likely_verbs(name: str, words: list[str], lexicon: Lexicon) -> list[str]:
    """For a name without a known verb: the name with its first word as the verb that it may be a misspelling of."""
    if not words or len(name) > _LONGEST or len(words[0]) < 4:
        return []
    known = [word for word, entry in lexicon.verbs.items() if entry.role in (*_CHANGING, *_READING) and len(word) > 3]
    found = process.extract(words[0], known, scorer=fuzz.ratio, score_cutoff=_ALIKE, limit=1)
    return [new for verb, _score, _place in found if (new := renamed(name, words[0], verb)) is not None]


def renamed(name: str, verb: str, new: str) -> str | None:
    """The name with the first `verb` in it replaced, in its capitals; None where it is not found."""
    if len(name) > _LONGEST:
        return None
    found = re.search("[-_ .]?".join(map(re.escape, verb.split())), name, re.IGNORECASE)
    if found is None:
        return None
    old = found[0]
    written = new.upper() if old.isupper() and len(old) > 1 else new.capitalize() if old[0].isupper() else new
    return name[: found.start()] + written + name[found.end() :]
