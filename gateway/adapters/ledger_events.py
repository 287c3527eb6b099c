"""Reads a conversation's events, and gives each the whole id that its line leaves out (see `ledger_packing`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from gateway.adapters.ledger_packing import PREFIX
from gateway.core.conversation import Event
from gateway.core.ports import LoggedEvent

_TOGETHER: Final = 8
"""More events than one decision writes."""
_EARLIER: Final = 1_000
"""Events of before a page that are looked through at a time for whole ids."""

Lines = Callable[[int, int], Awaitable[list[LoggedEvent]]]
"""So many lines behind a number, as they lie there."""


async def read_events(lines: Lines, after: int, limit: int) -> list[LoggedEvent]:
    """Events numbered above `after`, oldest first."""
    start = max(0, after - _TOGETHER)
    found = await lines(start, after - start + limit)
    ids = _ids(found)
    skipped = after - start
    found, ids = found[skipped:], ids[skipped:]
    whole = _whole_ids(ids)
    missing = {id_ for id_ in ids if id_ is not None and len(id_) == PREFIX} - whole.keys()
    before = found[0].seq - 1 if found else 0
    while missing and before > 0:  # an effect's first event is in the log for as long as any of it
        start = max(0, before - _EARLIER)
        whole |= _whole_ids(logged.event.effect_id for logged in await lines(start, before - start))
        missing -= whole.keys()
        before = start
    return [_named(logged, whole.get(id_, id_) if id_ else id_) for logged, id_ in zip(found, ids, strict=True)]


def _ids(found: Sequence[LoggedEvent]) -> list[bytes | None]:
    """Whose each event is: what a line leaves to the one before it, filled in."""
    ids: list[bytes | None] = []
    before: bytes | None = b""
    for logged in found:
        id_ = logged.event.effect_id
        if id_ == b"" and before is not None:
            id_ = before
        ids.append(id_)
        before = id_
    return ids


def _whole_ids(ids: Iterable[bytes | None]) -> dict[bytes, bytes]:
    """By their first bytes."""
    return {id_[:PREFIX]: id_ for id_ in ids if id_ is not None and len(id_) > PREFIX}


def _named(logged: LoggedEvent, effect_id: bytes | None) -> LoggedEvent:
    event = logged.event
    if event.effect_id == effect_id:
        return logged
    return LoggedEvent(logged.seq, logged.at_ms, Event(event.type, effect_id, event.data))
