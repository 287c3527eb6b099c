"""Finds the verb that a name's words turn on (promise 3.2). Pure; the words' meanings come from the Lexicon.

The rules, in the order they are tried:

1. modifiers in front (`bulk_`) and noise at the end (`_tool`) are dropped, two-word phrases (`check in`) made one;
2. `and`/`or` joining a mutating verb to the rest makes it side-effecting, whatever leads;
3. in a camel-case operation id that no verb leads, the HTTP method at its end decides (`CartsByIdDelete`);
4. a read verb where no object can follow (`deploy_plan_get`), or `get` behind an object, outweighs an earlier verb;
5. otherwise the first verb decides. Words that are nouns as often as verbs count in front position only, and a read
   word that is also a noun gives way to a mutating verb that ends the name (`price_list_update`);
6. a name without a verb is a read if its last word names data that is only ever shown (`payment_status`).
"""

from __future__ import annotations

from collections.abc import Mapping

from .judgement import FRONT, MUTATING, NOUN_READS, READS, Judgement
from .lexicon import Entry, Lexicon, Role
from .nouns import by_noun, clause_end, closing_verb, front_as_noun, noun_before, object_first

__all__ = ["METHODS", "Judgement", "judge"]

# The methods that operation ids carry, and whether they write.
METHODS = {"get": False, "head": False, "options": False, "post": True, "put": True, "patch": True, "delete": True}


def judge(words: list[str], lexicon: Lexicon, *, camel_http: bool = False) -> Judgement | None:
    """None if the tables know no verb here. `camel_http`: words come from a camel-case operation id (`PostCarts…`)."""
    words, entries = _parse(words, lexicon)
    if not words:
        return None
    joined = _joined_verb(words, entries, lexicon)
    if joined is not None:
        return joined
    lead = _lead(entries, camel_http)
    if lead is None:
        if camel_http and (by_method := _by_method(words, entries, len(words))) is not None:
            return by_method
        return by_noun(words, entries, lexicon)
    entry = entries[lead]
    assert entry is not None  # _lead gives only places of known words
    if camel_http and (by_method := _by_method(words, entries, lead)) is not None:
        return by_method
    end = clause_end(entries, lead)
    if entry.role in READS or entry.role is Role.HTTP_READ:
        return _from_read(words, entries, lead, end, lexicon)
    return _from_mutating(words, entries, lead, end, lexicon, camel_http)


def _parse(words: list[str], lexicon: Lexicon) -> tuple[list[str], list[Entry | None]]:
    """The words that count, with their entries: modifiers, noise and digits at the ends dropped, phrases joined."""
    verbs, noise, phrases = lexicon.verbs, lexicon.noise, lexicon.phrases
    end = len(words)
    while end > 1 and (words[end - 1] in noise or words[end - 1].isdigit()):
        end -= 1
    start = 0
    while start < end - 1:
        entry = verbs.get(words[start])
        if entry is None or entry.role is not Role.MODIFIER:
            break
        start += 1
    kept: list[str] = []
    entries: list[Entry | None] = []
    place = start
    while place < end:
        word = words[place]
        if word in phrases and place + 1 < end and (pair := phrases[word].get(words[place + 1])) is not None:
            kept.append(pair.word)
            entries.append(pair)
            place += 2
            continue
        entry = verbs.get(word)
        if entry is None and len(word) > 8 and (parts := _unglued(word, verbs)) is not None:
            kept += parts
            entries += [verbs[part] for part in parts]
        else:
            kept.append(word)
            entries.append(entry)
        place += 1
    return kept, entries


def _unglued(word: str, verbs: Mapping[str, Entry]) -> tuple[str, str, str] | None:
    """`createorupdate` as three words: a verb, a conjunction and a verb run together."""
    for joint in ("or", "and"):
        first, found, second = word.partition(joint)
        if found and first in verbs and second in verbs:
            return first, joint, second
    return None


def _lead(entries: list[Entry | None], camel_http: bool) -> int | None:
    """The place of the verb that the name turns on: the front word if it can be a verb, else the first plain verb."""
    for place, entry in enumerate(entries):
        if entry is None:
            continue
        role = entry.role
        if role in MUTATING or role in READS:
            return place
        if place == 0 and (role in FRONT or (camel_http and role is Role.HTTP_READ)):
            return place
    return None


def _joined_verb(words: list[str], entries: list[Entry | None], lexicon: Lexicon) -> Judgement | None:
    """A mutating verb behind `and`/`or` (3.2); a front word there is one too, unless a noun for data ends the name."""
    for place, entry in enumerate(entries[:-1]):
        if entry is None or place == 0:
            continue
        if entry.role is Role.JOINED:
            return Judgement(True, words[place], f"'{words[place]}' {entry.why}")
        if entry.role is not Role.CONJUNCTION or (len(words[place]) == 1 and words[place - 1].isdigit()):
            continue  # 'a11y' is no 'y'
        after = place + 1
        while after < len(entries) - 1 and (skipped := entries[after]) is not None and skipped.role is Role.MODIFIER:
            after += 1
        second = entries[after]
        if second is None:
            continue
        last = words[-1]
        if second.role in MUTATING or (
            second.role in FRONT
            and last not in lexicon.tails
            and last not in lexicon.reading_objects.get(second.word, ())
        ):
            return Judgement(True, words[after], f"'{words[place]}' joins '{words[after]}', which {second.why}")
    return None


def _from_read(words: list[str], entries: list[Entry | None], lead: int, end: int, lexicon: Lexicon) -> Judgement:
    entry = entries[lead]
    assert entry is not None
    if entry.role in NOUN_READS:
        closing = closing_verb(entries, lead, end)
        if closing is not None:
            return noun_before(words, entries, closing, lead)
    acting = lexicon.acting_objects.get(words[lead])
    if acting is not None and (last := words[end - 1]) in acting:
        return Judgement(True, words[lead], f"'{words[lead]} … {last}' {acting[last]}")
    return Judgement(False, words[lead], f"'{words[lead]}' {entry.why}")


def _by_method(words: list[str], entries: list[Entry | None], lead: int) -> Judgement | None:
    """The HTTP method that ends a camel-case operation id (`CartsByIdPost`), if no verb leads it (`listPost`)."""
    last, entry = words[-1], entries[-1]
    if entry is None or len(words) == 1 or last not in METHODS:
        return None
    before = entries[lead] if lead < len(entries) - 1 else None
    if before is not None and before.role in (*READS, *MUTATING) and (lead == 0 or last == "post"):
        return None  # search and lookup are POSTed everywhere
    return Judgement(METHODS[last], last, f"'{last}' is the HTTP method that ends the operation's name")


def _from_mutating(
    words: list[str], entries: list[Entry | None], lead: int, end: int, lexicon: Lexicon, camel_http: bool
) -> Judgement:
    entry = entries[lead]
    assert entry is not None
    word, last = words[lead], words[end - 1]
    act = Judgement(True, word, f"'{word}' {entry.why}")
    if (got := object_first(words, entries, lead)) is not None:
        return got
    if end - 1 == lead:
        return act
    closing = entries[-1]
    if end < len(entries) and closing is not None and closing.role in (*MUTATING, Role.HTTP_WRITE):
        return act
    objects = lexicon.reading_objects.get(word)
    if objects is not None and last in objects:
        return Judgement(False, word, f"'{word} … {last}' {objects[last]}")
    if entry.role in MUTATING or entry.role is Role.DISPATCHER or (camel_http and entry.role is Role.HTTP_WRITE):
        return act
    return front_as_noun(words, entries, lead, end, lexicon) or act
