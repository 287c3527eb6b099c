"""A company's feed: the sealed events of all its conversations, in the order in which they were sealed (7.6)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gateway.core.answer import iso
from gateway.core.conversation import EventLog
from gateway.core.errors import Malformed
from gateway.core.model import Principal
from gateway.core.ports import Ledger, LoggedEvent, Seals, Told
from gateway.core.rights import Right, allowed, may
from gateway.service.look_up import event_body

LINES: Final = 100
"""Of the feed that one page looks at."""
SKEW_MS: Final = 60_000
"""Servers of a cluster may disagree about the time by so much, and an event is still found by its own."""
CURSOR: Final = re.compile(r"([0-9]{1,15}-[0-9]{1,15})(?::([0-9]{1,10}))?")


class FeedPage(NamedTuple):
    """Events, each with its conversation (null: the company's own); `cursor` goes on behind them, at once if `more`."""

    events: list[dict[str, Any]]
    cursor: str
    more: bool


class _Part(NamedTuple):
    """Events of one line of the feed: behind this number, so many."""

    line: Told
    behind: int
    number: int

    @property
    def last(self) -> int:
        return self.behind + self.number


class ReadFeed:
    """Reads; never changes anything."""

    def __init__(self, ledger: Ledger, seals: Seals) -> None:
        self._ledger = ledger
        self._seals = seals

    async def page(self, principal: Principal, company: str, since_ms: int, cursor: str | None, limit: int) -> FeedPage:
        """Events that happened at `since_ms` (ledger's clock) or later, at least once each; those of one conversation
        in their order, but for what comes again. A page may be short, or empty, though there is more.

        Raises Forbidden, Malformed (a cursor that none of these gave) and LedgerUnavailable."""
        may(principal, Right.READ_EVENTS, company)
        start, behind = _start(cursor, since_ms)
        # A line of which a part was read is read again, one that was read whole is passed.
        lines = await self._seals.told(company, f"({start}" if behind is None else start, LINES)
        parts = _parts(lines, start, behind or 0, limit)
        results = allowed(principal, Right.READ_RESULTS, company)
        found = await asyncio.gather(*(self._events(company, part) for part in parts))
        events = [
            {**event_body(event, results), "conversation": part.line.conversation or None}
            for part, read in zip(parts, found, strict=True)
            for event in read
            if event.at_ms >= since_ms
        ]
        if not parts:
            return FeedPage(events, cursor or f"{start}:0", False)
        last = parts[-1]
        whole = last.last == last.line.last
        more = not whole or len(parts) < len(lines) or len(lines) == LINES
        return FeedPage(events, last.line.place if whole else f"{last.line.place}:{last.last}", more)

    async def seal(self, principal: Principal, company: str, conversation: str | None) -> dict[str, Any]:
        """How far a log is sealed: `{"sealed", "head", "at"}`, the hash after that event as hex, and when it happened;
        0 and nulls where nothing is."""
        may(principal, Right.READ_EVENTS, company)
        stands = await self._seals.seal(EventLog(company, conversation or "").digest)
        if stands is None:
            return {"sealed": 0, "head": None, "at": None}
        return {"sealed": stands.sealed, "head": stands.head.hex(), "at": iso(stands.at_ms)}

    async def _events(self, company: str, part: _Part) -> list[LoggedEvent]:
        digest = EventLog(company, part.line.conversation).digest
        return await self._ledger.events(digest, part.behind, part.number)


def _start(cursor: str | None, since_ms: int) -> tuple[str, int | None]:
    """A place in the feed, and the number of the last event of that line that was read (None: all were)."""
    if cursor is None:
        return f"{max(0, since_ms - SKEW_MS)}-0", 0
    match = CURSOR.fullmatch(cursor)
    if match is None:
        raise Malformed(
            "the cursor is not one of a feed",
            details={"fields": [{"field": "cursor", "problem": "must be one that a page of this feed gave"}]},
        )
    return match[1], None if match[2] is None else int(match[2])


def _parts(lines: Sequence[Told], start: str, behind: int, limit: int) -> list[_Part]:
    """What of these lines is one page: `limit` events at most."""
    parts: list[_Part] = []
    for line in lines:
        done = min(behind, line.last) if line.place == start and behind >= line.first else line.first - 1
        number = min(line.last - done, limit)
        parts.append(_Part(line, done, max(0, number)))
        limit -= max(0, number)
        if not limit:
            break
    return parts
