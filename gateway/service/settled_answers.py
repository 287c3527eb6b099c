"""Outcomes that can no longer change, kept for a moment: a repeat then costs no round trip (4.10).

A settled record is final until its retention time ends, at least a day later, so for one that this process has just
written or read the ledger could say nothing new. Only a request that states turn, step and attempt is kept: anything
left out may come to mean another call. See docs/adr/0007-settled-answers.md.

They are kept as bytes: twenty thousand records as objects are a million of them, and making, walking and dropping those
costs every new call more than reading one costs a replay.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from gateway.core.identity import Arguments, Place, Scope
from gateway.core.ports import Clock
from gateway.core.record import SETTLED, Effect

KEPT_FOR_S: Final = 60.0
MOST_KEPT: Final = 20_000
MOST_BYTES: Final = 32 * 1024 * 1024
LARGEST: Final = 64 * 1024
"""Bytes of a record worth keeping here."""
_HELD: Final = 400
"""Bytes, roughly, of the objects and the table entry around one record and its key."""

Key = bytes

_encode: Final = msgspec.msgpack.Encoder().encode
_read: Final = msgspec.msgpack.Decoder(Effect).decode


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A settled effect, packed; `ledger_ms` was the ledger's time when this process's clock said `at`."""

    packed: bytes
    ledger_ms: int
    at: float


class SettledAnswers:
    """Bounded by age, number and bytes; the oldest go first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[Key, Kept] = OrderedDict()
        self._bytes = 0

    def get(self, key: Key | None) -> tuple[Effect, int] | None:
        """The effect and the ledger's time by now; None if it is not kept."""
        kept = self._kept.get(key) if key is not None else None
        if kept is None:
            return None
        age_s = self._clock.monotonic() - kept.at
        return (_read(kept.packed), kept.ledger_ms + int(age_s * 1000)) if age_s < KEPT_FOR_S else None

    def put(self, key: Key | None, effect: Effect, ledger_ms: int) -> None:
        """Keep it, if it is settled and small."""
        if key is None or effect.status not in SETTLED:
            return
        packed = _encode(effect)
        if len(packed) > LARGEST:
            return
        self._forget(key)
        self._kept[key] = Kept(packed, ledger_ms, self._clock.monotonic())
        self._bytes += _size(key, packed)
        while self._bytes > MOST_BYTES or len(self._kept) > MOST_KEPT:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= _size(key, kept.packed)


def _size(key: Key, packed: bytes) -> int:
    """The bytes that keeping it costs: both, and what holds them."""
    return len(key) + len(packed) + _HELD


def key_of(
    company: str,
    conversation: str,
    tool_call_id: str | None,
    place: Place,
    scope: Scope,
    tool: str,
    arguments: Arguments,
) -> Key | None:
    """What a request is kept under; None where it leaves out what could come to differ."""
    if tool_call_id is None or place.turn is None or place.step is None or place.attempt is None:
        return None
    named = (company, conversation, tool_call_id, place.turn, place.step, place.attempt, scope, tool)
    return _encode((*named, arguments.canonical))
