"""A ledger of values without a server: read and swap as `swap.lua` does them, over immutable contents.

A version is the number of a value's content and of how often it was written as it was, not random bytes: a decision is
a pure function of what it read, so a value that came back just as it was (it can, for a release leaves nothing behind)
may be swapped over all the same. But one that was written as it was refuses whatever was decided before (4.11).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from gateway.adapters import ledger_codec as codec
from gateway.adapters.ledger_keys import Bucket
from gateway.core.conversation import CallSlot, PrintSlot, View, Where, Writes
from gateway.core.record import Effect
from tests.small_world.numbers import Numbers
from tests.small_world.story import check_approvals, check_events, check_record

TICK_MS = 1_000
Name = tuple[str, bytes]
ABSENT = b""


class Swapped(NamedTuple):
    """`view` is what now stands where it was applied, and why it was not where it was not."""

    applied: bool
    contents: int
    view: int


class Ledger:
    """All contents and views that a search has met. `compares`: whether a swap looks at versions at all."""

    def __init__(self, *, compares: bool = True, approved: bool = False) -> None:
        """`approved`: whether nothing may run without an approval."""
        self.compares = compares
        self.approved = approved
        self._values = Numbers()
        self._values.of("nothing", "nothing")  # so that no version is zero
        self._contents = Numbers()
        self._views = Numbers()
        self._read: dict[tuple[int, Where, int], int] = {}

    def empty(self) -> int:
        return self._contents.of(())

    def view(self, number: int) -> View:
        found: View = self._views[number]
        return found

    def effects(self, contents: int) -> list[Effect]:
        """The records that stand, and the marks of resolved absences."""
        return [self._value(version) for (kind, _), version in self._contents[contents] if kind == "effect"]

    def effect(self, contents: int, effect_id: bytes) -> Effect | None:
        return next((e for e in self.effects(contents) if e.effect_id == effect_id), None)

    def keep(self, view: View) -> int:
        """The number of a view; views with the same content are one."""
        names = tuple(sorted(view.versions.items()))
        return self._views.of((view.now_ms, names, view.highest_attempt, tuple(sorted(view.effects))), view)

    def read(self, contents: int, where: Where, now: int) -> int:
        key = (contents, where, now)
        if key not in self._read:
            self._read[key] = self.keep(self._look(contents, Bucket.of(where.conversation).read_by(where), now))
        return self._read[key]

    def swap(self, contents: int, where: Where, view: View, writes: Writes, now: int) -> Swapped:
        """All of the writes if nothing in the view has changed, else none, and what stands."""
        values = self._written(where, writes)
        names = list({**dict.fromkeys(Bucket.of(where.conversation).read_by(where)), **view.versions, **values})
        standing = dict(self._contents[contents])
        same = all(view.versions.get(name, ABSENT) == self._version(standing, name) for name in names)
        if self.compares and not same:
            return Swapped(False, contents, self.keep(self._look(contents, names, now)))
        now_ms = now * TICK_MS
        before = {id_: self._standing(standing, id_) for id_ in writes.effects}
        for name, value in values.items():
            earlier = standing.pop(name, None)
            if value is not None:
                standing[name] = self._number(name, _stamped(value, now_ms), earlier)
        after = {id_: self._standing(standing, id_) for id_ in writes.effects}
        released = {event.effect_id for event in writes.events if event.type == "effect.released"}
        for id_ in writes.effects:
            check_record(before[id_], after[id_], released=id_ in released)
        check_events(before, after, writes.events)
        check_approvals(before, after, writes.events, needed=self.approved)
        seen = self._after(view, writes, list(values), standing, now_ms)
        return Swapped(True, self._contents.of(tuple(sorted(standing.items()))), seen)

    def _standing(self, standing: dict[Name, int], effect_id: bytes) -> Effect | None:
        version = standing.get(("effect", effect_id))
        return None if version is None else self._value(version)

    def _version(self, standing: dict[Name, int], name: Name) -> bytes:
        version = standing.get(name)
        return ABSENT if version is None else version.to_bytes(8)

    def _number(self, name: Name, value: Any, earlier: int | None) -> int:
        content = msgspec.msgpack.encode(value)
        same, times = (b"", 0) if earlier is None else self._values[earlier][1:]
        return self._values.of((name, content, again := times + (same == content)), (value, content, again))

    def _value(self, version: int) -> Any:
        return self._values[version][0]

    def _look(self, contents: int, names: list[Name], now: int) -> View:
        standing = dict(self._contents[contents])
        slots: dict[bytes, CallSlot] = {}
        effects: dict[bytes, Effect | None] = {}
        versions: dict[Name, bytes] = {}
        identical, highest = PrintSlot(), 0
        for name in names:
            versions[name] = self._version(standing, name)
            value = self._value(standing[name]) if name in standing else None
            match name:
                case "slot", digest:
                    slots[digest] = value or CallSlot()
                case "identical", _:
                    identical = value or PrintSlot()
                case "turn", _:
                    highest = value or 0
                case "effect", id_:
                    effects[id_] = value
        pointed = (b.effect for slot in slots.values() for b in slot.bindings[-4:])
        for id_ in [id_ for id_ in pointed if id_ not in effects]:
            effects[id_] = self._standing(standing, id_)
            versions["effect", id_] = self._version(standing, ("effect", id_))
        return View(now * TICK_MS, slots, identical, effects, highest, 0, versions)

    def _written(self, where: Where, writes: Writes) -> dict[Name, Any]:
        values: dict[Name, Any] = {("effect", id_): effect for id_, effect in writes.effects.items()}
        for digest, slot in writes.slots.items():
            values["slot", digest] = slot if slot.bindings else None
        if writes.identical is not None:
            values["identical", where.fingerprint] = writes.identical  # stays for a while, also where it is empty
        if writes.attempt_seen is not None and where.turn is not None:
            values["turn", where.turn.encode()] = writes.attempt_seen
        return values

    def _after(self, view: View, writes: Writes, written: list[Name], standing: dict[Name, int], now_ms: int) -> int:
        versions = dict(view.versions)
        for name in written:
            versions[name] = self._version(standing, name)
        effects = dict(view.effects)
        for id_ in writes.effects:
            effects[id_] = self._standing(standing, id_)
        identical = writes.identical if writes.identical is not None else view.identical
        return self.keep(
            View(
                now_ms,
                {**view.slots, **writes.slots},
                codec.identical_stamped(identical, now_ms),
                effects,
                writes.attempt_seen or view.highest_attempt,
                view.live,
                versions,
            )
        )


def _stamped(value: Any, now_ms: int) -> Any:
    """What the ledger's time makes of "as of this write"."""
    if isinstance(value, Effect):
        return codec.stamped(value, now_ms)
    return codec.identical_stamped(value, now_ms) if isinstance(value, PrintSlot) else value
