"""Slots and events in few bytes: names as numbers, nothing said twice, trailing defaults left out.

What is packed here is MessagePack of plain lists. The tables only grow at their ends: a number, once given, is in
ledgers for as long as the retention time. Unpacking raises what msgspec raises, or ValueError, TypeError or LookupError
for what no gateway up to this one has written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from gateway.core.conversation import Binding, CallSlot, Event, Known, PrintSlot, Taken
from gateway.core.event_types import EVENT_TYPES
from gateway.core.record import Effect, Status

PREFIX: Final = 16
"""Bytes of an effect id that name its record in a conversation's bucket."""
STATUSES: Final = (
    *(Status.ABSENT, Status.AWAITING_APPROVAL, Status.EXECUTING, Status.INDETERMINATE),
    *(Status.SUCCEEDED, Status.FAILED, Status.DENIED),
)
SAID: Final = (
    *("kind", "target", "tool_call_id", "turn", "step", "attempt", "tool_version", "lease_s", "again", "reason"),
    *("http_status", "seen", "code", "result_dropped", "late", "stands", "came", "outcome", "by", "note", "evidence"),
    *("because", "first", "matched", "count"),
    *("rule", "bundle_version", "approval", "approvers", "principal", "rationale", "expires_at", "message"),
    *("said_by_merchant", "idempotency", "retry_after_s", "via", "customer_message", "instead_of"),
)
"""Names in what events say; others go in as they are."""
_STATUS: Final = {status: number for number, status in enumerate(STATUSES)}
_TYPES: Final = tuple(EVENT_TYPES)
_TYPE: Final = {type_: number for number, type_ in enumerate(_TYPES)}
KINDS: Final = ("tool_call", "llm_call", "local")
_KIND: Final = {kind: number for number, kind in enumerate(KINDS)}
_FIRST: Final = "effect.proposed"
_SAID: Final = {name: number for number, name in enumerate(SAID)}
_EVER_UNKNOWN: Final = 8
"""Added to a status' number."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


_ONE_AS_RECORDED: Final = {open_: _encode([int(open_)]) for open_ in (False, True)}
_BARE: Final = {type_: _encode([number, True]) for type_, number in _TYPE.items()}
"""Lines that say their type alone, of the effect of the line before."""


# ids


def pack_slot(slot: CallSlot, records: Mapping[bytes, Effect | None], pointed: int) -> bytes:
    """The last `pointed` bindings are to effects that the payload names before this. One that says what its effect's
    record says, the record that `records` has, is a number: it is read together with that record, or it is nothing."""
    first = len(slot.bindings) - pointed
    return _encode(
        [
            int(b.open)
            if place >= first and _as_recorded(b, records.get(b.effect))
            else [b.effect, b.fingerprint, b.turn, b.step, b.attempt, b.open]
            for place, b in enumerate(slot.bindings)
        ]
    )


def pack_one_as_recorded(binding: Binding, records: Mapping[bytes, Effect | None]) -> bytes | None:
    """What `pack_slot` makes of a slot of one binding that is pointed to and says what its record says, as nearly every
    one does; else None."""
    return _ONE_AS_RECORDED[binding.open] if _as_recorded(binding, records.get(binding.effect)) else None


def unpack_slot(raw: bytes, pointers: list[bytes], records: Mapping[bytes, Effect | None]) -> CallSlot:
    """`records` has the record of each pointer by the first bytes of its id; without it, what pointed there names
    nothing any more."""
    packed = _decode(raw)
    bindings = []
    for place, each in enumerate(packed):
        if isinstance(each, list):
            bindings.append(Binding(*each))
            continue
        record = records[pointers[place - len(packed)]]
        if record is not None:
            at = record.place
            bindings.append(Binding(record.effect_id, record.fingerprint, at.turn, at.step, at.attempt, bool(each)))
    return CallSlot(tuple(bindings))


def _as_recorded(binding: Binding, record: Effect | None) -> bool:
    # Field by field: making two places to compare them costs more than the rest of a slot.
    return (
        record is not None
        and binding.turn == record.turn
        and binding.step == record.step
        and binding.attempt == (record.attempt if record.turn is not None else None)
        and binding.fingerprint == record.fingerprint
    )


# identical calls


def pack_identical(slot: PrintSlot) -> bytes:
    """An occurrence names its effect by its place among the known, and its turn only where it is not the effect's."""
    if len(slot.known) == 1 == len(slot.taken):
        packed = _pack_one(slot.known[0], slot.taken[0])
        if packed is not None:
            return packed
    places = {known.effect: place for place, known in enumerate(slot.known)}
    known = []
    for k in slot.known:
        status = _STATUS[k.status] + (_EVER_UNKNOWN if k.was_unknown else 0)
        known.append([k.effect, k.turn, status] if k.at is None else [k.effect, k.turn, status, k.at])
    taken = []
    for t in slot.taken:
        place = places.get(t.effect)
        said: list[bytes | int | str] = [t.effect if place is None else place, t.number]
        if place is None or t.place != _turn_place(slot.known[place]):
            said += [t.attempt, t.place]
        elif t.attempt != 1:
            said.append(t.attempt)
        taken.append(said)
    return _encode([known, taken])


def _pack_one(k: Known, t: Taken) -> bytes | None:
    """One call and its own number, as there nearly always is: the bytes that the long way gives."""
    if t.effect != k.effect or t.place != _turn_place(k):
        return None
    status = _STATUS[k.status] + (_EVER_UNKNOWN if k.was_unknown else 0)
    known = (k.effect, k.turn, status) if k.at is None else (k.effect, k.turn, status, k.at)
    return _encode(((known,), ((0, t.number) if t.attempt == 1 else (0, t.number, t.attempt),)))


def unpack_identical(raw: bytes) -> PrintSlot:
    known_packed, taken_packed = _decode(raw)
    known = tuple(
        Known(effect, turn, STATUSES[status % _EVER_UNKNOWN], at[0] if at else None, status >= _EVER_UNKNOWN)
        for effect, turn, status, *at in known_packed
    )
    taken = []
    for named, number, *rest in taken_packed:
        of = known[named] if isinstance(named, int) else None
        attempt = rest[0] if rest else 1
        place = rest[1] if len(rest) > 1 else _turn_place(of) if of is not None else None
        if place is None:
            raise ValueError("an occurrence without a place")
        taken.append(Taken(place, attempt, number, of.effect if of is not None else named))
    return PrintSlot(known, tuple(taken))


def _turn_place(known: Known) -> str | None:
    return None if known.turn is None else f"t{known.turn}"


# events


def pack_events(events: Sequence[Event]) -> list[bytes]:
    """Lines that are written together. Only `effect.proposed`, an effect's first, names it in full; the others by the
    first bytes of its id, or, behind a line of the same effect, not at all. KeyError for a type that the closed
    taxonomy lacks (7.6)."""
    lines: list[bytes] = []
    before: bytes | None = None
    for event in events:
        same = event.effect_id is not None and event.effect_id == before
        bare = _BARE.get(event.type) if same and not event.data else None
        lines.append(_pack_event(event, same) if bare is None else bare)
        before = event.effect_id
    return lines


def _pack_event(event: Event, same: bool) -> bytes:
    id_: bytes | bool | None = same or event.effect_id
    if isinstance(id_, bytes) and event.type != _FIRST:
        id_ = id_[:PREFIX]
    packed: list[Any] = [_TYPE[event.type], id_]
    for name, value in event.data.items():
        packed += (_SAID.get(name, name), _SHORT[name](value) if name in _SHORT else value)
    return _encode(packed)


def unpack_event(raw: bytes) -> tuple[str, bytes | None, dict[str, Any]]:
    """Type, effect, and what is said, as packed: the effect may be the first bytes of an id, or b"", which is that of
    the line before."""
    packed = _decode(raw)
    type_, id_ = packed[0], packed[1]
    data: dict[str, Any] = {}
    if len(packed) > 2:
        if len(packed) % 2:
            raise ValueError("a name in an event, and nothing said under it")
        said = iter(packed[2:])
        for named in said:
            data[SAID[named] if isinstance(named, int) else named] = next(said)
        if "kind" in data:
            data["kind"] = _long_kind(data["kind"])
        if "lease_s" in data:
            data["lease_s"] = _long_seconds(data["lease_s"])
    return _TYPES[type_] if isinstance(type_, int) else type_, b"" if id_ is True else id_, data


def _short_kind(value: object) -> object:
    return _KIND.get(value, value) if isinstance(value, str) else value


def _short_seconds(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


_SHORT: Final[Mapping[str, Callable[[object], object]]] = {"kind": _short_kind, "lease_s": _short_seconds}


def _long_kind(value: object) -> object:
    return KINDS[value] if isinstance(value, int) else value


def _long_seconds(value: object) -> object:
    return float(value) if isinstance(value, int) else value
