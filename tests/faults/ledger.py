"""The ledger in plain Python: what lua/swap.lua and the Redis adapter promise together, and a journal to lose.

Versions, stamps by the ledger's clock, ends of life, live counts, room, events and both indexes in the same step;
slots as the adapter packs them, since what a packed one says depends on the records it is read with. Not here: when the
list of events itself ends, since no history outlives it. A test holds this equal to the real adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gateway.adapters import ledger_codec as codec
from gateway.adapters.ledger_codec import identical_stamped, stamped
from gateway.adapters.ledger_keys import bucket_of
from gateway.core.conversation import CallSlot, Event, PrintSlot, View, Where, Writes
from gateway.core.errors import LedgerUnavailable
from gateway.core.event_types import unlisted
from gateway.core.granting import MAX_LIVE
from gateway.core.identity import conversation_digest
from gateway.core.ports import Line, LoggedEvent, Page, Swap
from gateway.core.record import UNENDING, Effect, Status
from tests.faults.ledger_values import EVER, Name, Stored, begins, counts_anew, ending, falls_due, key_of, put, read_by

_DUE: Final = (Status.EXECUTING, Status.AWAITING_APPROVAL)
_UNKNOWN: Final = (Status.INDETERMINATE,)
EMPTIED_MS: Final = 3_600_000
"""How long a slot that was emptied differs from one that never was (4.11)."""
MOST_LOOKED_AT: Final = 3
"""Unknown outcomes that one page looks at: few, so that pages with nothing in them and a cursor are met."""
Heard = Callable[[Mapping[bytes, Effect | None], Writes, int], None]


class SimLedger:
    """One server. Every method is one atomic step; the network around it is another's job."""

    def __init__(self, now_ms: Callable[[], int], heard: Heard = lambda before, writes, now: None) -> None:
        self.now_ms = now_ms
        self.heard = heard
        """Called with what stood before, what is written and when, just before it is."""
        self.compares = True
        self.full = False
        """Whether there is room only for what ends a claim."""
        self.values: dict[tuple[Any, ...], Stored] = {}
        self.live: dict[tuple[bytes, bytes], float] = {}
        self.due_at: dict[bytes, float] = {}
        self.unknown_ids: dict[bytes, float] = {}
        self.logs: dict[bytes, list[LoggedEvent]] = {}
        self.journal: list[tuple[Writes | None, list[tuple[Any, Any, Any]]]] = []
        self.durable = 0
        """So many entries of the journal have reached the replicas that were waited for."""
        self._written = 0

    # what the port asks

    def read(self, where: Where) -> View:
        return self._look(where, read_by(where), self.now_ms())

    def swap(self, where: Where, view: View, writes: Writes) -> Swap:
        now = self.now_ms()
        changed = self._values(where, view, writes, now)
        names = {**dict.fromkeys(read_by(where)), **dict.fromkeys(view.versions), **dict.fromkeys(changed)}
        same = all(self._version(where, name, now) == view.versions.get(name, b"") for name in names)
        full = writes.admits is not None and self._live(where.conversation, now) >= MAX_LIVE
        if (self.compares and not same) or full:
            return Swap(False, self._look(where, list(names), now))
        if not writes.though_full:
            self._needs_room()
        before = {e: self.effect(e) for e in writes.effects}
        self.heard(before, writes, now)
        self._written += 1
        version = self._written.to_bytes(8)
        undo: list[tuple[Any, Any, Any]] = []
        for name, value in changed.items():
            stored = None if value is None else Stored(version, *value)
            put(undo, self.values, key_of(where, name), stored)
        self._index(undo, where.conversation, view, writes, now)
        named = any(e is not None for e in (*writes.effects.values(), *view.effects.values()))
        assert named or not writes.events, "7.6: events of a log that nothing names: it could not be sealed"
        self._log(undo, where.conversation, writes.events, now)
        self.journal.append((writes, undo))
        return Swap(True, self._after(view, writes, changed, version, now))

    def append(self, conversation: bytes, events: Sequence[Event]) -> None:
        self._needs_room()
        undo: list[tuple[Any, Any, Any]] = []
        self._log(undo, conversation, events, self.now_ms())
        self.journal.append((None, undo))

    def append_each(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self.append(line.log.digest, (line.event,))

    def events(self, conversation: bytes, after: int, limit: int) -> list[LoggedEvent]:
        return self.logs.get(conversation, [])[after : after + limit]

    def last_event(self, conversation: bytes) -> int:
        return len(self.logs.get(conversation, []))

    def due(self, limit: int, cursor: str | None = None) -> Page:
        """Those that fell due in the same ms are never parted."""
        now, behind = self.now_ms(), float(cursor or "-inf")
        lapsed = sorted((at, id_) for id_, at in self.due_at.items() if behind < at <= now)
        if len(lapsed) >= limit:
            lapsed = [(at, id_) for at, id_ in lapsed if at <= lapsed[limit - 1][0]]
        for _, gone in lapsed:
            if self.effect(gone) is None:
                self.due_at.pop(gone)  # it ended with its retention time, and nobody would look for it in vain
        found = (self.effect(id_) for _, id_ in lapsed)
        return Page(tuple(e for e in found if e is not None), str(lapsed[-1][0]) if len(lapsed) >= limit else None)

    def unknown(self, company: str | None, cursor: str | None, limit: int) -> Page:
        return self._listed(self.unknown_ids, Status.INDETERMINATE, company, cursor, limit)

    def pending(self, company: str, cursor: str | None, limit: int) -> Page:
        return self._listed(self.due_at, Status.AWAITING_APPROVAL, company, cursor, limit)

    def named(self, conversation: bytes, effect: bytes) -> Effect | None:
        found = self.effect(effect)
        if found is None:
            return None
        home = conversation_digest(found.company, found.conversation)
        return found if bucket_of(home) == bucket_of(conversation) else None

    def _listed(
        self, index: Mapping[bytes, float], status: Status, company: str | None, cursor: str | None, limit: int
    ) -> Page:
        behind = [id_ for id_ in sorted(index) if id_.hex() > (cursor or "")]
        looked = behind[: min(limit, MOST_LOOKED_AT)]
        found = (self.effect(id_) for id_ in looked)
        mine = (e for e in found if e is not None and company in (None, e.company) and e.status is status)
        return Page(tuple(mine), looked[-1].hex() if len(looked) == min(limit, MOST_LOOKED_AT) else None)

    def _needs_room(self) -> None:
        if self.full:
            raise LedgerUnavailable("no room", may_have_run=False)

    # what only a simulation can do

    def effect(self, effect_id: bytes) -> Effect | None:
        found = self._get(("effect", effect_id[:16]), self.now_ms())
        return None if found is None else found.value

    def effects(self) -> list[Effect]:
        """Every record that stands, marks among them."""
        return [e for kind, *rest in list(self.values) if kind == "effect" and (e := self.effect(rest[0])) is not None]

    def highest_attempt(self, conversation: bytes, turn: str) -> int:
        found = self._get(("turn", conversation, turn.encode()), self.now_ms())
        return 0 if found is None else found.value

    def acknowledged(self) -> None:
        """Enough replicas have everything written so far."""
        self.durable = len(self.journal)

    def fail_over(self, most: int) -> list[Writes]:
        """A replica takes over that lacks the last writes, `most` of them but none that was waited for."""
        keep = max(self.durable, len(self.journal) - most)
        lost: list[Writes] = []
        while len(self.journal) > keep:
            writes, undo = self.journal.pop()
            for where, key, old in reversed(undo):
                if isinstance(where, list):
                    del where[key:]
                elif old is None:
                    where.pop(key, None)
                else:
                    where[key] = old
            if writes is not None:
                lost.append(writes)
        return lost

    # inside

    def _get(self, key: tuple[Any, ...], now: int) -> Stored | None:
        found = self.values.get(key)
        return found if found is not None and found.ends > now else None

    def _version(self, where: Where, name: Name, now: int) -> bytes:
        found = self._get(key_of(where, name), now)
        return b"" if found is None else found.version

    def _live(self, conversation: bytes, now: int) -> int:
        return sum(1 for (owner, _), ends in self.live.items() if owner == conversation and ends > now)

    def _look(self, where: Where, names: Sequence[Name], now: int) -> View:
        slots: dict[bytes, CallSlot] = {}
        effects: dict[bytes, Effect | None] = {}
        versions: dict[Name, bytes] = {}
        identical, highest = PrintSlot(), 0
        looked_into: dict[bytes, codec.Stored] = {}
        for name in names:
            found = self._get(key_of(where, name), now)
            versions[name] = b"" if found is None else found.version
            kind, rest = name
            if kind == "slot":
                looked_into[rest] = codec.Stored(b"", 0, b"" if found is None else found.value)
            elif kind == "identical":
                identical = PrintSlot() if found is None else found.value
            elif kind == "turn":
                highest = 0 if found is None else found.value
            else:
                effects[rest] = None if found is None else found.value
        records = {effect_id[:16]: effect for effect_id, effect in effects.items()}
        for pointer in (p for stored in looked_into.values() for p in codec.pointers_of(stored)):
            if pointer not in records:
                found = self._get(("effect", pointer), now)
                records[pointer] = None if found is None else found.value
                if found is not None:
                    effects[found.value.effect_id] = found.value
                    versions["effect", found.value.effect_id] = found.version
        for digest, stored in looked_into.items():
            slot = slots[digest] = codec.slot_of(stored, records)
            for gone in (b.effect for b in slot.bindings if b.effect not in effects and b.effect[:16] in records):
                effects[gone], versions["effect", gone] = None, b""
        return View(now, slots, identical, effects, highest, self._live(where.conversation, now), versions)

    def _values(self, where: Where, view: View, writes: Writes, now: int) -> dict[Name, tuple[Any, float] | None]:
        """What each changed value becomes, and when it ends; None: nothing."""
        settled = now + writes.keep_ms if writes.keep_ms > 0 else None
        values: dict[Name, tuple[Any, float] | None] = {}
        for effect_id, effect in writes.effects.items():
            if effect is None:
                values["effect", effect_id] = None
                continue
            if effect.status in UNENDING:
                ends = EVER
            elif begins(effect):
                ends = ending(settled)
            else:
                found = self._get(("effect", effect_id[:16]), now)
                ends = EVER if found is None else found.ends
            values["effect", effect_id] = (stamped(effect, now), ends)
        records = {**view.effects, **writes.effects}
        for digest, slot in writes.slots.items():
            ends = EVER if any(b.open for b in slot.bindings) else 0
            payload = codec.slot_payload(slot, records)
            values["slot", digest] = (payload, ends or ending(settled)) if slot.bindings else None
        if writes.identical is not None:
            known = writes.identical.known
            ends = EVER if any(k.status in UNENDING for k in known) else 0
            if not known and not writes.identical.taken:
                ends = now + EMPTIED_MS
            values["identical", where.fingerprint] = identical_stamped(writes.identical, now), ends or ending(settled)
        if writes.attempt_seen is not None and where.turn is not None:
            values["turn", where.turn.encode()] = (writes.attempt_seen, ending(settled))
        return values

    def _index(self, undo: list[Any], conversation: bytes, view: View, writes: Writes, now: int) -> None:
        for effect_id, after in writes.effects.items():
            before = view.effects.get(effect_id)
            was = before.status if before is not None else Status.ABSENT
            is_ = after.status if after is not None else Status.ABSENT
            if is_ is Status.ABSENT:
                put(undo, self.live, (conversation, effect_id), None)
            elif is_ in UNENDING:
                if was not in UNENDING:
                    put(undo, self.live, (conversation, effect_id), EVER)
            elif after is not None and begins(after):
                put(undo, self.live, (conversation, effect_id), now + writes.keep_ms)
            for index, listed in ((self.due_at, _DUE), (self.unknown_ids, _UNKNOWN)):
                if is_ in listed and after is not None:
                    if was is not is_ or counts_anew(after, before):
                        put(undo, index, effect_id, falls_due(after, now))
                elif was in listed:
                    put(undo, index, effect_id, None)

    def _log(self, undo: list[Any], conversation: bytes, events: Sequence[Event], now: int) -> None:
        assert [each for event in events for each in unlisted(event.type, event.data)] == [], "7.6: not in the taxonomy"
        log = self.logs.setdefault(conversation, [])
        undo.append((log, len(log), None))
        log.extend(LoggedEvent(len(log) + place, now, event) for place, event in enumerate(events, 1))

    def _after(self, view: View, writes: Writes, changed: Mapping[Name, Any], version: bytes, now: int) -> View:
        versions = {**view.versions, **{name: b"" if v is None else version for name, v in changed.items()}}
        effects = {**view.effects, **{e: stamped(x, now) if x is not None else None for e, x in writes.effects.items()}}
        identical = identical_stamped(writes.identical if writes.identical is not None else view.identical, now)
        highest = writes.attempt_seen or view.highest_attempt
        return View(now, {**view.slots, **writes.slots}, identical, effects, highest, view.live, versions)
