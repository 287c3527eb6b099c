"""How records and slots are stored: MessagePack behind a version and the time of writing (see swap.lua)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from gateway.core.conversation import CallSlot, Event, Known, PrintSlot
from gateway.core.errors import LedgerUnavailable
from gateway.core.ports import LoggedEvent
from gateway.core.record import FORMAT, SETTLED, Effect, Status

_HEAD: Final = 21
T = TypeVar("T")
_POINTERS: Final = 4
"""Records that come with a slot unasked; each may hold a large result."""
_encode: Final = msgspec.msgpack.Encoder().encode
_effect: Final = msgspec.msgpack.Decoder(Effect).decode
_call_slot: Final = msgspec.msgpack.Decoder(CallSlot).decode
_print_slot: Final = msgspec.msgpack.Decoder(PrintSlot).decode
_attempt: Final = msgspec.msgpack.Decoder(int).decode
_event: Final = msgspec.msgpack.Decoder(tuple[str, bytes | None, dict[str, Any]]).decode


class UnknownFormat(LedgerUnavailable):
    """A record was written by a newer gateway than this one (4.13): as good as no ledger, so nothing is sent."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value as Redis holds it; all empty where there is none."""

    version: bytes
    written_ms: int
    payload: bytes


def opened(value: bytes) -> Stored:
    """Split a stored value; an absent one is b""."""
    if not value:
        return Stored(b"", 0, b"")
    return Stored(value[:8], int(value[8:_HEAD]), value[_HEAD:])


def effect_payload(effect: Effect) -> bytes:
    return b"\x00" + _encode(effect)


def slot_payload(slot: CallSlot) -> bytes:
    """A slot points to the records of its latest bindings, so that a look at the slot brings them too (4.10)."""
    latest = slot.bindings[-_POINTERS:]
    return bytes((len(latest),)) + b"".join([b.effect[:16] for b in latest]) + _encode(slot)


def identical_payload(slot: PrintSlot) -> bytes:
    return b"\x00" + _encode(slot)


def attempt_payload(attempt: int) -> bytes:
    return b"\x00" + _encode(attempt)


def _read(decode: Callable[[bytes], T], raw: bytes) -> T:
    try:
        return decode(raw)
    except msgspec.DecodeError as wrong:
        raise UnknownFormat(str(wrong)) from wrong


def effect_of(stored: Stored) -> Effect:
    """The record, its times of "as of this write" filled in. Raises UnknownFormat."""
    effect: Effect = _read(_effect, stored.payload[1:])
    if effect.format > FORMAT:
        raise UnknownFormat(f"record format {effect.format}, this gateway reads up to {FORMAT}")
    return stamped(effect, stored.written_ms)


def stamped(effect: Effect, now_ms: int) -> Effect:
    """The record as written at `now_ms`."""
    changes: dict[str, int] = {}
    if effect.first_at is None:
        changes["first_at"] = now_ms
    if effect.claimed_at is None and effect.status is Status.EXECUTING:
        changes["claimed_at"] = now_ms
    if effect.settled_at is None and effect.status in SETTLED:
        changes["settled_at"] = now_ms
    return msgspec.structs.replace(effect, **changes) if changes else effect


def slot_of(stored: Stored) -> CallSlot:
    if not stored.payload:
        return CallSlot()
    return _read(_call_slot, stored.payload[1 + 16 * stored.payload[0] :])


def identical_of(stored: Stored) -> PrintSlot:
    if not stored.payload:
        return PrintSlot()
    return identical_stamped(_read(_print_slot, stored.payload[1:]), stored.written_ms)


def identical_stamped(slot: PrintSlot, now_ms: int) -> PrintSlot:
    if all(k.at is not None for k in slot.known):
        return slot
    return PrintSlot(
        tuple(k if k.at is not None else Known(k.effect, k.turn, k.status, now_ms, k.was_unknown) for k in slot.known),
        slot.taken,
    )


def attempt_of(stored: Stored) -> int:
    return _read(_attempt, stored.payload[1:]) if stored.payload else 0


def event_bytes(event: Event) -> bytes:
    return _encode((event.type, event.effect_id, event.data))


def event_of(seq: int, raw: bytes) -> LoggedEvent:
    type_, effect_id, data = _event(raw[13:])
    return LoggedEvent(seq, int(raw[:13]), Event(type_, effect_id, data))
