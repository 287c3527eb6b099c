"""A clearer name for a tool whose name says too little: a suggestion for people, never part of a verdict. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .classify import classify
from .judgement import FRONT, MUTATING, NOUN_READS, PLAIN_READS
from .lexicon import Lexicon, Role
from .lexicon_file import default_lexicon
from .near import nearest_verb
from .words import last_segment, split

__all__ = ["suggested_name"]

_LONGEST = 64
_PLAIN = (*MUTATING, *PLAIN_READS, *NOUN_READS)
_CASED = re.compile(r"[a-z][A-Z]|^[A-Z][a-z]")


def suggested_name(name: str, *, lexicon: Lexicon | None = None) -> str | None:
    """What the tool might be called so that its name says what it does, in the style of `name`; None if it does.

    Three cases: a verb that two verbs joined by `and`/`or` hide (`get_or_create_cart` -> `create_cart`), a noun for an
    act (`order_cancellation` -> `cancel_order`), and a misspelt verb (`cancle_order` -> `cancel_order`).
    """
    tables = default_lexicon() if lexicon is None else lexicon
    if len(name) > _LONGEST or not classify(name, lexicon=tables).side_effecting:
        return None
    tail = last_segment(name) or name
    words = split(tail)
    for better in _candidates(words, tables):
        verdict = classify("_".join(better), lexicon=tables)
        if better != words and verdict.verb is not None:
            return name[: len(name) - len(tail)] + _styled(better, tail)
    return None


def _candidates(words: list[str], tables: Lexicon) -> Iterator[list[str]]:
    verbs = tables.verbs
    for place, word in enumerate(words[1:-1], start=1):
        entry, second = verbs.get(word), verbs.get(words[place + 1])
        if entry is None or entry.role is not Role.CONJUNCTION or second is None:
            continue
        if second.role in (*MUTATING, *FRONT):
            yield words[place + 1 :] if place + 2 < len(words) else [words[place + 1], *words[1:place]]
    if not words or any((entry := verbs.get(word)) is not None and entry.role in _PLAIN for word in words):
        return
    if words[-1] in tables.verb_of and len(words) > 1:
        yield [tables.verb_of[words[-1]], *words[:-1]]
    if words[0] in verbs and verbs[words[0]].role in FRONT:
        return
    for place in (0, len(words) - 1):
        if place < len(words) and (verb := nearest_verb(words[place], lexicon=tables)) is not None:
            yield [verb, *words[:place], *words[place + 1 :]]


def _styled(words: list[str], like: str) -> str:
    if _CASED.search(like) and "_" not in like and "-" not in like:
        first = words[0].title() if like[:1].isupper() else words[0]
        return first + "".join(word.title() for word in words[1:])
    return ("-" if "-" in like else "_").join(words)
