"""Time and chance of a history: each gateway has two clocks of its own, the ledger a third, and every one may jump."""

from __future__ import annotations

import itertools
from contextvars import Context
from typing import Final

from tests.faults.loop import Loop

START_MS: Final = 1_800_000_000_000


class GatewayClock:
    """A gateway's clocks: `monotonic` starts anywhere and never jumps, the wall clock does."""

    def __init__(self, loop: Loop, offset_s: float) -> None:
        self._loop = loop
        self._offset = offset_s
        self.skew_ms = 0

    def monotonic(self) -> float:
        return self._loop.now + self._offset

    def wall_ms(self) -> int:
        return START_MS + int(self._loop.now * 1000) + self.skew_ms

    async def sleep(self, seconds: float) -> None:
        await pause(self._loop, seconds)


class LedgerClock:
    """The ledger's time, in milliseconds."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.skew_ms = 0

    def __call__(self) -> int:
        return START_MS + int(self._loop.now * 1000) + self.skew_ms


async def pause(loop: Loop, seconds: float, context: Context | None = None) -> None:
    """Until that much virtual time has passed."""
    future = loop.create_future()
    timer = loop.call_later(seconds, wake, future, context=context)
    try:
        await future
    finally:
        timer.cancel()


def wake(future: object) -> None:
    if not future.done():  # type: ignore[attr-defined]
        future.set_result(None)  # type: ignore[attr-defined]


class Tokens:
    """No two alike in a history."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def token(self) -> bytes:
        return next(self._numbers).to_bytes(16)


class Chance:
    """Numbers that depend on the seed and on what they are for, not on how many were asked before: taking a fault out
    of a history leaves the rest of it as it was."""

    def __init__(self, seed: int) -> None:
        self._seed = seed * 0x9E3779B1

    def fraction(self, what: int, number: int) -> float:
        x = (self._seed + what * 0x85EBCA77 + number * 0xC2B2AE3D) & 0xFFFFFFFF
        x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
        x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
        return (x ^ (x >> 16)) / 0x1_0000_0000

    def between(self, low: float, high: float, what: int, number: int) -> float:
        return low + (high - low) * self.fraction(what, number)
