"""Looking up what is stored (7.6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.core.conversation import Event
from gateway.core.model import Principal, Role
from gateway.core.ports import LoggedEvent
from gateway.service.look_up import EVENTS_READ, LookUp

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
STRANGER = b"s" * 32


class LongLog:
    """The real ledger, its events behind so many of another call."""

    def __init__(self, ledger: Any, before: int) -> None:
        self._ledger, self._before, self.asked = ledger, before, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def events(self, conversation: bytes, after: int, limit: int) -> list[LoggedEvent]:
        self.asked.append((after, limit))
        filled = range(after + 1, min(after + limit, self._before) + 1)
        found = [LoggedEvent(seq, 0, Event("effect.replayed", STRANGER)) for seq in filled]
        late = await self._ledger.events(conversation, max(0, after - self._before), limit - len(found))
        return (
            found + [msgspec.structs.replace(each, seq=each.seq + self._before) for each in late][: limit - len(found)]
        )


@pytest.mark.parametrize("before", [0, EVENTS_READ - 2, EVENTS_READ - 1, EVENTS_READ, EVENTS_READ + 1, 4 * EVENTS_READ])
async def test_p7_6_a_late_call_of_a_long_conversation_is_shown_with_all_its_events(world, before):
    """7.6: a page of the log at a time, also where a page ends amid the call's events; none of another call's."""
    await world.call(tool_call_id="n1")
    ledger = LongLog(world.ledger, before)
    (call,) = await LookUp(ledger).calls(OPERATOR, "shop1", "c1", "n1")
    assert [(e["seq"] - before, e["type"]) for e in call["events"]] == [
        (1, "effect.proposed"),
        (2, "effect.allowed"),
        (3, "effect.executing"),
        (4, "effect.succeeded"),
    ]
    assert {e["effect_id"] for e in call["events"]} == {call["effect_id"]}
    assert all(limit == EVENTS_READ for _, limit in ledger.asked)
    assert len(ledger.asked) == (before + 4) // EVENTS_READ + 1
