"""When a hold lapses: nobody approved it in time (promises 4.1, 4.9 and 7.4). Pure."""

from __future__ import annotations

from typing import Final

from gateway.core.conversation import Event, View
from gateway.core.decisions import Again, Need, Step
from gateway.core.record import Effect, Fault, Move, Outcome, Status, moved
from gateway.core.requests import Claim
from gateway.core.settlement import ended

APPROVAL_EXPIRED: Final = Fault(
    "approval_expired",
    "Not done: it was held as a repeat of something already done, and nobody approved it in time. "
    "Tell the customer; make a new call only if they still want it once more.",
)


def expire(view: View, request: Claim, held: Effect) -> Step:
    """A hold that stood too long is denied at the next read, as a lease lapses; then the call is judged again.

    Its ids replay the denial from then on, for the retention time. Without this one hold, which every identical
    call joins (4.9), would block its work for the rest of the conversation.
    """
    unread = tuple(slot for slot in held.slots if slot not in view.slots)
    if unread:
        return Step(Need(slots=unread))
    denied = Outcome(Status.DENIED, fault=APPROVAL_EXPIRED)
    after = moved(held, Move.EXPIRE, Status.DENIED, outcome=denied, settled_at=None, arguments=None)
    events = (
        Event("approval.expired", held.effect_id),
        Event("effect.denied", held.effect_id, {"code": APPROVAL_EXPIRED.code}),
    )
    return Step(Again(), ended(view, after, request.terms.retention_ms, *events))
