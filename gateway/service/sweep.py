"""What the gateway does without being asked: lapsed leases become indeterminate (4.5), holds lapse (7.4), replay notes
are written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from gateway.core.errors import LedgerUnavailable
from gateway.core.ports import Clock, Ledger
from gateway.core.record import Effect, Status
from gateway.core.requests import HOLD_MS, Expire, Lose
from gateway.service.deciding import Decider
from gateway.service.replay_notes import ReplayNotes
from gateway.service.waiting import Waiting

_log = logging.getLogger("oncegate.sweep")

RETENTION_MS: Final = 30 * 86_400_000
PERIOD_S: Final = 2.0
AT_ONCE: Final = 100
PAGES: Final = 20
"""Looks of one pass, of AT_ONCE entries each. What is due beyond them is the next pass's, which goes on from there."""


class Sweep:
    """Bounded work, safe to run on every replica: the compare-and-swap lets one of them win."""

    def __init__(
        self,
        ledger: Ledger,
        decider: Decider,
        waiting: Waiting,
        notes: ReplayNotes,
        clock: Clock,
        *,
        retention_ms: Callable[[str], int] = lambda _: RETENTION_MS,
    ) -> None:
        """`retention_ms`: of a company, how long what it settles is kept."""
        self._ledger = ledger
        self._decider = decider
        self._waiting = waiting
        self._notes = notes
        self._clock = clock
        self._retention_ms = retention_ms
        self._cursor: str | None = None

    async def once(self) -> int:
        """One pass; how many lapsed leases it ended. Raises LedgerUnavailable."""
        ended = 0
        for _ in range(PAGES):
            page = await self._ledger.due(AT_ONCE, self._cursor)
            for effect in page.effects:
                ended += await self._end(effect)
            # What could not be ended stays due: the next look begins behind it, or it would hide all that follows.
            self._cursor = page.cursor
            if page.cursor is None:
                break
        await self._notes.flush()
        return ended

    async def _end(self, effect: Effect) -> bool:
        try:
            await self._decider.end(self._ending(effect), effect)
        except Exception as fault:
            if isinstance(fault, LedgerUnavailable):
                # Raises where the ledger is away. Where it is not, this record leads to one that a newer gateway
                # wrote (4.13).
                await self._ledger.ready()
            # One record that cannot be judged must not keep all others executing for ever.
            _log.error("sweep: effect %s was left: %s", effect.hex, type(fault).__name__)
            return False
        finally:
            self._waiting.ended(effect.effect_id)
        return True

    def _ending(self, effect: Effect) -> Expire | Lose:
        if effect.status is Status.AWAITING_APPROVAL:
            return Expire(effect.effect_id, HOLD_MS, self._retention_ms(effect.company))
        return Lose(effect.effect_id, None, "lease lapsed")

    async def forever(self) -> None:
        """Pass after pass; an unreachable ledger is waited for."""
        while True:
            try:
                if await self.once() and self._cursor is not None:
                    continue
            except LedgerUnavailable:
                _log.warning("sweep: ledger unavailable")
            except Exception as fault:
                _log.error("sweep: %s", type(fault).__name__)
            await self._clock.sleep(PERIOD_S)
