"""What is stored, for those who may see it: calls with their events, unknown outcomes, the event log."""

from __future__ import annotations

from typing import Any, Final

from gateway.core import identity
from gateway.core.answer import fault_body, fault_of, iso, raw
from gateway.core.conversation import Where
from gateway.core.event_chain import seen_sha256
from gateway.core.identity import Place, Scope
from gateway.core.model import Principal
from gateway.core.ports import Ledger, LoggedEvent
from gateway.core.record import Effect, Fault
from gateway.core.rights import Right, allowed, may

EVENTS_READ: Final = 5_000
PAGES_READ: Final = 40
"""Events of a conversation looked through for those of one call: this many pages of that many."""


class LookUp:
    """Reads; never changes anything."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def calls(
        self,
        principal: Principal,
        company: str,
        conversation: str,
        tool_call_id: str,
        *,
        turn: str | None = None,
        step: int | None = None,
    ) -> list[dict[str, Any]]:
        """The stored records that an id names, whatever the scope it was kept under, each with its events."""
        may(principal, Right.READ_CALLS, company)
        place = Place(turn, step)
        slots = tuple(
            identity.call_digest(company, conversation, tool_call_id, scope, place) for scope in _scopes(place)
        )
        digest = identity.conversation_digest(company, conversation)
        view = await self._ledger.read(Where(digest, b"", slots=slots))
        wanted = tuple(dict.fromkeys(b.effect for slot in view.slots.values() for b in slot.bindings))
        view = await self._ledger.read(Where(digest, b"", slots=slots, effects=wanted))
        events = await self._events_of(digest, set(wanted))
        results = allowed(principal, Right.READ_RESULTS, company)
        found = (view.effects.get(effect) for effect in wanted)
        return [
            {
                **record_body(effect, results),
                "events": [event_body(e, results) for e in events if e.event.effect_id == effect.effect_id],
            }
            for effect in found
            if effect is not None and _at(effect, place) and any(slot in effect.slots for slot in slots)
        ]

    async def _events_of(self, conversation: bytes, effects: set[bytes]) -> list[LoggedEvent]:
        found: list[LoggedEvent] = []
        for page in range(PAGES_READ):
            events = await self._ledger.events(conversation, page * EVENTS_READ, EVENTS_READ)
            found += [event for event in events if event.event.effect_id in effects]
            if len(events) < EVENTS_READ:
                break
        return found

    async def unknown(
        self, principal: Principal, company: str, cursor: str | None, limit: int
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A company's indeterminate effects, a page at a time."""
        may(principal, Right.READ_CALLS, company)
        page = await self._ledger.unknown(company, cursor, limit)
        results = allowed(principal, Right.READ_RESULTS, company)
        return [record_body(effect, results) for effect in page.effects], page.cursor

    async def events(
        self, principal: Principal, company: str, conversation: str | None, after: int, limit: int
    ) -> list[dict[str, Any]]:
        """Events numbered above `after`, oldest first; without a conversation, the company's own (tools)."""
        may(principal, Right.READ_EVENTS, company)
        digest = identity.conversation_digest(company, conversation or "")
        results = allowed(principal, Right.READ_RESULTS, company)
        return [event_body(event, results) for event in await self._ledger.events(digest, after, limit)]

    async def last_event(self, principal: Principal, company: str, conversation: str | None) -> int:
        """The number of the last event there is; 0 for none. Who has seen more of this log has seen what is lost."""
        may(principal, Right.READ_EVENTS, company)
        return await self._ledger.last_event(identity.conversation_digest(company, conversation or ""))


def record_body(effect: Effect, results: bool) -> dict[str, Any]:
    """A stored record as the API shows it; a result is raw JSON text inside (2.10), left out unless `results`."""
    fault = fault_of(effect)
    result = effect.outcome.result if results and effect.outcome is not None and fault is None else None
    if fault is not None and not results:
        fault = Fault(fault.code, fault.message)
    return {
        "effect_id": effect.hex,
        "company": effect.company,
        "conversation": effect.conversation,
        "tool_call_id": effect.tool_call_id,
        "tool": effect.target,
        "kind": effect.kind.value,
        "turn": effect.turn,
        "step": effect.step,
        "attempt": effect.attempt,
        "occurrence": effect.occurrence,
        "status": effect.status.value,
        "idempotency": effect.mode.value,
        "tool_version": effect.tool_version,
        "first_at": iso(effect.first_at),
        "claimed_at": iso(effect.claimed_at),
        "settled_at": iso(effect.settled_at),
        "result": raw(result),
        "error": fault_body(fault) if fault is not None else None,
    }


def event_body(logged: LoggedEvent, results: bool) -> dict[str, Any]:
    """One event: `{"seq", "type", "at", "effect_id", …}`; of what was seen of an answer only
    its SHA-256 unless `results`."""
    event = logged.event
    body = {
        "seq": logged.seq,
        "type": event.type,
        "at": iso(logged.at_ms),
        "effect_id": event.effect_id.hex() if event.effect_id is not None else None,
        **event.data,
    }
    if "seen" in body and not results:
        body["seen_sha256"] = seen_sha256(body.pop("seen"))
    return body


def _scopes(place: Place) -> list[Scope]:
    scopes = [Scope.AUTO]
    if place.turn is not None:
        scopes.append(Scope.TURN)
        if place.step is not None:
            scopes.append(Scope.STEP)
    return scopes


def _at(effect: Effect, place: Place) -> bool:
    return (place.turn is None or effect.turn == place.turn) and (place.step is None or effect.step == place.step)
