"""What the words of a name say, and the groups of roles that the rules speak of. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from .lexicon import Role

__all__ = ["FRONT", "MUTATING", "NOUN_READS", "PLAIN_READS", "READS", "Judgement"]

MUTATING = (Role.MUTATING, Role.MUTATING_OR_NOUN)
FRONT = (Role.FRONT, Role.ACT, Role.DISPATCHER, Role.HTTP_WRITE)
PLAIN_READS = (Role.GET, Role.READ)
NOUN_READS = (Role.READ_OR_NOUN, Role.NOUN_OR_READ)
READS = (*PLAIN_READS, *NOUN_READS, Role.QUESTION)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the words say: `verb` is the word that decided, None when a noun did."""

    side_effecting: bool
    verb: str | None
    reason: str
