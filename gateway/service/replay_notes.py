"""`effect.replayed` in the event log: after the answer, at most once a minute a call, with a count (7.6)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gateway.core.conversation import Event, EventLog
from gateway.core.errors import LedgerUnavailable
from gateway.core.ports import Clock, Ledger, Line
from gateway.core.record import Effect

PERIOD_S: Final = 60.0
GATHER_S: Final = 0.1
"""How long first notes are gathered, so that they leave in one write."""
MOST_KEPT: Final = 10_000
"""Calls remembered at once; beyond it the oldest may be noted sooner than a minute apart."""


class _Note:
    __slots__ = ("count", "due", "effect", "keep_ms", "matched")

    def __init__(self, effect: Effect, matched: str, keep_ms: int, due: float) -> None:
        self.effect = effect
        self.matched = matched
        self.keep_ms = keep_ms
        self.due = due
        self.count = 0


class ReplayNotes:
    """Counts replays and writes them down; a note that cannot be written is kept for the next round."""

    def __init__(self, ledger: Ledger, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._spawn = spawn
        self._notes: OrderedDict[bytes, _Note] = OrderedDict()
        self._soon: list[_Note] = []
        self._writing = False

    def note(self, effect: Effect, matched: str, keep_ms: int) -> None:
        """Count one replay; the first of a call is written soon, in the background, together with others'."""
        note = self._notes.get(effect.effect_id)
        if note is None:
            note = self._notes[effect.effect_id] = _Note(effect, matched, keep_ms, 0.0)
            if len(self._notes) > MOST_KEPT:
                _, oldest = self._notes.popitem(last=False)
                if oldest.count:
                    self._soon.append(oldest)
        note.count += 1
        if note.count == 1 and self._clock.monotonic() >= note.due:
            note.due = self._clock.monotonic() + PERIOD_S
            self._soon.append(note)
        if self._soon and not self._writing:
            self._writing = True
            self._spawn(self._write_soon())

    async def flush(self, *, everything: bool = False) -> None:
        """Write what is due (all of it before a stop), and forget calls that were quiet for a minute."""
        now, due = self._clock.monotonic(), []
        for effect_id, note in list(self._notes.items()):
            if note.count and (everything or now >= note.due):
                note.due = now + PERIOD_S
                due.append(note)
            elif not note.count and now >= note.due:
                del self._notes[effect_id]
        await self._write(due)

    async def _write_soon(self) -> None:
        try:
            await self._clock.sleep(GATHER_S)
            while self._soon:
                now, self._soon = self._soon, []
                await self._write(now)
        finally:
            self._writing = False

    async def _write(self, notes: list[_Note]) -> None:
        counted = [(note, note.count) for note in notes if note.count]
        for note, _ in counted:
            note.count = 0
        try:
            await self._ledger.append_each([_line(note, count) for note, count in counted])
        except LedgerUnavailable:
            for note, count in counted:
                note.count += count


def _line(note: _Note, count: int) -> Line:
    effect = note.effect
    event = Event("effect.replayed", effect.effect_id, {"matched": note.matched, "count": count})
    return Line(EventLog(effect.company, effect.conversation), event, note.keep_ms)
