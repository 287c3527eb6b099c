"""When a word that could be a verb is a noun, and what a name without a verb says of its data. Pure."""

from __future__ import annotations

from .judgement import FRONT, MUTATING, NOUN_READS, PLAIN_READS, Judgement
from .lexicon import Entry, Lexicon, Role

__all__ = ["by_noun", "clause_end", "closing_verb", "front_as_noun", "noun_before", "object_first"]


def clause_end(entries: list[Entry | None], lead: int) -> int:
    """Where the verb's part of the name ends: the first preposition behind it (`search_by_update_time`)."""
    for place in range(lead + 1, len(entries)):
        entry = entries[place]
        if entry is not None and entry.role is Role.PREPOSITION:
            return place
    return len(entries)


def noun_before(words: list[str], entries: list[Entry | None], verb: int, noun: int) -> Judgement:
    """The verb at one place decides, since the word at the other turned out to be a noun."""
    entry = entries[verb]
    assert entry is not None
    reason = f"'{words[verb]}' {entry.why}; '{words[noun]}' is a noun before it"
    return Judgement(entry.role in MUTATING, words[verb], reason)


def closing_verb(entries: list[Entry | None], lead: int, end: int) -> int | None:
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
        asked = any(entry is not None and entry.role in (Role.QUESTION, *PLAIN_READS) for entry in between)
        return None if asked else end - 1
    for place in (lead + 1, end - 1):
        if lead < place < end and (entry := entries[place]) is not None and entry.role in MUTATING:
            return place
    return None


def object_first(words: list[str], entries: list[Entry | None], lead: int) -> Judgement | None:
    """A read verb that could not follow a verb: at the very end, or one that only fetches, behind an object."""
    last = len(words) - 1
    for place in range(lead + 1, len(words)):
        entry = entries[place]
        if entry is None:
            continue
        if (place == last and entry.role in PLAIN_READS) or (place > lead + 1 and entry.role is Role.GET):
            return noun_before(words, entries, place, lead)
    return None


def front_as_noun(
    words: list[str], entries: list[Entry | None], lead: int, end: int, lexicon: Lexicon
) -> Judgement | None:
    """A front word that other words show to be a noun: `order_list`, `refund_status`, `book_get_price`."""
    front = entries[lead]
    assert front is not None
    last = end - 1
    tail = lexicon.tails.get(words[last])
    near = last == lead + 1
    loose = front.role is not Role.HTTP_WRITE  # 'post-shopping-list' posts a list
    if front.role is Role.ACT:
        return _act_as_noun(words, entries, lead, end, lexicon)
    for place in range(lead + 1, end):
        entry = entries[place]
        if entry is None:
            continue
        if entry.role in MUTATING:
            return Judgement(True, words[place], f"'{words[place]}' {entry.why}")
        if entry.role in NOUN_READS and place < last and (closing := closing_verb(entries, place, end)) is not None:
            return noun_before(words, entries, closing, place)
        if entry.role in PLAIN_READS or (entry.role in NOUN_READS and (place == lead + 1 or (place == last and loose))):
            return noun_before(words, entries, place, lead)
    for place in range(lead + 1, end):
        mark = lexicon.tails.get(words[place])
        if mark is not None and mark.role is Role.READ_MARK:
            return Judgement(False, None, f"'{words[place]}' {mark.why}")
    lowers = tail is not None and tail.role is not Role.CONTENT and (near or (loose and tail.role is not Role.AMOUNT))
    if tail is not None and lowers:  # 'import_messages' imports
        return Judgement(False, None, f"'{words[last]}' {tail.why}")
    return None


def _act_as_noun(
    words: list[str], entries: list[Entry | None], lead: int, end: int, lexicon: Lexicon
) -> Judgement | None:
    """An act that the word right behind it shows to be a noun: `request_status`, `mail_list_orders`."""
    word, behind = words[lead + 1], entries[lead + 1]
    if behind is not None:
        listed = word in lexicon.reading_objects.get(words[lead], ())
        if behind.role in NOUN_READS and (closing := closing_verb(entries, lead + 1, end)) is not None:
            return noun_before(words, entries, closing, lead)
        if behind.role in PLAIN_READS or (behind.role in NOUN_READS and listed):
            return noun_before(words, entries, lead + 1, lead)
    tail = lexicon.tails.get(word)
    if end - 1 == lead + 1 and tail is not None and tail.role is Role.READ_NOUN:
        return Judgement(False, None, f"'{word}' {tail.why}")
    return None


def by_noun(words: list[str], entries: list[Entry | None], lexicon: Lexicon) -> Judgement | None:
    """A name without a verb: what its first and last words say of the data it names."""
    head = lexicon.heads.get(words[0])
    if head is not None:
        alone = head.role is Role.READ_ALONE
        if (
            (len(words) == 1 or words[1] == "by")
            if alone
            else not any(entry is not None and entry.role in FRONT for entry in entries)
        ):
            return Judgement(False, None, f"'{words[0]}' {head.why}")
    end = clause_end(entries, 0)
    for place in range(end):
        tail = lexicon.tails.get(words[place])
        if tail is not None and (place == end - 1 or tail.role is Role.READ_MARK):
            return Judgement(False, None, f"'{words[place]}' {tail.why}, and there is no verb")
    return None
