"""Reads a conversation's events, and gives each the whole id that its line leaves out (see `ledger_packing`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from gateway.adapters.ledger_codec import UNREADABLE, UnknownFormat
from gateway.adapters.ledger_packing import PREFIX, unpack_event
from gateway.core.conversation import Event
from gateway.core.ports import LoggedEvent

TOGETHER: Final = 8
"""More events than one decision writes: so many before a page say whose its first lines are."""
_EARLIER: Final = 1_000
"""Events of before a page that are looked through at a time for whole ids."""

Lines = Callable[[int, int], Awaitable[Sequence[bytes]]]
"""So many lines behind a number, as they lie there."""


async def read_events(lines: Lines, after: int, limit: int) -> list[LoggedEvent]:
    """Events numbered above `after`, oldest first. Raises UnknownFormat."""
    before = max(0, after - TOGETHER)
    reading = _Reading()
    found = reading.page(after, await lines(before, after - before + limit), after - before)
    if not reading.short:
        return found
    while not reading.short <= reading.whole.keys() and before > 0:
        # An effect's first event is in the log for as long as any of it.
        start = max(0, before - _EARLIER)
        reading.events(start, await lines(start, before - start))
        before = start
    return [_named(logged, reading.whole) for logged in found]


def read_alone(after: int, lines: Sequence[bytes], skipped: int) -> list[LoggedEvent] | None:
    """The same of lines that were read already, the first of them up to TOGETHER before the page; None where that takes
    still earlier ones. Raises UnknownFormat."""
    reading = _Reading()
    found = reading.page(after, lines, skipped)
    return None if reading.short else found


class _Reading:
    """`whole`: ids by their first bytes; `short`: those of which only these were known where they stood."""

    def __init__(self) -> None:
        self.whole: dict[bytes, bytes] = {}
        self.short: set[bytes] = set()
        self._before: bytes | None = None

    def page(self, after: int, lines: Sequence[bytes], skipped: int) -> list[LoggedEvent]:
        if skipped:
            self.events(after - skipped, lines[:skipped])
            self.short.clear()
            lines = lines[skipped:]
        return self.events(after, lines)

    def events(self, after: int, lines: Sequence[bytes]) -> list[LoggedEvent]:
        try:
            return self._events(after, lines)
        except UNREADABLE as wrong:
            raise UnknownFormat(str(wrong)) from wrong

    def _events(self, after: int, lines: Sequence[bytes]) -> list[LoggedEvent]:
        found: list[LoggedEvent] = []
        whole, before, from_bytes = self.whole, self._before, int.from_bytes
        for seq, line in enumerate(lines, after + 1):
            type_, id_, data = unpack_event(line[6:])
            if id_ == b"":
                id_ = before or b""  # whose the line before it is
            elif id_ is not None:
                if len(id_) > PREFIX:
                    whole[id_[:PREFIX]] = id_
                elif id_ in whole:
                    id_ = whole[id_]
                else:
                    self.short.add(id_)
            before = id_
            found.append(LoggedEvent(seq, from_bytes(line[:6], "big"), Event(type_, id_, data)))
        self._before = before
        return found


def _named(logged: LoggedEvent, whole: dict[bytes, bytes]) -> LoggedEvent:
    event = logged.event
    effect_id = whole.get(event.effect_id) if event.effect_id is not None else None
    if effect_id is None:
        return logged
    return LoggedEvent(logged.seq, logged.at_ms, Event(event.type, effect_id, event.data))
