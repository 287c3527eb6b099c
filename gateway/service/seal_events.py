"""Seals event logs and tells the companies' feeds of what was sealed, unasked and off the hot path (7.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gateway.core.conversation import EventLog
from gateway.core.errors import LedgerUnavailable
from gateway.core.event_chain import after, start_of
from gateway.core.ports import Clock, Ledger, Seal, Seals
from gateway.service.look_up import event_body

_log = logging.getLogger("oncegate.seals")

AT_ONCE: Final = 50
PAGE: Final = 500


class SealEvents:
    """Bounded work, safe to run on every replica: a seal is replaced only by who has seen the one that stands.

    The order is: seal, tell the feed, note that it was told. Who dies in between leaves a log that is still listed, and
    whose seal says what the feed was not told yet: it is told then, perhaps twice, never not at all.
    """

    def __init__(
        self, ledger: Ledger, seals: Seals, clock: Clock, *, retention_ms: Callable[[str], int], period_s: float = 5.0
    ) -> None:
        """`retention_ms`: of a company, how long its feed goes back."""
        self._ledger = ledger
        self._seals = seals
        self._clock = clock
        self._retention_ms = retention_ms
        self._period_s = period_s

    async def once(self) -> int:
        """Seal what waits for it; how many logs were brought up to date. Raises LedgerUnavailable."""
        done, cursor = 0, None
        while True:
            logs, cursor = await self._seals.unsealed(AT_ONCE, cursor)
            done += sum(await asyncio.gather(*(self._one(log) for log in logs)))
            if cursor is None:
                return done

    async def forever(self) -> None:
        """Pass after pass; an unreachable ledger is waited for."""
        while True:
            try:
                await self.once()
            except LedgerUnavailable:
                _log.warning("seals: ledger unavailable")
            except Exception as fault:
                _log.error("seals: %s", type(fault).__name__)
            await self._clock.sleep(self._period_s)

    async def _one(self, log: EventLog) -> bool:
        try:
            return await self.bring_up_to_date(log)
        except LedgerUnavailable as fault:
            # It stays listed. Perhaps a newer gateway wrote what it says: that must not keep the others unsealed.
            _log.warning("seals: a log was left: %s", type(fault).__name__)
            return False

    async def bring_up_to_date(self, log: EventLog) -> bool:
        """Seal one log and tell of it; False if another replica is at it. Raises LedgerUnavailable."""
        stands = await self._seals.seal(log.digest)
        while True:
            sealed, head = (stands.sealed, stands.head) if stands is not None else (0, start_of(log.digest))
            events = await self._ledger.events(log.digest, sealed, PAGE)
            if events:
                for event in events:
                    head = after(head, event_body(event, True))
                now = Seal(events[-1].seq, stands.told if stands is not None else 0, events[-1].at_ms, head)
                if not await self._seals.put(log, stands, now):
                    return False  # another replica is at it
                stands = now
            if len(events) < PAGE:
                break
        if stands is None:
            return await self._seals.put(log, None, None)
        if stands.told < stands.sealed:
            await self._seals.tell(log, stands.told + 1, stands.sealed, self._retention_ms(log.company))
        return await self._seals.put(log, stands, Seal(stands.sealed, stands.sealed, stands.at_ms, stands.head))
