"""What is held until somebody approves it: repeats (4.9), and what policy says needs approval (7.3, 7.4). Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.core.conversation import Event, View, Writes
from gateway.core.decisions import Blocked, Limited, Step
from gateway.core.granting import full, grant, grant_held, named, new, no_room, proposal, said_of, writes_new
from gateway.core.occurrences import Occurrence
from gateway.core.record import Because, Effect, Move, OpenApproval, Status, check_move
from gateway.core.requests import Claim

LAST_MS: Final = 3_600_000
"""How long before its record may end an approval has lapsed at the latest (4.13): what is gone cannot be denied, nor
leave the index of what is due."""


def begin(view: View, request: Claim, own: Occurrence) -> Step:
    """A new call that nothing stands against: a limit is asked first, then it is held or runs, as policy says."""
    if request.limited:
        return Step(Limited())
    if request.asks is not None:
        return hold(view, request, own, None, frozenset())
    return grant(view, request, own)


def hold(view: View, request: Claim, own: Occurrence, first: Effect | None, kept: frozenset[bytes]) -> Step:
    """A new call that waits for approval: it repeats `first` (4.9; what it repeats is kept in its record), or policy
    says so. Whatever it waits for, a limit is asked when it comes, not when it is granted (7.5)."""
    if request.limited:
        return Step(Limited())
    if no_room(view):
        return Step(full())
    check_move(Status.ABSENT, Move.CLAIM, Status.AWAITING_APPROVAL)
    because = Because.POLICY if first is None else Because.REPEAT
    effect = new(view, request, own, Status.AWAITING_APPROVAL, tuple(sorted(kept)))
    effect = msgspec.structs.replace(effect, approval=_approval(request, own.effect, because, 0))
    events = (Event("effect.proposed", own.effect, proposal(request)), *_asked(request, effect, first))
    return Step(Blocked(effect, first), writes_new(view, request, effect, events))


def hold_ended(view: View, request: Claim, held: Effect) -> Step:
    """Nothing is left that a held call would repeat: it runs, unless policy wants an approval that it has not."""
    if request.asks is None:
        return grant_held(view, request, held)
    if held.granted and not outdated(held, request):
        return _use(view, request, held, None)
    if held.approval is None or held.approval.because is not Because.POLICY or outdated(held, request):
        return reopen(view, request, held, None)
    check_move(held.status, Move.CLAIM, held.status)
    return Step(Blocked(held, None))


def still_held(view: View, request: Claim, held: Effect, first: Effect) -> Step:
    """A held repeat of a success: approved, its submission runs; else it is blocked, and shown the first."""
    if outdated(held, request):
        return reopen(view, request, held, first)
    if held.granted:
        return _use(view, request, held, first)
    check_move(held.status, Move.CLAIM, held.status)
    return Step(Blocked(held, first))


def _use(view: View, request: Claim, held: Effect, first: Effect | None) -> Step:
    """What is granted waits for its submission (4.1). A call would be run by the gateway, at a merchant, and that is
    not what somebody approved."""
    if request.submitted:
        return grant_held(view, request, held)
    check_move(held.status, Move.CLAIM, held.status)
    return Step(Blocked(held, first))


def outdated(held: Effect, request: Claim) -> bool:
    """Whether an approval is of something else by now (7.4): the tool was registered anew, or its rule names others.
    What no rule asked for is not outdated by who may approve holds now."""
    if held.approval is None:
        return False
    others = request.asks is not None and held.approval.approvers != request.asks.approvers
    return held.tool_version != request.terms.tool_version or others


def reopen(view: View, request: Claim, held: Effect, first: Effect | None, *, because: Because | None = None) -> Step:
    """Another approval in place of one that is outdated; nobody can use that one any more. `because`: why it is still
    held, where that was not judged anew."""
    check_move(held.status, Move.CLAIM, held.status)
    because = because or (Because.POLICY if first is None else Because.REPEAT)
    after = msgspec.structs.replace(
        held,
        tool_version=request.terms.tool_version,
        endpoint=request.terms.endpoint,
        mode=request.terms.mode,
        unavailable_means_not_executed=request.terms.unavailable_means_not_executed,
        approval=_approval(request, held.effect_id, because, held_ms(view, held)),
    )
    writes = Writes(
        effects={held.effect_id: after},
        events=_asked(request, after, first, instead_of=held),
        keep_ms=request.terms.retention_ms,
    )
    return Step(Blocked(after, first), writes)


def held_ms(view: View, held: Effect) -> int:
    """How long an effect has been held."""
    return 0 if view.now_ms is None or held.first_at is None else view.now_ms - held.first_at


def stands_ms(request: Claim, wanted_ms: int | None, been_ms: int) -> int | None:
    """How long an approval stands from now, of an effect that has been held for `been_ms`: as long as is wanted (None:
    as long as holds do), but its record must outlive it."""
    left = max(0, request.terms.retention_ms - LAST_MS - been_ms)
    return wanted_ms if (request.terms.hold_ms if wanted_ms is None else wanted_ms) <= left else left


def _approval(request: Claim, effect_id: bytes, because: Because, been_ms: int) -> OpenApproval:
    asks, ruled = request.asks, request.ruled
    of_rule = asks is not None and ruled is not None
    return OpenApproval(
        id=request.approval_of(effect_id),
        because=because,
        approvers=request.terms.hold_approvers if asks is None else asks.approvers,
        timeout_ms=stands_ms(request, None if asks is None else asks.timeout_ms, been_ms),
        message=None if asks is None else asks.message,
        rule=ruled.rule if of_rule and ruled is not None else None,
        bundle=ruled.bundle if of_rule and ruled is not None else "",
    )


def _asked(
    request: Claim, effect: Effect, first: Effect | None, instead_of: Effect | None = None
) -> tuple[Event, Event]:
    assert effect.approval is not None
    held: dict[str, object] = {"because": effect.approval.because.value}
    if first is not None:
        held["first"] = first.hex
    if request.asks is not None:
        held |= said_of(request.ruled)
    asked: dict[str, object] = {**named(effect), "approvers": list(effect.approval.approvers)}
    if instead_of is not None and instead_of.approval is not None:
        asked["instead_of"] = instead_of.approval.id.hex()
    return (
        Event("effect.awaiting_approval", effect.effect_id, held),
        Event("approval.requested", effect.effect_id, asked),
    )
