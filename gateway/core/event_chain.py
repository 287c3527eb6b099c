"""The hash chain over an event log (7.6): what is hashed, and whether a log is what was sealed. Pure.

Every event's hash takes in that of the event before it, the first takes in the conversation, so that no log passes for
another's. docs/events.md says it for other programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

_BESIDE: Final = frozenset({"company", "conversation", "seen"})
"""What an event may be shown with that its hash does not take in as it is."""

_sorted: Final = msgspec.json.Encoder(order="sorted").encode


class Verdict(NamedTuple):
    """What a look at a log found. `sealed`: as many events as the seal covers; `unsealed`: how many follow; `head`: the
    hash after the last sealed one, as the events give it; `wrong`: what is wrong with them, "" if nothing is."""

    sealed: int
    unsealed: int
    head: bytes
    wrong: str = ""


def start_of(conversation: bytes) -> bytes:
    """The hash before a log's first event; `conversation` is its digest."""
    return sha256(b"oncegate.events.1" + conversation).digest()


def canonical(event: Mapping[str, Any]) -> bytes:
    """The bytes of an event as the API shows it: JSON without white space, names in order, without company and
    conversation; of `seen` only its SHA-256, so that a key that may not read results can verify too."""
    if not ("seen" in event or "company" in event or "conversation" in event):
        return _sorted(event)  # nearly every one that is sealed; there are dozens of them a log
    body = {name: value for name, value in event.items() if name not in _BESIDE}
    if "seen" in event:
        body["seen_sha256"] = seen_sha256(event["seen"])
    return _sorted(body)


def seen_sha256(seen: object) -> str:
    """What stands for `seen`, an excerpt of a merchant's answer, where it is not shown."""
    return sha256(str(seen).encode()).hexdigest()


def after(head: bytes, event: Mapping[str, Any]) -> bytes:
    """The hash after an event, `head` being the one before it."""
    return sha256(head + canonical(event)).digest()


def verify(
    conversation: bytes, sealed: int, head: bytes | None, events: Iterable[Mapping[str, Any]], *, expect: bytes = b""
) -> Verdict:
    """Hold a whole log, as it is read from its first event on, to its seal (None: nothing is sealed yet). `expect`: a
    hash that was noted before, which has to stand after one of the sealed events."""
    at, place, tail, met = start_of(conversation), 0, 0, not expect
    for event in events:
        place += 1
        if event.get("seq") != place:
            return Verdict(sealed, 0, at, f"event {place} is missing: {event.get('seq')} stands in its place")
        if place > sealed:
            tail += 1
            continue
        at = after(at, event)
        met = met or at == expect
    if place < sealed:
        return Verdict(sealed, 0, at, f"events are missing: {sealed} were sealed, {place} are there")
    if sealed and at != head:
        return Verdict(sealed, tail, at, f"an event up to number {sealed} is not what was sealed")
    if not met:
        return Verdict(sealed, tail, at, "the log that had the expected hash is not a beginning of this one")
    return Verdict(sealed, tail, at)


def differing(events: Iterable[Mapping[str, Any]], kept: Mapping[int, Mapping[str, Any]]) -> Iterable[str]:
    """What became of events of one log that were kept elsewhere, by their numbers: those that differ or are gone."""
    left = dict(kept)
    for event in events:
        copy = left.pop(event["seq"], None)
        if copy is not None and canonical(copy) != canonical(event):
            yield f"event {event['seq']} differs from the copy"
    yield from (f"event {number} of the copy is missing" for number in sorted(left))
