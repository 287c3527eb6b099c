"""Outcomes that can no longer change, kept for a moment: a repeat then costs no round trip (4.10).

A settled record is final until its retention time ends, at least a day later, so for one that this process has just
written or read the ledger could say nothing new. Only a request that states turn, step and attempt is kept: anything
left out may come to mean another call. See docs/adr/0007-settled-answers.md.

They are kept as bytes, two objects each: twenty thousand records as objects are a million of them, and making, walking
and dropping those costs every new call more than reading one costs a replay. And they are dropped by the thousand: one
dropped for each one kept would leave a hole in memory long out of the processor's caches, and the next thing that is
made would be put there.
"""

from __future__ import annotations

import hashlib
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
_HELD: Final = 250
"""Bytes, roughly, of a key, the table entry and what holds both."""

Key = bytes

_encode: Final = msgspec.msgpack.Encoder().encode
_read: Final = msgspec.msgpack.Decoder(tuple[float, int, Effect]).decode


class SettledAnswers:
    """Bounded by age, number and bytes, in two halves: once the newer one is full, the older one goes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newer: dict[Key, bytes] = {}
        self._older: dict[Key, bytes] = {}
        self._bytes = 0
        """Of the newer half."""

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def get(self, key: Key | None) -> tuple[Effect, int] | None:
        """The effect and the ledger's time by now; None if it is not kept."""
        if key is None:
            return None
        kept = self._newer.get(key) or self._older.get(key)
        if kept is None:
            return None
        at, ledger_ms, effect = _read(kept)
        age_s = self._clock.monotonic() - at
        return (effect, ledger_ms + int(age_s * 1000)) if age_s < KEPT_FOR_S else None

    def put(self, key: Key | None, effect: Effect, ledger_ms: int) -> None:
        """Keep it, if it is settled and small."""
        if key is None or effect.status not in SETTLED:
            return
        packed = _encode((self._clock.monotonic(), ledger_ms, effect))
        if len(packed) > LARGEST:
            return
        size = len(packed) + _HELD
        if self._bytes + size > MOST_BYTES // 2 or len(self._newer) >= MOST_KEPT // 2:
            self._older, self._newer, self._bytes = self._newer, {}, 0
        self._newer[key] = packed
        self._bytes += size


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
    # A digest, since it is kept as long as the answer; 2.4, too, rests on nobody finding two requests of one digest.
    return hashlib.sha256(_encode((*named, arguments.canonical))).digest()
