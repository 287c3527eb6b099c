"""When a hold lapses: nobody approved it in time (promises 4.1, 4.9 and 7.4). Pure."""

from __future__ import annotations

from typing import Final

from gateway.core.conversation import Event, View
from gateway.core.decisions import Again, Late, Need, Step
from gateway.core.granting import named
from gateway.core.record import Because, Effect, Fault, Move, Outcome, Status, moved
from gateway.core.requests import Expire
from gateway.core.settlement import ended

APPROVAL_EXPIRED: Final = Fault(
    "approval_expired",
    "Not done: it was held as a repeat of something already done, and nobody approved it in time. "
    "Tell the customer; make a new call only if they still want it once more.",
)


APPROVAL_LAPSED: Final = Fault(
    "approval_expired",
    "Not done: it needed approval, and that was not given, or not used, in time. Tell the customer.",
)


def expire(view: View, keep_ms: int, held: Effect) -> Step:
    """A hold that stood too long is denied at the next read, as a lease lapses; then the call is judged again.

    Its ids replay the denial from then on, for the retention time. Without this one hold, which every identical
    call joins (4.9), would block its work for the rest of the conversation.
    """
    unread = view.unread(held)
    if unread:
        return Step(Need(slots=unread))
    by_policy = held.approval is not None and held.approval.because is Because.POLICY
    fault = APPROVAL_LAPSED if by_policy else APPROVAL_EXPIRED
    denied = Outcome(Status.DENIED, fault=fault)
    after = moved(held, Move.EXPIRE, Status.DENIED, outcome=denied, settled_at=None, arguments=None)
    events = (
        Event("approval.expired", held.effect_id, named(held)),
        Event("effect.denied", held.effect_id, {"code": fault.code}),
    )
    return Step(Again(), ended(view, after, keep_ms, *events))


def judge_expiry(view: View, request: Expire) -> Step:
    """What the sweeper asks of a hold that fell due; one that nobody has to wait for any longer is left as it is."""
    held = view.effects.get(request.effect_id)
    if held is None or view.now_ms is None or not held.overdue(view.now_ms, request.hold_ms):
        return Step(Late(held))
    return expire(view, request.keep_ms, held)
