"""What one conversation remembers: which id named what, identical effects, occurrences, turns.

A `View` is everything that one decision reads; `Writes` is everything that it changes. The ledger applies
writes only if nothing in the view has changed since (4.15): checking one record while the rule read two lets
two ids in one model reply place two orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.core.identity import Place, conversation_digest
from gateway.core.record import UNENDING, Effect, Status

MAX_ALIASES: Final = 1_000
"""Ids that one effect may answer to; a bound for 9.4."""


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """One call that an id named: its effect, what it was and where (2.3)."""

    effect: bytes
    fingerprint: bytes
    turn: str | None
    step: int | None
    attempt: int | None
    open: bool

    @property
    def place(self) -> Place:
        return Place(self.turn, self.step, self.attempt)


class CallSlot(msgspec.Struct, frozen=True, array_like=True):
    """All calls that one id named, oldest first."""

    bindings: tuple[Binding, ...] = ()

    def without(self, effect: bytes) -> CallSlot:
        return CallSlot(tuple(b for b in self.bindings if b.effect != effect))

    def marked(self, effect: bytes, *, open: bool) -> CallSlot:  # noqa: A002 (the field's name)
        """With the effect's binding as one that does, or does not, end with the retention time."""
        return CallSlot(
            tuple([msgspec.structs.replace(b, open=open) if b.effect == effect else b for b in self.bindings])
        )


class Known(msgspec.Struct, frozen=True, array_like=True):
    """One of the identical effects: enough of it to judge a repeat (4.9) without reading its record.

    `at` is when it was last held, claimed or settled (ms, ledger's clock; None: as of this write).
    """

    effect: bytes
    turn: str | None
    status: Status
    at: int | None
    was_unknown: bool


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """An occurrence number in use: (turn or the id standing for it, attempt) -> number (2.4)."""

    place: str
    attempt: int
    number: int
    effect: bytes


class PrintSlot(msgspec.Struct, frozen=True, array_like=True):
    """The effects of one fingerprint in a conversation, in the order they came, and their occurrences."""

    known: tuple[Known, ...] = ()
    taken: tuple[Taken, ...] = ()

    def lowest_free(self, place: str, attempt: int) -> int:
        """The lowest occurrence number not taken in that attempt (2.4)."""
        used = self.used(place, attempt)
        number = 0
        while number in used:
            number += 1
        return number

    def used(self, place: str, attempt: int) -> set[int]:
        """The numbers taken in that attempt."""
        return {t.number for t in self.taken if t.place == place and t.attempt == attempt}

    def numbers(self, effect: bytes, place: str, number: int) -> bool:
        """Whether that number names that effect there, in any attempt."""
        return any(t.effect == effect and t.place == place and t.number == number for t in self.taken)

    def takes(self, effect: bytes, place: str, attempt: int) -> bool:
        return True in [t.effect == effect and t.place == place and t.attempt == attempt for t in self.taken]

    def take(self, effect: bytes, place: str, attempt: int, number: int | None = None) -> PrintSlot:
        """With an occurrence taken: `number`, or the effect's own of another attempt if that is free, or the
        lowest free."""
        if number is None:
            used = self.used(place, attempt)
            own = (t.number for t in self.taken if t.effect == effect and t.place == place and t.number not in used)
            number = next(own, None)
        chosen = self.lowest_free(place, attempt) if number is None else number
        return PrintSlot(self.known, (*self.taken, Taken(place, attempt, chosen, effect)))

    def with_known(self, effect: Effect) -> PrintSlot:
        """With this effect's entry as the record now is; a write of it counts as its latest moment."""
        known = {k.effect: k for k in self.known}  # one that is there already keeps its place
        known[effect.effect_id] = Known(effect.effect_id, effect.turn, effect.status, None, effect.was_unknown)
        return PrintSlot(tuple(known.values()), self.taken)

    def without(self, effect: bytes) -> PrintSlot:
        """With the effect, and every number it took, free again (2.4)."""
        return PrintSlot(
            tuple(k for k in self.known if k.effect != effect),
            tuple(t for t in self.taken if t.effect != effect),
        )

    def live_at(self, now_ms: int, retention_ms: int) -> PrintSlot:
        """Without what the retention time has ended (4.13)."""
        gone = {
            k.effect
            for k in self.known
            if k.status not in UNENDING and k.at is not None and now_ms - k.at >= retention_ms
        }
        if not gone:
            return self
        return PrintSlot(
            tuple(k for k in self.known if k.effect not in gone),
            tuple(t for t in self.taken if t.effect not in gone),
        )


def present(effect: Effect | None) -> bool:
    """Whether an effect stands; a mark that a resolved absence left behind does not."""
    return effect is not None and effect.status is not Status.ABSENT


class Where(msgspec.Struct, frozen=True):
    """Which part of the ledger a decision reads."""

    conversation: bytes
    fingerprint: bytes
    slots: tuple[bytes, ...] = ()
    effects: tuple[bytes, ...] = ()
    turn: str | None = None


class View(msgspec.Struct, frozen=True):
    """What was read there. `versions` is the ledger's own, opaque here; `now_ms` is None before any read."""

    now_ms: int | None = None
    slots: Mapping[bytes, CallSlot] = msgspec.field(default_factory=dict)
    identical: PrintSlot = PrintSlot()
    effects: Mapping[bytes, Effect | None] = msgspec.field(default_factory=dict)
    highest_attempt: int = 0
    live: int = 0
    versions: Mapping[tuple[str, bytes], bytes] = msgspec.field(default_factory=dict)

    def slot(self, digest: bytes) -> CallSlot:
        return self.slots.get(digest, CallSlot())

    def may_stand(self, effect: bytes) -> bool:
        """False once the record was read and is gone: what still points to it names nothing any more."""
        return effect not in self.effects or present(self.effects[effect])

    def names(self, slot: bytes, effect: bytes) -> bool:
        """Whether what an id's slot says of an effect still holds, as far as was read.

        A slot outlives the retention of one effect if another of its id is open, and a new effect may take the
        number, and so the name, of the one that is gone: only ids that its own record lists are its ids.
        """
        found = self.effects.get(effect)
        return self.may_stand(effect) and (found is None or slot in found.slots)

    def unread(self, effect: Effect) -> tuple[bytes, ...]:
        """Slots of its ids that were not read, and that must be before it may end or begin."""
        return tuple([slot for slot in effect.slots if slot not in self.slots])

    def bounded(self, retention_ms: int) -> View:
        """Without identical effects that the retention time has ended."""
        if self.now_ms is None:
            return self
        left = self.identical.live_at(self.now_ms, retention_ms)
        return self if left is self.identical else msgspec.structs.replace(self, identical=left)


def narrowed(view: View, where: Where) -> View:
    """The part of a view that `where` reads, so that what lies beside it cannot spoil a swap."""
    names = [("identical", where.fingerprint), *[("slot", s) for s in where.slots]]
    names += [("effect", e) for e in where.effects]
    return View(
        view.now_ms,
        {s: view.slots[s] for s in where.slots if s in view.slots},
        view.identical,
        {e: view.effects[e] for e in where.effects if e in view.effects},
        view.highest_attempt,
        view.live,
        {name: view.versions[name] for name in names if name in view.versions},
    )


def assumed_empty(where: Where) -> View:
    """What the first try takes for granted: nothing is there yet, so that a new call is one round trip."""
    return View(effects=dict.fromkeys(where.effects))


class Event(msgspec.Struct, frozen=True):
    """One line of the event log (7.6); the ledger adds its sequence number and its time."""

    type: str
    effect_id: bytes | None = None
    data: Mapping[str, object] = msgspec.field(default_factory=dict)


class EventLog(msgspec.Struct, frozen=True):
    """Whose events: a conversation's or, where that is "", the company's own."""

    company: str
    conversation: str = ""

    @property
    def digest(self) -> bytes:
        return conversation_digest(self.company, self.conversation)


class Writes(msgspec.Struct, frozen=True):
    """What a decision changes, all or nothing. An effect of None is removed.

    `admits` names an effect that the conversation gets anew (its bound, 4.13, is checked by the ledger);
    `keep_ms` is how long settled things stay; `though_full`: they end a claim, and must find room also where the
    ledger has none left for a new one (4.11); `confirms`: they change nothing, and a claim that stands has to be held
    by as many servers as a new one (4.14).
    """

    effects: Mapping[bytes, Effect | None] = msgspec.field(default_factory=dict)
    slots: Mapping[bytes, CallSlot] = msgspec.field(default_factory=dict)
    identical: PrintSlot | None = None
    attempt_seen: int | None = None
    admits: bytes | None = None
    events: tuple[Event, ...] = ()
    keep_ms: int = 0
    though_full: bool = False
    confirms: bool = False

    @property
    def claims(self) -> bool:
        """Whether an effect is claimed by them, to be sent next: what a failover must not forget (4.14)."""
        return self.confirms or any(
            e is not None and e.status is Status.EXECUTING and e.claimed_at is None for e in self.effects.values()
        )
