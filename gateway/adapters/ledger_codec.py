"""How records and slots are stored: MessagePack behind a version and the time of writing (see swap.lua).

Golden vectors in `tests/vectors/stored.json` pin the bytes: what is written today is read for as long as the retention
time, also by newer gateways (4.13).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from gateway.adapters import ledger_packing as packing
from gateway.core.conversation import CallSlot, Known, PrintSlot
from gateway.core.errors import LedgerUnavailable
from gateway.core.record import FORMAT, SETTLED, Effect, Status

_HEAD: Final = 21
T = TypeVar("T")
_POINTERS: Final = 4
"""Records that come with a slot unasked; each may hold a large result."""
_DEFLATED: Final = b"\xc1"
"""In front of a deflated record; no MessagePack begins with it."""
_WORTH_DEFLATING: Final = 768
_MOST_DEFLATED: Final = 64 * 1024
"""Bytes of a packed record. Larger ones would hold up everybody else for the time that deflating them takes."""
UNREADABLE: Final = (msgspec.DecodeError, ValueError, TypeError, LookupError, zlib.error)
"""What unpacking raises for what no gateway up to this one has written."""
_encode: Final = msgspec.msgpack.Encoder().encode
_effect: Final = msgspec.msgpack.Decoder(Effect).decode
_attempt: Final = msgspec.msgpack.Decoder(int).decode


class UnknownFormat(LedgerUnavailable):
    """A record was written by a newer gateway than this one (4.13): as good as no ledger, so nothing is sent."""


class Stored(NamedTuple):
    """A value as Redis holds it; all empty where there is none."""

    version: bytes
    written_ms: int
    payload: bytes


_ABSENT: Final = Stored(b"", 0, b"")


def opened(value: bytes) -> Stored:
    """Split a stored value; an absent one is b""."""
    if not value:
        return _ABSENT
    return Stored(value[:8], int(value[8:_HEAD]), value[_HEAD:])


def effect_payload(effect: Effect) -> bytes:
    """What is settled is written once and kept for long: deflated, where that is worth it."""
    packed = _encode(effect)
    if effect.status in SETTLED and _WORTH_DEFLATING <= len(packed) <= _MOST_DEFLATED:
        deflater = zlib.compressobj(1, zlib.DEFLATED, -12)
        deflated = deflater.compress(packed) + deflater.flush()
        if len(deflated) < len(packed):
            return b"\x00" + _DEFLATED + deflated
    return b"\x00" + packed


def _effect_in(payload: bytes) -> Effect:
    if payload[1:2] != _DEFLATED:
        return _effect(payload[1:])
    inflater = zlib.decompressobj(-12)
    packed = inflater.decompress(payload[2:], _MOST_DEFLATED)
    if not inflater.eof:
        raise ValueError("a deflated record that does not end")
    return _effect(packed)


def slot_payload(slot: CallSlot, records: Mapping[bytes, Effect | None]) -> bytes:
    """A slot points to the records of its latest bindings, so that a look at the slot brings them too (4.10);
    `records` are those that stand once it is written."""
    if len(slot.bindings) == 1:
        short = packing.pack_one_as_recorded(slot.bindings[0], records)
        if short is not None:
            return b"\x01" + slot.bindings[0].effect[:16] + short
    latest = slot.bindings[-_POINTERS:]
    pointers = b"".join([b.effect[:16] for b in latest])
    return bytes((len(latest),)) + pointers + packing.pack_slot(slot, records, len(latest))


def identical_payload(slot: PrintSlot) -> bytes:
    return b"\x00" + packing.pack_identical(slot)


def attempt_payload(attempt: int) -> bytes:
    return b"\x00" + _encode(attempt)


def _read(decode: Callable[[bytes], T], raw: bytes) -> T:
    try:
        return decode(raw)
    except UNREADABLE as wrong:
        raise UnknownFormat(str(wrong)) from wrong


def effect_of(stored: Stored) -> Effect:
    """The record, its times of "as of this write" filled in. Raises UnknownFormat."""
    effect: Effect = _read(_effect_in, stored.payload)
    if effect.format > FORMAT:
        raise UnknownFormat(f"record format {effect.format}, this gateway reads up to {FORMAT}")
    return stamped(effect, stored.written_ms)


def stamped(effect: Effect, now_ms: int) -> Effect:
    """The record as written at `now_ms`."""
    changes: dict[str, Any] = {}
    if effect.first_at is None:
        changes["first_at"] = now_ms
    if effect.status in SETTLED:
        if effect.settled_at is None:
            changes["settled_at"] = now_ms
    elif effect.status is Status.EXECUTING:
        if effect.claimed_at is None:
            changes["claimed_at"] = now_ms
    elif effect.approval is not None and effect.approval.at is None and effect.status is Status.AWAITING_APPROVAL:
        changes["approval"] = msgspec.structs.replace(effect.approval, at=now_ms)
    return msgspec.structs.replace(effect, **changes) if changes else effect


def pointers_of(stored: Stored) -> list[bytes]:
    """The first bytes of the ids of the effects that a slot points to."""
    if not stored.payload:
        return []
    return [stored.payload[1 + 16 * n : 17 + 16 * n] for n in range(stored.payload[0])]


def slot_of(stored: Stored, records: Mapping[bytes, Effect | None]) -> CallSlot:
    """`records`: those that it points to, by the first bytes of their ids."""
    if not stored.payload:
        return CallSlot()
    pointers = pointers_of(stored)
    return _read(lambda raw: packing.unpack_slot(raw, pointers, records), stored.payload[1 + 16 * len(pointers) :])


def identical_of(stored: Stored) -> PrintSlot:
    if not stored.payload:
        return PrintSlot()
    return identical_stamped(_read(packing.unpack_identical, stored.payload[1:]), stored.written_ms)


def identical_stamped(slot: PrintSlot, now_ms: int) -> PrintSlot:
    known, stamped_any = list(slot.known), False
    for place, k in enumerate(known):
        if k.at is None:
            known[place], stamped_any = Known(k.effect, k.turn, k.status, now_ms, k.was_unknown), True
    return PrintSlot(tuple(known), slot.taken) if stamped_any else slot


def attempt_of(stored: Stored) -> int:
    return _read(_attempt, stored.payload[1:]) if stored.payload else 0


event_lines = packing.pack_events
