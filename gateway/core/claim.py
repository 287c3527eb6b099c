"""What a claim is answered: the first column of the table in 4.1, with 2.2 to 2.7, 4.7 to 4.10.

Pure: `claim(view, request)` reads nothing else. The order of the questions is the order of the promises: the
same call first, then another effect of a re-run turn, then refusals, then repeats; only then is it new.
"""

from __future__ import annotations

from gateway.core import identity
from gateway.core.conversation import Binding, View, Writes, present
from gateway.core.decisions import UNRECORDED, Blocked, Granted, Need, Refused, Replay, Step, Wait
from gateway.core.expiry import expire
from gateway.core.granting import TooManyIds, attempt_seen, bind, lapse, take_up
from gateway.core.holding import begin
from gateway.core.occurrences import Occurrence, occurrence_of
from gateway.core.record import Move, Status, check_move
from gateway.core.repeats import judge_held, judge_repeat
from gateway.core.requests import Claim


def claim(view: View, request: Claim) -> Step:
    """Judge one request against one view. Raises ImpossibleMove only for a fault of ours."""
    if view.now_ms is None and request.refusal is None:
        # Nothing was read and nothing is assumed to be there: every question below has one answer. A test holds
        # this equal to the long way.
        return begin(view, request, Occurrence(0, request.first))
    view = view.bounded(request.terms.retention_ms)
    try:
        judged = _judge(view, request)
    except TooManyIds:
        return Step(Refused("conversation_full", "this call was answered under as many ids as one may have"))
    seen = attempt_seen(view, request)
    if seen is not None and judged.writes is None and isinstance(judged.decision, Wait | Blocked | Replay):
        # Whatever it is answered: from now on the turn's earlier attempts start nothing new (2.6).
        return Step(judged.decision, Writes(attempt_seen=seen, keep_ms=request.terms.retention_ms))
    return judged


def _judge(view: View, request: Claim) -> Step:
    slot = request.slot
    bounds = [] if slot is None else [b for b in view.slot(slot).bindings if view.names(slot, b.effect)]
    found = identity.match(bounds, request.fingerprint, request.stands_at(view), request.scope)
    under_id: tuple[bytes, ...] = ()
    match found:
        case identity.Same(Binding() as bound):
            return _known(view, request, bound.effect, "claim_token" if request.by_token else "tool_call_id")
        case identity.Reused(Binding() as bound):
            return _reused(view, request, bound.effect)
        case identity.Repeats(bounds_again):
            under_id = tuple(b.effect for b in bounds_again if isinstance(b, Binding))
    own = occurrence_of(view, request)
    if own.effect not in view.effects:
        return Step(Need((own.effect,)))
    if present(view.effects[own.effect]):
        return _known(view, request, own.effect, "effect")
    if request.refusal is UNRECORDED:
        return Step(UNRECORDED)  # a look-up starts nothing that an attempt could supersede
    if request.place.turn is not None and request.attempt(view) < view.highest_attempt:
        return Step(
            Refused(
                "attempt_superseded",
                f"attempt {view.highest_attempt} of this turn has been seen; start no new effects in an earlier one",
            )
        )
    if request.refusal is not None:
        return Step(request.refusal)
    return judge_repeat(view, request, own, under_id, None)


def _known(view: View, request: Claim, effect_id: bytes, matched: str) -> Step:
    """The call has a record: replay it, wait for it, take it up again, or judge a hold anew."""
    if effect_id not in view.effects:
        return Step(Need((effect_id,)))
    effect = view.effects[effect_id]
    assert effect is not None
    if view.now_ms is not None and effect.lapsed(view.now_ms):
        return lapse(view, effect)
    if view.now_ms is not None and effect.overdue(view.now_ms, request.terms.hold_ms):
        return expire(view, request.terms.retention_ms, effect)
    if effect.status is Status.AWAITING_APPROVAL:
        if request.refusal is not None and request.refusal is not UNRECORDED:
            return Step(request.refusal)
        return judge_held(view, request, effect)
    if effect.status is Status.EXECUTING:
        check_move(effect.status, Move.CLAIM, effect.status)
        if effect.tokens[-1] == request.token:
            return Step(Granted(effect))
        return Step(Wait(effect_id, request.repeat_of), bind(view, request, effect))
    if effect.status is Status.INDETERMINATE and effect.sent_again and effect.submitted is request.submitted:
        return take_up(view, request, effect, matched)
    check_move(effect.status, Move.CLAIM, effect.status)
    return Step(Replay(effect, matched), bind(view, request, effect))


def _reused(view: View, request: Claim, effect_id: bytes) -> Step:
    """2.2: name the fields that differ, never the other call's values or result."""
    if effect_id not in view.effects:
        return Step(Need((effect_id,)))
    effect = view.effects[effect_id]
    assert effect is not None
    recorded = (effect.target, effect.tool_version)
    fields = identity.differing_fields(identity.field_digests(request.arguments.value, None), effect.fields)
    of = "args" if request.submitted else "arguments"
    named = tuple(f"/{of}/{_pointed(name)}" for name in fields)
    if request.submitted and effect.kind is not request.kind:
        named = ("/kind", *named)
    if effect.target != request.target:
        named = ("/target" if request.submitted else "/tool", *named)
    placed = request.place.turn is not None and request.place.step is not None
    if request.by_token:
        return Step(
            Refused(
                "tool_call_id_reused",
                "this claim_token has submitted another effect in this conversation; make a new one",
                named or ("/args",),
                recorded,
            )
        )
    cure = "send a fresh id" if placed else "send a fresh id, or state turn and step if your runtime's ids recur"
    where = "at this very turn and step" if placed else "in this conversation"
    return Step(
        Refused(
            "tool_call_id_reused",
            f"this tool_call_id was given to another call {where}; {cure}",
            named or (f"/{of}",),
            recorded,
        )
    )


def _pointed(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")  # RFC 6901
