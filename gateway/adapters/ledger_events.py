"""Reads a conversation's events, and gives each the whole id that its line leaves out (see `ledger_packing`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from gateway.adapters.ledger_packing import PREFIX
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
    found = [logged for logged in _each_named(await lines(start, after - start + limit)) if logged.seq > after]
    whole = _whole_ids(found)
    missing = {id_ for logged in found if (id_ := logged.event.effect_id) is not None and len(id_) == PREFIX} - {*whole}
    before = found[0].seq - 1 if found else 0
    while missing and before > 0:  # an effect's first event is in the log for as long as any of it
        start = max(0, before - _EARLIER)
        whole |= _whole_ids(await lines(start, before - start))
        missing -= whole.keys()
        before = start
    return [_named(logged, whole.get(logged.event.effect_id or b"")) for logged in found]


def _whole_ids(found: Sequence[LoggedEvent]) -> dict[bytes, bytes]:
    """By their first bytes."""
    return {id_[:PREFIX]: id_ for logged in found if (id_ := logged.event.effect_id) is not None and len(id_) > PREFIX}


def _each_named(found: Sequence[LoggedEvent]) -> list[LoggedEvent]:
    """What a line leaves to the one before it, filled in."""
    named: list[LoggedEvent] = []
    for logged in found:
        before = named[-1].event.effect_id if named else None
        named.append(_named(logged, before) if logged.event.effect_id == b"" else logged)
    return named


def _named(logged: LoggedEvent, effect_id: bytes | None) -> LoggedEvent:
    if effect_id is None:
        return logged
    return msgspec.structs.replace(logged, event=msgspec.structs.replace(logged.event, effect_id=effect_id))
