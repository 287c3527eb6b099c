"""`GET /v1/events/stream`: a conversation's events as they come, as server-sent events (7.6).

A stream looks at the ledger again and again, so it does not matter which gateway writes. It holds one page at a time: a
reader that takes none of it for SLOW_S is dropped (`replies`), and resumes where it was by `Last-Event-ID`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from gateway.core.errors import BeyondLog, LedgerUnavailable, Malformed, RateLimited
from gateway.core.rights import Right, may
from gateway.web.models import StreamQuery
from gateway.web.operations import Asked
from gateway.web.replies import Streamed
from gateway.web.services import Services

LOOK_S: Final = 0.5
"""Between looks, while nothing new is found."""
HEARTBEAT_S: Final = 15.0
"""A comment after so much silence, so that nothing on the way takes the connection for dead."""
LONGEST_S: Final = 3_600.0
"""A stream ends after so long; its reader resumes. So none outlives a key that was revoked for more than an hour."""
PAGE: Final = 200

_ID: Final = re.compile(rb"[0-9]{1,15}")
_encode: Final = msgspec.json.Encoder().encode


class EventStreams:
    """At most `services.limits.streams` for one company at a time."""

    def __init__(self, services: Services) -> None:
        self._look_up = services.look_up
        self._stopping = services.stopping
        self._clock = services.clock
        self._most = services.limits.streams
        self._open: Counter[str] = Counter()

    async def stream(self, asked: Asked) -> Streamed:
        """Raises Forbidden, Malformed, BeyondLog where the reader has seen more than there is, and RateLimited where
        the company has as many as it may."""
        query: StreamQuery = asked.query
        may(asked.caller, Right.READ_EVENTS, query.company)
        after = query.after if asked.last_event_id is None else _resumed(asked.last_event_id)
        if self._open[query.company] >= self._most:
            raise RateLimited(f"The company has {self._most} streams open; end one of them first.", retry_after_s=5.0)
        if after:
            await self._has(asked, query, after)
        return Streamed(self._chunks(asked, query, after))

    async def _has(self, asked: Asked, query: StreamQuery, after: int) -> None:
        """Raises BeyondLog: a stream would stay silent, and pass over what comes until that number is reached again."""
        try:
            last = await self._look_up.last_event(asked.caller, query.company, query.conversation)
        except LedgerUnavailable:
            return  # the stream looks again
        if after > last:
            raise BeyondLog(
                f"The log has {_counted(last)}, fewer than the {after} that were seen: it lost some, or expired and "
                "began anew. Read it from after=0, without Last-Event-ID.",
                details={"last": last},
            )

    async def _chunks(self, asked: Asked, query: StreamQuery, after: int) -> AsyncGenerator[bytes, None]:
        if self._open[query.company] >= self._most:
            return  # others took the last place meanwhile
        self._open[query.company] += 1
        try:
            yield b": events of one conversation\nretry: 1000\n\n"
            began = said = self._clock.monotonic()
            while not self._stopping.begun and self._clock.monotonic() - began < LONGEST_S:
                seen = min(after, 1)
                try:
                    found = await self._look_up.events(
                        asked.caller, query.company, query.conversation, after - seen, PAGE + seen
                    )
                    if len(found) < seen:
                        return  # even what was told last is gone: its reader resumes, and is told so
                    found = found[seen:]
                except LedgerUnavailable:
                    found = []  # it is asked again; nothing is skipped, since `after` stays where it is
                if found:
                    after = found[-1]["seq"]
                    yield b"".join(_told(event) for event in found)
                elif self._clock.monotonic() - said >= HEARTBEAT_S:
                    yield b": still here\n\n"
                else:
                    await self._clock.sleep(LOOK_S)
                    continue
                said = self._clock.monotonic()
        finally:
            self._open[query.company] -= 1
            if not self._open[query.company]:
                del self._open[query.company]


def _told(event: dict[str, Any]) -> bytes:
    # JSON has no bare line breaks, so one line of data is enough.
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event["seq"], str(event["type"]).encode(), _encode(event))


def _counted(number: int) -> str:
    return "1 event" if number == 1 else f"{number} events"


def _resumed(sent: bytes) -> int:
    if _ID.fullmatch(sent) is None:
        raise Malformed(
            "Last-Event-ID must be the id of an event of this stream",
            details={"fields": [{"field": "Last-Event-ID", "problem": "must be a whole number"}]},
        )
    return int(sent)
