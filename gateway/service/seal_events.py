"""Seals event logs and tells the companies' feeds of what was sealed, unasked and off the hot path (7.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from gateway.core.conversation import EventLog
from gateway.core.errors import LedgerUnavailable
from gateway.core.event_chain import after, start_of
from gateway.core.ports import Clock, Ledger, LoggedEvent, News, Resealing, Seal, Seals
from gateway.service.look_up import event_body

_log = logging.getLogger("oncegate.seals")

AT_ONCE: Final = 50
FEW: Final = 100
"""Events, at most, of a log that is sealed together with others."""
_IN_ONE_TURN: Final = 10
"""Logs that are hashed before calls have their turn of the event loop: about a millisecond."""
PAGE: Final = 500
"""Events at a time of a log that is sealed by itself."""


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
            done += await self._page(logs)
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

    async def _page(self, logs: Sequence[EventLog]) -> int:
        """One log that cannot be sealed must not keep the others unsealed: whatever stops them all, each goes by itself
        then, from what stands by then."""
        try:
            done, alone = await self._together(logs)
        except Exception as fault:
            _log.info("seals: a page goes log by log: %s", type(fault).__name__)
            done, alone = 0, list(logs)
        return done + sum(await asyncio.gather(*(self._one(log) for log in alone)))

    async def _together(self, logs: Sequence[EventLog]) -> tuple[int, list[EventLog]]:
        """Seal them with one trip to the ledger a step; how many were brought up to date, and which have to be read by
        themselves."""
        alone: list[EventLog] = []
        changes: list[Resealing] = []
        found = await self._seals.look(logs, FEW)
        for place, (log, looked) in enumerate(zip(logs, found, strict=True), 1):
            if place % _IN_ONE_TURN == 0:
                await asyncio.sleep(0)
            if looked is None:
                alone.append(log)
            else:
                changes.append(Resealing(log, looked.seal, _sealed(log, looked.seal, looked.events)))
        done = await self._put(changes)
        sealed = [(change.log, change.now) for change in done if change.now is not None]
        await self._seals.tell([self._news(log, seal) for log, seal in sealed if seal.told < seal.sealed])
        noted = await self._put([Resealing(log, seal, _told(seal)) for log, seal in sealed])
        return len(done) - len(sealed) + len(noted), alone

    async def _put(self, changes: Sequence[Resealing]) -> list[Resealing]:
        """Those that were made; at the others another replica is."""
        put = await self._seals.put(changes)
        return [change for change, made in zip(changes, put, strict=True) if made]

    def _news(self, log: EventLog, seal: Seal) -> News:
        return News(log, seal.told + 1, seal.sealed, self._retention_ms(log.company))

    async def _one(self, log: EventLog) -> bool:
        try:
            return await self.bring_up_to_date(log)
        except Exception as fault:
            # It stays listed. Perhaps a newer gateway wrote what it says, or it is no log.
            _log.warning("seals: a log was left: %s", type(fault).__name__)
            return False

    async def bring_up_to_date(self, log: EventLog) -> bool:
        """Seal one log and tell of it; False if another replica is at it. Raises LedgerUnavailable."""
        seal = await self._seals.seal(log.digest)
        while True:
            events = await self._ledger.events(log.digest, seal.sealed if seal is not None else 0, PAGE)
            now = _sealed(log, seal, events)
            if (events or now is None) and not await self._put([Resealing(log, seal, now)]):
                return False
            if now is None:
                return True
            seal = now
            if len(events) < PAGE:
                break
        if seal.told < seal.sealed:
            await self._seals.tell([self._news(log, seal)])
        return bool(await self._put([Resealing(log, seal, _told(seal))]))


def _sealed(log: EventLog, seal: Seal | None, events: Sequence[LoggedEvent]) -> Seal | None:
    """The seal once these events are behind it as well; None where there is nothing to be sealed."""
    if not events:
        return seal
    head, told = (seal.head, seal.told) if seal is not None else (start_of(log.digest), 0)
    for event in events:
        head = after(head, event_body(event, True))
    return Seal(events[-1].seq, told, events[-1].at_ms, head)


def _told(seal: Seal) -> Seal:
    return Seal(seal.sealed, seal.sealed, seal.at_ms, seal.head)
