"""What must hold of every write to the ledger, event by event, at the moment at which it is applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.core import identity
from gateway.core.conversation import Event
from gateway.core.record import Effect, Mode, Status
from gateway.service.claims import token_of
from tests.faults.plan import COMPANY
from tests.faults.resolvers import BY_HAND

if TYPE_CHECKING:
    from tests.faults.invariants import Watch

_WRONG: Final = {
    BY_HAND: "an operator was wrong about an unknown outcome",
    "status endpoint's void does not bind": "a merchant's void did not bind it",
    "status endpoint lies": "a merchant said that it did what it had not done",
}


def _proposed(watch: Watch, key: str, stood: Effect | None, becomes: Any, event: Event, now_ms: int) -> None:
    if becomes is None or becomes.turn is None:
        return
    conversation = identity.conversation_digest(COMPANY, becomes.conversation)
    seen = watch.world.ledger.highest_attempt(conversation, becomes.turn)
    if becomes.attempt < seen:
        watch.broke("2.6", f"attempt {becomes.attempt} starts {key[:8]} though attempt {seen} was seen")


def _executing(watch: Watch, key: str, stood: Effect | None, becomes: Any, event: Event, now_ms: int) -> None:
    watch.started[key] += 1
    watch.said_failed.discard(key)
    watch.claimed_at[key, becomes.tokens[-1]] = watch.world.loop.now
    writer = watch.writer
    if writer is not None and writer.claim_token and token_of(writer.claim_token) != becomes.tokens[-1]:
        watch.broke("4.3", f"{key[:8]} is claimed under another token than it was submitted with")
    if becomes.mode is not Mode.AT_MOST_ONCE or key in watch.excuses:
        return
    books = watch.world.books
    if stood is not None and stood.status not in (Status.ABSENT, Status.AWAITING_APPROVAL):
        watch.broke("4.6", f"{key[:8]} is claimed again though it is {stood.status}")
    elif books.of(key) or books.pending(key):
        watch.broke("4.6", f"{key[:8]} is claimed again though it was sent before and may have been done")


def _succeeded(watch: Watch, key: str, stood: Effect | None, becomes: Any, event: Event, now_ms: int) -> None:
    if key in watch.excuses or watch.happened(key, becomes.outcome.result, becomes.outcome.dropped):
        return
    if event.data.get("said_by_merchant"):
        _wrong(watch, key)
    else:
        watch.broke("4.2", f"{key[:8]} is recorded as a success that did not happen: {becomes.outcome.result!r}")


def _failed(watch: Watch, key: str, stood: Effect | None, becomes: Any, event: Event, now_ms: int) -> None:
    watch.must_not_happen(key, "recorded as failed")


def _released(watch: Watch, key: str, stood: Effect | None, becomes: Any, event: Event, now_ms: int) -> None:
    watch.undone.add(key)
    watch.must_not_happen(key, "released")


def _renewed(watch: Watch, key: str, stood: Effect | None, becomes: Any, event: Event, now_ms: int) -> None:
    """7.2: only whoever holds the claim, for as long as its lease runs."""
    token = token_of(watch.writer.claim_token) if watch.writer is not None else b""
    if stood is None or stood.tokens[-1:] != (token,):
        watch.broke("7.2", f"{key[:8]} is renewed by somebody who does not hold it")
        return
    # It may lapse between the look and the write, where nobody else has looked yet; not before it was asked.
    asked_ms = now_ms - int((watch.world.loop.now - watch.writer.began) * 1000) if watch.writer is not None else now_ms
    if stood.lapsed(asked_ms) and not watch.ledger_jumped:
        watch.broke("4.5", f"{key[:8]} is renewed though its lease was over before that was asked")


def _indeterminate(watch: Watch, key: str, stood: Effect | None, becomes: Any, event: Event, now_ms: int) -> None:
    if event.data.get("reason") == "lease lapsed":
        watch.stirred.add(key)
        # A clock that jumped back since the lapse was seen does not undo it.
        if stood is not None and max(now_ms, watch.latest_ms) < (stood.claimed_at or 0) + stood.lease_ms:
            watch.broke("4.5", f"{key[:8]} is taken for lost before its lease is over by the ledger's clock")


def _resolved(watch: Watch, key: str, stood: Effect | None, becomes: Any, event: Event, now_ms: int) -> None:
    watch.stirred.add(key)
    watch.resolved.add(key)
    if stood is None or stood.status is not Status.INDETERMINATE:
        watch.broke("4.1", f"{key[:8]} is resolved though it is {stood and stood.status}")
    books, said = watch.world.books, event.data["outcome"]
    watch.absences[key] += said == "absent"
    if said == "absent":
        watch.undone.add(key)
    if said == "succeeded":
        if not watch.happened(key, becomes.outcome.result, becomes.outcome.dropped):
            _wrong(watch, key)
    elif books.of(key) or books.pending(key):
        _wrong(watch, key)


def _wrong(watch: Watch, key: str) -> None:
    if key in watch.excuses:
        return
    if key in watch.said_wrongly:
        watch.excuse(key, _WRONG[watch.said_wrongly[key]])
    else:
        watch.broke("5.4", f"{key[:8]} is resolved against what an honest merchant said")


def _conflict(watch: Watch, key: str, stood: Effect | None, becomes: Any, event: Event, now_ms: int) -> None:
    watch.conflicts.add(key)


JUDGES: Final[dict[str, Callable[[Watch, str, Effect | None, Any, Event, int], None]]] = {
    "effect.proposed": _proposed,
    "effect.executing": _executing,
    "effect.succeeded": _succeeded,
    "effect.failed": _failed,
    "effect.released": _released,
    "effect.renewed": _renewed,
    "effect.indeterminate": _indeterminate,
    "effect.resolved": _resolved,
    "effect.conflict": _conflict,
}
"""Event -> what is asked of the write that has it: the watch, the effect's key, what stood, what is written, the event
and the ledger's time."""
