"""Outcomes that can no longer change, kept for a moment: a repeat then costs no round trip (4.10).

A settled record is final until its retention time ends, at least a day later, so for one that this process has just
written or read the ledger could say nothing new. Only a request that states turn, step and attempt is kept: anything
left out may come to mean another call. See docs/adr/0007-settled-answers.md.
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
"""Bytes of a result worth keeping here."""

Key = tuple[str, str, str, Place, Scope, str, bytes]


class Kept(msgspec.Struct, frozen=True):
    """A settled effect; `ledger_ms` was the ledger's time when this process's clock said `at`."""

    effect: Effect
    ledger_ms: int
    at: float
    size: int


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
        return (kept.effect, kept.ledger_ms + int(age_s * 1000)) if age_s < KEPT_FOR_S else None

    def put(self, key: Key | None, effect: Effect, ledger_ms: int) -> None:
        """Keep it, if it is settled and small."""
        if key is None or effect.status not in SETTLED:
            return
        size = _size(key, effect)
        if size > LARGEST:
            return
        self._forget(key)
        self._kept[key] = Kept(effect, ledger_ms, self._clock.monotonic(), size)
        self._bytes += size
        while self._bytes > MOST_BYTES or len(self._kept) > MOST_KEPT:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size


def _size(key: Key, effect: Effect) -> int:
    """Roughly the bytes that keeping it costs."""
    outcome = effect.outcome
    company, conversation, id_, _, _, tool, canonical = key
    texts = len(company) + len(conversation) + len(id_) + len(tool) + len(canonical)
    ids = 48 * (len(effect.slots) + len(effect.tokens) + len(effect.fields) + len(effect.repeat_of))
    result = len(outcome.result or b"") if outcome is not None else 0
    details = len(outcome.fault.details or b"") if outcome is not None and outcome.fault is not None else 0
    return 2_048 + 2 * texts + ids + result + details


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
    return company, conversation, tool_call_id, place, scope, tool, arguments.canonical
