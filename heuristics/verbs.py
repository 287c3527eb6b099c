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
from dataclasses import dataclass

from .lexicon import Entry, Lexicon, Role

__all__ = ["METHODS", "Judgement", "judge"]

_MUTATING = (Role.MUTATING, Role.MUTATING_OR_NOUN)
_FRONT = (Role.FRONT, Role.ACT, Role.DISPATCHER, Role.HTTP_WRITE)
_PLAIN_READS = (Role.GET, Role.READ)
_NOUN_READS = (Role.READ_OR_NOUN, Role.NOUN_OR_READ)
_READS = (*_PLAIN_READS, *_NOUN_READS, Role.QUESTION)

# The methods that operation ids carry, and whether they write.
METHODS = {"get": False, "head": False, "options": False, "post": True, "put": True, "patch": True, "delete": True}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the words say: `verb` is the word that decided, None when a noun did."""

    side_effecting: bool
    verb: str | None
    reason: str


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
        return _by_noun(words, entries, lexicon)
    entry = entries[lead]
    assert entry is not None  # _lead gives only places of known words
    if camel_http and (by_method := _by_method(words, entries, lead)) is not None:
        return by_method
    end = _clause_end(entries, lead)
    if entry.role in _READS or entry.role is Role.HTTP_READ:
        return _from_read(words, entries, lead, end)
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
        if role in _MUTATING or role in _READS:
            return place
        if place == 0 and (role in _FRONT or (camel_http and role is Role.HTTP_READ)):
            return place
    return None


def _clause_end(entries: list[Entry | None], lead: int) -> int:
    """Where the verb's part of the name ends: the first preposition behind it (`search_by_update_time`)."""
    for place in range(lead + 1, len(entries)):
        entry = entries[place]
        if entry is not None and entry.role is Role.PREPOSITION:
            return place
    return len(entries)


def _joined_verb(words: list[str], entries: list[Entry | None], lexicon: Lexicon) -> Judgement | None:
    """A mutating verb behind `and`/`or` (3.2); a front word there is one too, unless a noun for data ends the name."""
    for place, entry in enumerate(entries[:-1]):
        if entry is None or place == 0:
            continue
        if entry.role is Role.JOINED:
            return Judgement(True, words[place], f"'{words[place]}' {entry.why}")
        if entry.role is not Role.CONJUNCTION:
            continue
        after = place + 1
        while after < len(entries) - 1 and (skipped := entries[after]) is not None and skipped.role is Role.MODIFIER:
            after += 1
        second = entries[after]
        if second is None:
            continue
        last = words[-1]
        if second.role in _MUTATING or (
            second.role in _FRONT
            and last not in lexicon.tails
            and last not in lexicon.reading_objects.get(second.word, ())
        ):
            return Judgement(True, words[after], f"'{words[place]}' joins '{words[after]}', which {second.why}")
    return None


def _from_read(words: list[str], entries: list[Entry | None], lead: int, end: int) -> Judgement:
    entry = entries[lead]
    assert entry is not None
    if entry.role in _NOUN_READS:
        closing = _closing_verb(entries, lead, end)
        if closing is not None:
            return _noun_before(words, entries, closing, lead)
    return Judgement(False, words[lead], f"'{words[lead]}' {entry.why}")


def _noun_before(words: list[str], entries: list[Entry | None], verb: int, noun: int) -> Judgement:
    """The verb at one place decides, since the word at the other turned out to be a noun."""
    entry = entries[verb]
    assert entry is not None
    reason = f"'{words[verb]}' {entry.why}; '{words[noun]}' is a noun before it"
    return Judgement(entry.role in _MUTATING, words[verb], reason)


def _closing_verb(entries: list[Entry | None], lead: int, end: int) -> int | None:
    """The mutating verb that shows the read word at `lead` to be a noun, if there is one.

    In front (`search_reindex`) only a verb that is never a noun shows that, and only with no question between
    (`check_if_can_cancel`); after other words (`price_list_update`) the next verb does.
    """
    front, closing = entries[lead], entries[end - 1]
    if lead == 0:
        if closing is None or end == 1:
            return None
        noun = front is not None and front.role is Role.NOUN_OR_READ and end > 2
        if closing.role is not Role.MUTATING and not (noun and closing.role is Role.MUTATING_OR_NOUN):
            return None
        between = entries[lead + 1 : end - 1]
        asked = any(entry is not None and entry.role in (Role.QUESTION, *_PLAIN_READS) for entry in between)
        return None if asked else end - 1
    for place in (lead + 1, end - 1):
        if lead < place < end and (entry := entries[place]) is not None and entry.role in _MUTATING:
            return place
    return None


def _by_method(words: list[str], entries: list[Entry | None], lead: int) -> Judgement | None:
    """The HTTP method that ends a camel-case operation id (`CartsByIdPost`), if no verb leads it (`listPost`)."""
    last, entry = words[-1], entries[-1]
    if entry is None or len(words) == 1 or last not in METHODS:
        return None
    before = entries[lead] if lead < len(entries) - 1 else None
    if before is not None and before.role in (*_READS, *_MUTATING) and (lead == 0 or last == "post"):
        return None  # search and lookup are POSTed everywhere
    return Judgement(METHODS[last], last, f"'{last}' is the HTTP method that ends the operation's name")


def _from_mutating(
    words: list[str], entries: list[Entry | None], lead: int, end: int, lexicon: Lexicon, camel_http: bool
) -> Judgement:
    entry = entries[lead]
    assert entry is not None
    word, last = words[lead], words[end - 1]
    act = Judgement(True, word, f"'{word}' {entry.why}")
    if (got := _object_first(words, entries, lead)) is not None:
        return got
    if end - 1 == lead:
        return act
    closing = entries[-1]
    if end < len(entries) and closing is not None and closing.role in (*_MUTATING, Role.HTTP_WRITE):
        return act
    objects = lexicon.reading_objects.get(word)
    if objects is not None and last in objects:
        return Judgement(False, word, f"'{word} … {last}' {objects[last]}")
    if entry.role in _MUTATING or entry.role is Role.DISPATCHER or (camel_http and entry.role is Role.HTTP_WRITE):
        return act
    return _front_as_noun(words, entries, lead, end, lexicon) or act


def _object_first(words: list[str], entries: list[Entry | None], lead: int) -> Judgement | None:
    """A read verb that could not follow a verb: at the very end, or one that only fetches, behind an object."""
    last = len(words) - 1
    for place in range(lead + 1, len(words)):
        entry = entries[place]
        if entry is None:
            continue
        if (place == last and entry.role in _PLAIN_READS) or (place > lead + 1 and entry.role is Role.GET):
            return _noun_before(words, entries, place, lead)
    return None


def _front_as_noun(
    words: list[str], entries: list[Entry | None], lead: int, end: int, lexicon: Lexicon
) -> Judgement | None:
    """A front word that other words show to be a noun: `order_list`, `refund_status`, `book_get_price`."""
    front = entries[lead]
    assert front is not None
    last = end - 1
    tail = lexicon.tails.get(words[last])
    near = last == lead + 1
    if front.role is Role.ACT:
        return _act_as_noun(words, entries, lead, end, lexicon)
    for place in range(lead + 1, end):
        entry = entries[place]
        if entry is None:
            continue
        if entry.role in _MUTATING:
            return Judgement(True, words[place], f"'{words[place]}' {entry.why}")
        if entry.role in _NOUN_READS and place < last and (closing := _closing_verb(entries, place, end)) is not None:
            return _noun_before(words, entries, closing, place)
        if entry.role in _PLAIN_READS or (entry.role in _NOUN_READS and place in (lead + 1, last)):
            return _noun_before(words, entries, place, lead)
    for place in range(lead + 1, end):
        mark = lexicon.tails.get(words[place])
        if mark is not None and mark.role is Role.READ_MARK:
            return Judgement(False, None, f"'{words[place]}' {mark.why}")
    if tail is not None and (near or tail.role is not Role.AMOUNT):
        return Judgement(False, None, f"'{words[last]}' {tail.why}")
    return None


def _act_as_noun(
    words: list[str], entries: list[Entry | None], lead: int, end: int, lexicon: Lexicon
) -> Judgement | None:
    """An act that the word right behind it shows to be a noun: `request_status`, `mail_list_orders`."""
    word, behind = words[lead + 1], entries[lead + 1]
    if behind is not None:
        listed = word in lexicon.reading_objects.get(words[lead], ())
        if behind.role in _NOUN_READS and (closing := _closing_verb(entries, lead + 1, end)) is not None:
            return _noun_before(words, entries, closing, lead)
        if behind.role in _PLAIN_READS or (behind.role in _NOUN_READS and listed):
            return _noun_before(words, entries, lead + 1, lead)
    tail = lexicon.tails.get(word)
    if end - 1 == lead + 1 and tail is not None and tail.role is Role.READ_NOUN:
        return Judgement(False, None, f"'{word}' {tail.why}")
    return None


def _by_noun(words: list[str], entries: list[Entry | None], lexicon: Lexicon) -> Judgement | None:
    """A name without a verb: what its first and last words say of the data it names."""
    head = lexicon.heads.get(words[0])
    if head is not None:
        alone = head.role is Role.READ_ALONE
        if len(words) == 1 if alone else not any(entry is not None and entry.role in _FRONT for entry in entries):
            return Judgement(False, None, f"'{words[0]}' {head.why}")
    end = _clause_end(entries, 0)
    for place in range(end):
        tail = lexicon.tails.get(words[place])
        if tail is not None and (place == end - 1 or tail.role is Role.READ_MARK):
            return Judgement(False, None, f"'{words[place]}' {tail.why}, and there is no verb")
    return None
