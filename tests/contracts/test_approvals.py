"""Approvals over both ledgers: what is held, who waits for what, and what a decision does (4.1, 4.7, 4.9, 7.3, 7.4)."""

from __future__ import annotations

import msgspec
import pytest

from gateway.core import decisions as d
from gateway.core.identity import Kind
from gateway.core.record import Because, Fault, Mode, Outcome, Status
from gateway.core.requests import HOLD_MS, OnRepeat

POLICY_SAYS_NO = d.Denied(Fault("policy_denied", "Not done."), said={"rule": "r", "bundle_version": "b2"})
TOOL = {"kind": Kind.TOOL_CALL, "tool": "place_order", "mode": Mode.AT_MOST_ONCE, "on_repeat": OnRepeat.HOLD}
RUN, REPLAY = OnRepeat.RUN, OnRepeat.REPLAY
DAY_MS = 86_400_000


async def held_by_policy(bench, asks, call="call_1", **more):
    held = await bench.claim(call, **{"turn": "t-1", **asks(), **more})
    assert isinstance(held, d.Blocked), held
    return held.effect


async def held_repeat(bench, **more):
    first = await bench.run("call_1", turn="t-1")
    held = await bench.claim("call_2", **{"turn": "t-1", **more})
    assert isinstance(held, d.Blocked), held
    return first, held.effect


def again(bench, asks, call="call_1", **more):
    """The held call as it would be asked now."""
    return bench.ask(call, **{"turn": "t-1", **asks(), **more})


def is_denied(decision, code):
    return isinstance(decision, d.Replay) and decision.effect.outcome.fault.code == code


# --- what policy holds (7.3) ---------------------------------------------------------------------------------


async def test_p7_3_a_rule_holds_a_new_call_and_says_who_may_approve(bench, asks):
    """7.3, 4.1: recorded, with the rule and the bundle; nothing is claimed."""
    held = await held_by_policy(bench, asks)
    assert held.status is Status.AWAITING_APPROVAL
    assert held.tokens == ()
    approval = held.approval
    assert (approval.because, approval.approvers, approval.timeout_ms) == (Because.POLICY, ("operator",), 900_000)
    assert (approval.rule, approval.bundle) == ("large", "b1")
    events = await bench.events()
    assert [event.type for event in events] == ["effect.proposed", "effect.awaiting_approval", "approval.requested"]
    assert events[1].data == {"because": "policy", "rule": "large", "bundle_version": "b1"}
    assert events[2].data == {"approval": approval.id.hex(), "approvers": ["operator"]}


async def test_p4_9_the_same_held_call_gets_the_same_approval(bench, asks):
    """4.9: asked for again and again, one approval is open."""
    held = await held_by_policy(bench, asks)
    for _ in range(3):
        again_ = await bench.claim("call_1", turn="t-1", **asks())
        assert (type(again_), again_.effect, again_.first) == (d.Blocked, held, None)
    assert (await bench.types()).count("approval.requested") == 1


async def test_p4_9_an_identical_call_joins_what_policy_holds(bench, asks):
    """4.9: also one that would be run as wanted (RUN): there is nothing yet that it could be a second of."""
    held = await held_by_policy(bench, asks)
    for number, on_repeat in ((2, OnRepeat.HOLD), (3, RUN), (4, REPLAY)):
        joined = await bench.claim(f"call_{number}", turn=f"t-{number}", on_repeat=on_repeat, **asks())
        assert (type(joined), joined.effect.effect_id) == (d.Blocked, held.effect_id)
    granted = await bench.grant(held, again(bench, asks))
    await bench.settle(granted.effect)
    for number in (1, 2, 3, 4):
        replay = await bench.claim(f"call_{number}", turn=f"t-{number}", on_repeat=RUN, **asks())
        assert (type(replay), replay.effect.effect_id) == (d.Replay, held.effect_id)
    assert (await bench.types()).count("effect.executing") == 1


async def test_p4_9_a_rule_that_is_gone_ends_the_hold(bench, asks):
    """4.9: judged anew at each request."""
    held = await held_by_policy(bench, asks)
    granted = await bench.claim("call_1", turn="t-1")
    assert (type(granted), granted.effect.effect_id) == (d.Granted, held.effect_id)
    assert "approval.used" not in await bench.types()


async def test_p7_3_a_newer_denial_answers_a_held_call_and_stores_nothing(bench, asks):
    """7.3: and it is held again once the denial is gone."""
    held = await held_by_policy(bench, asks)
    before = await bench.types()
    assert await bench.claim("call_1", turn="t-1", refusal=POLICY_SAYS_NO) == POLICY_SAYS_NO
    assert await bench.types() == before
    assert (await bench.claim("call_1", turn="t-1", **asks())).effect == held


async def test_p7_4_changed_arguments_never_ride_on_an_approval(bench, asks):
    """7.4: under the same id they are refused, under another they are another call."""
    held = await held_by_policy(bench, asks)
    await bench.grant(held, again(bench, asks))
    changed = {"sku": "A", "qty": 100}
    assert isinstance(await bench.claim("call_1", changed, turn="t-1", **asks()), d.Refused)
    other = await bench.claim("call_2", changed, turn="t-1", **asks())
    assert isinstance(other, d.Blocked)
    assert other.effect.effect_id != held.effect_id
    assert other.effect.approval.id != held.approval.id


# --- granting ------------------------------------------------------------------------------------------------


async def test_p7_4_a_grant_runs_the_stored_call_once(bench, asks):
    """7.4, 4.1: claimed by whoever grants, under its token; events in the order of what happened."""
    held = await held_by_policy(bench, asks)
    request = again(bench, asks)
    granted = await bench.grant(held, request)
    assert (type(granted), granted.effect.status) == (d.Granted, Status.EXECUTING)
    assert granted.effect.tokens == (request.token,)
    assert (await bench.types())[3:] == [
        "approval.granted",
        "approval.used",
        "effect.allowed",
        "effect.executing",
    ]
    (said,) = [event.data for event in await bench.events() if event.type == "approval.granted"]
    assert said == {"approval": held.approval.id.hex(), "by": "ops"}
    settled = (await bench.settle(granted.effect)).effect
    replay = await bench.claim("call_1", turn="t-1", **asks())
    assert (type(replay), replay.effect) == (d.Replay, settled)


@pytest.mark.parametrize("state", ["running", "done", "unknown"])
async def test_p7_4_an_approval_is_used_once(bench, asks, state):
    """7.4: granted again by the same principal it stands; by another it is too late. Neither runs anything."""
    held = await held_by_policy(bench, asks)
    granted = await bench.grant(held, again(bench, asks))
    if state != "running":
        await (bench.settle(granted.effect) if state == "done" else bench.lose(granted.effect))
    assert isinstance(await bench.grant(held, again(bench, asks)), d.Approved)
    late = await bench.grant(held, again(bench, asks), by="anna")
    assert (type(late), late.effect.approval.decided_by) == (d.Late, "ops")
    assert isinstance(await bench.deny(held), d.Late)
    assert (await bench.types()).count("effect.executing") == 1


async def test_p4_3_a_grant_whose_answer_was_lost_is_told_that_it_holds_it(bench, asks):
    """4.3: by its token; another token is not."""
    held = await held_by_policy(bench, asks)
    request = again(bench, asks)
    first, second = await bench.grant(held, request), await bench.grant(held, request)
    assert (type(second), second.effect) == (d.Granted, first.effect)
    assert isinstance(await bench.grant(held, again(bench, asks)), d.Approved)


async def test_p7_4_what_was_granted_and_not_sent_needs_another_approval(bench, asks):
    """7.4: single-use, also where the merchant could not be reached."""
    held = await held_by_policy(bench, asks)
    granted = await bench.grant(held, again(bench, asks))
    await bench.release(granted.effect)
    late = await bench.grant(held, again(bench, asks))
    assert (type(late), late.effect.status, late.effect.slots) == (d.Late, Status.ABSENT, ())
    stands = await bench.record(held)
    assert (stands.approval.decided_by, stands.arguments, stands.tokens) == ("ops", None, ())
    assert all(0 < ms <= 30 * DAY_MS for ms in (await bench.ttls())["e"])
    anew = await bench.claim("call_1", turn="t-1", **asks())
    assert isinstance(anew, d.Blocked)
    assert (anew.effect.effect_id, anew.effect.approval.id == held.approval.id) == (held.effect_id, False)
    assert isinstance(await bench.grant(held, again(bench, asks)), d.Late)


async def test_p7_4_a_grant_of_something_else_changes_nothing(bench, asks):
    """7.4: an approval's name that is none of the effect's."""
    held = await held_by_policy(bench, asks)
    late = await bench.grant(held, again(bench, asks), approval=b"x" * 16)
    assert (type(late), late.effect) == (d.Late, held)


# --- denying and expiring -------------------------------------------------------------------------------------


async def test_p7_4_a_refusal_is_stored_and_replayed(bench, asks):
    """7.4: to every id that joined, whatever policy says by then."""
    held = await held_by_policy(bench, asks)
    await bench.claim("call_2", turn="t-2", **asks())
    denied = await bench.deny(held)
    assert (type(denied), denied.effect.status, denied.effect.arguments) == (d.Settled, Status.DENIED, None)
    assert is_denied(await bench.claim("call_1", turn="t-1"), "approval_denied")
    assert is_denied(await bench.claim("call_2", turn="t-2", refusal=POLICY_SAYS_NO), "approval_denied")
    assert (await bench.types())[3:5] == ["approval.denied", "effect.denied"]


async def test_p7_4_a_refusal_stands_for_the_one_who_said_it(bench, asks):
    """7.4, 4.3: said again it is done; another learns that it was too late."""
    held = await held_by_policy(bench, asks)
    await bench.deny(held, "anna")
    assert isinstance(await bench.deny(held, "anna"), d.Settled)
    late = await bench.deny(held, "ben")
    assert (type(late), late.effect.approval.decided_by) == (d.Late, "anna")
    for by in ("anna", "ben"):
        late = await bench.grant(held, again(bench, asks), by)
        assert (type(late), late.effect.status) == (d.Late, Status.DENIED)
    assert (await bench.types()).count("approval.denied") == 1


async def test_p4_9_a_denied_call_does_not_count_and_the_next_is_held_by_itself(bench, asks):
    """4.9: under a new id it may be asked once more, and somebody decides once more."""
    held = await held_by_policy(bench, asks)
    await bench.deny(held)
    anew = await bench.claim("call_2", turn="t-1", **asks())
    assert isinstance(anew, d.Blocked)
    assert anew.effect.effect_id != held.effect_id


@pytest.mark.parametrize("by", ["read", "sweeper", "grant", "denial", "another call"])
async def test_p7_4_an_approval_lapses_on_the_ledgers_clock(memory_bench, memory_time, asks, by):
    """7.4: after the rule's own time, whoever looks first; nobody can grant it any more."""
    bench, more = memory_bench, asks(timeout_ms=120_000)
    held = await held_by_policy(bench, lambda: more)
    memory_time.advance(119_000)
    assert isinstance(await bench.claim("call_1", turn="t-1", **more), d.Blocked)
    assert (await bench.ledger.due(10)).effects == ()
    memory_time.advance(1_001)
    if by == "read":
        assert is_denied(await bench.claim("call_1", turn="t-1", **more), "approval_expired")
    elif by == "sweeper":
        (due,) = (await bench.ledger.due(10)).effects
        await bench.expire(due)
    elif by == "grant":
        assert isinstance(await bench.grant(held, bench.ask("call_1", turn="t-1", **more)), d.Late)
    elif by == "denial":
        assert isinstance(await bench.deny(held), d.Late)
    else:
        anew = await bench.claim("call_2", turn="t-2", **more)
        assert isinstance(anew, d.Blocked)
        assert anew.effect.effect_id != held.effect_id
    assert (await bench.record(held)).outcome.fault.code == "approval_expired"
    assert (await bench.types()).count("approval.expired") == 1
    assert isinstance(await bench.grant(held, bench.ask("call_1", turn="t-1", **more)), d.Late)


async def test_p7_4_a_sweep_that_comes_too_early_changes_nothing(bench, asks):
    """7.4"""
    held = await held_by_policy(bench, asks)
    late = await bench.expire(held)
    assert (type(late), late.effect) == (d.Late, held)


async def test_p4_13_an_approval_lapses_before_its_record_ends(memory_bench, memory_time, asks):
    """4.13, 7.4: a rule may let it wait for as long as records are kept; what is gone could not be denied."""
    more = {**asks(timeout_ms=30 * DAY_MS), "keep_ms": DAY_MS}
    held = await held_by_policy(memory_bench, lambda: more)
    memory_time.advance(DAY_MS - 60_000)
    (due,) = (await memory_bench.ledger.due(10)).effects
    assert due.effect_id == held.effect_id
    assert is_denied(await memory_bench.claim("call_1", turn="t-1", **more), "approval_expired")


async def test_p4_13_what_ended_unswept_leaves_the_index_of_what_is_due(memory_bench, memory_time, asks, bucket):
    """4.13: no gateway ran for as long as records are kept."""
    held = await held_by_policy(memory_bench, lambda: {**asks(), "keep_ms": DAY_MS})
    other = (await memory_bench.claim("other", {"sku": "B"}, lease_ms=2 * DAY_MS)).effect
    memory_time.advance(2 * DAY_MS + 1)
    assert await memory_bench.record(held) is None
    (due,) = (await memory_bench.ledger.due(10)).effects
    assert due.effect_id == other.effect_id
    assert await memory_bench.wire.do("ZCARD", bucket.due) == 1


# --- what has changed since (7.4) -----------------------------------------------------------------------------

CHANGED = {
    "the tool was registered anew": ({"version": 2}, ()),
    "the rule names others": ({}, ("anna",)),
    "both": ({"version": 2}, ("anna", "merchant")),
}


@pytest.mark.parametrize(("more", "approvers"), CHANGED.values(), ids=CHANGED.keys())
@pytest.mark.parametrize("found_by", ["request", "grant"])
async def test_p7_4_an_outdated_approval_is_opened_anew(bench, asks, more, approvers, found_by):
    """7.4: nobody approved this; the old name decides nothing any more."""
    held = await held_by_policy(bench, asks)
    now = {"turn": "t-1", **asks(*approvers), **more}
    if found_by == "request":
        answer = await bench.claim("call_1", **now)
        assert isinstance(answer, d.Blocked)
    else:
        answer = await bench.grant(held, bench.ask("call_1", **now))
        assert isinstance(answer, d.Reopened)
    anew = answer.effect
    assert anew.effect_id == held.effect_id
    assert anew.approval.id != held.approval.id
    assert anew.approval.approvers == (approvers or ("operator",))
    assert anew.tool_version == more.get("version", 1)
    (said,) = [e.data for e in (await bench.events())[3:] if e.type == "approval.requested"]
    assert (said["approval"], said["instead_of"]) == (anew.approval.id.hex(), held.approval.id.hex())
    for decision in (await bench.grant(held, bench.ask("call_1", **now)), await bench.deny(held)):
        assert (type(decision), decision.effect) == (d.Late, anew)
    granted = await bench.grant(anew, bench.ask("call_1", **now))
    assert isinstance(granted, d.Granted)


async def test_p7_4_a_hold_that_no_rule_asked_for_is_outdated_by_a_new_version_only(bench, asks):
    """7.4: not by who may approve holds by now."""
    _, held = await held_repeat(bench)
    assert held.approval.because is Because.REPEAT
    request = bench.ask("call_2", turn="t-1")
    request = msgspec.structs.replace(
        request, terms=msgspec.structs.replace(request.terms, hold_approvers=("operator", "customer"))
    )
    assert isinstance(await bench.grant(held, request), d.Granted)


async def test_p7_4_an_approval_reopened_by_the_same_token_has_another_name(bench, asks):
    """7.4: a submission comes again under its own token; whoever saw the old tool has not approved the new one."""
    token = b"the-runtimes-own"
    held = (await bench.submit("call_1", token=token, **TOOL, **asks())).effect
    anew = (await bench.submit("call_1", token=token, version=2, **TOOL, **asks())).effect
    assert anew.approval.id != held.approval.id
    late = await bench.grant(held, bench.submission("call_1", version=2, **TOOL, **asks()))
    assert (type(late), late.effect.approval) == (d.Late, anew.approval)


async def test_p7_4_an_approval_is_not_used_again_by_a_token_that_comes_again(bench, asks):
    """7.4: granted, used, released, asked for under the same token: held under another name."""
    token = b"the-runtimes-own"
    held = (await bench.submit("call_1", token=token, **TOOL, **asks())).effect
    now = bench.submission("call_1", **TOOL, **asks())
    assert isinstance(await bench.grant(held, now), d.Approved)
    used = await bench.submit("call_1", token=token, **TOOL, **asks())
    assert isinstance(used, d.Granted)
    await bench.release(used.effect)
    anew = await bench.submit("call_1", token=token, **TOOL, **asks())
    assert isinstance(anew, d.Blocked)
    assert isinstance(await bench.grant(held, bench.submission("call_1", **TOOL, **asks())), d.Late)
    assert isinstance(await bench.submit("call_1", token=token, **TOOL, **asks()), d.Blocked)


@pytest.mark.parametrize(
    "refusal",
    [POLICY_SAYS_NO, d.Refused("unknown_tool", "gone"), d.Refused("merchant_not_ready", "no secret")],
    ids=["policy", "no tool", "no secret"],
)
@pytest.mark.parametrize("why", ["policy", "repeat"])
async def test_p7_4_a_grant_that_would_be_refused_now_leaves_it_open(bench, asks, refusal, why):
    """7.4: a newer deny voids it while it stands; nothing is stored."""
    held = await held_by_policy(bench, asks, "call_2") if why == "policy" else (await held_repeat(bench))[1]
    before = await bench.types()
    assert await bench.grant(held, bench.ask("call_2", turn="t-1", refusal=refusal)) == refusal
    assert await bench.types() == before
    more = asks() if why == "policy" else {}
    assert isinstance(await bench.grant(held, bench.ask("call_2", turn="t-1", **more)), d.Granted)


# --- repeats, judged anew at the grant (4.9) -----------------------------------------------------------------


async def test_p4_9_a_held_repeat_is_granted_though_its_first_stands(bench):
    """4.9: that is what was asked: once more. Both are done, each once."""
    first, held = await held_repeat(bench)
    granted = await bench.grant(held, bench.ask("call_2", turn="t-1"))
    assert (type(granted), granted.effect.effect_id) == (d.Granted, held.effect_id)
    second = (await bench.settle(granted.effect, Outcome(Status.SUCCEEDED, b'"MO-2"'))).effect
    for call, effect in (("call_1", first), ("call_2", second)):
        assert (await bench.claim(call, turn="t-1")).effect == effect


async def test_p4_9_a_repeat_that_policy_wants_approved_too_has_one_approval(bench, asks):
    """4.9, 7.3: the rule says who; the first is shown all the same."""
    first = await bench.run("call_1", turn="t-1")
    held = await bench.claim("call_2", turn="t-1", **asks("anna"))
    assert (held.first, held.effect.approval.approvers) == (first, ("anna",))
    assert isinstance(await bench.grant(held.effect, bench.ask("call_2", turn="t-1", **asks("anna"))), d.Granted)
    assert (await bench.types()).count("approval.requested") == 1


FIRSTS = {
    "failed": ("settle", d.Granted),
    "vanished": ("release", d.Granted),
    "running": (None, d.Wait),
    "unknown": ("lose", d.Denied),
}


@pytest.mark.parametrize(("end", "expected"), FIRSTS.values(), ids=FIRSTS.keys())
async def test_p4_9_a_grant_judges_the_first_as_it_is_by_then(bench, asks, outcomes, end, expected):
    """4.9, 4.7: while it runs whoever grants is told to wait, while it is unknown the grant is refused; both leave the
    approval open. Failed or vanished, the held one runs."""
    held = await held_by_policy(bench, asks)
    other = await bench.claim("call_9", turn="t-1", on_repeat=RUN, repeat_of=frozenset())
    assert other.effect.effect_id == held.effect_id  # joined, and run: no rule holds this one
    await bench.release(other.effect)
    running = (await bench.claim("call_9", turn="t-1", on_repeat=RUN)).effect
    held = await _held_beside(bench, asks, running)
    if end == "settle":
        await bench.settle(running, outcomes.failure)
    elif end is not None:
        await getattr(bench, end)(running)
    decision = await bench.grant(held, again(bench, asks, "call_5"))
    assert isinstance(decision, expected), decision
    if expected is d.Granted:
        assert decision.effect.effect_id == held.effect_id
    else:
        stands = await bench.record(held)
        assert (stands.status, stands.approval) == (Status.AWAITING_APPROVAL, held.approval)
    if expected is d.Denied:
        assert decision.fault.code == "prior_outcome_unknown"
        await bench.resolve(running, None)
        assert isinstance(await bench.grant(held, again(bench, asks, "call_5")), d.Granted)


async def _held_beside(bench, asks, running):
    """An identical call that policy holds while another of it runs: a wanted second."""
    held = await bench.claim("call_5", turn="t-1", on_repeat=RUN, **asks())
    assert isinstance(held, d.Blocked), held
    assert held.effect.effect_id != running.effect_id
    return held.effect


async def test_p4_9_several_approvals_are_open_side_by_side(bench, asks):
    """4.9, 7.4: each of its own call, granted, denied and lapsed apart."""
    held = [
        (await bench.claim(f"call_{sku}", {"sku": sku}, turn="t-1", **asks())).effect for sku in ("A", "B", "C", "D")
    ]
    assert len({effect.approval.id for effect in held}) == 4
    assert isinstance(await bench.grant(held[0], bench.ask("call_A", {"sku": "A"}, turn="t-1", **asks())), d.Granted)
    assert isinstance(await bench.deny(held[1]), d.Settled)
    await bench.expire(held[2])
    statuses = [(await bench.record(effect)).status for effect in held]
    assert statuses == [Status.EXECUTING, Status.DENIED, *[Status.AWAITING_APPROVAL] * 2]
    page = await bench.ledger.pending("acme", None, 10)
    assert {effect.effect_id for effect in page.effects} == {held[2].effect_id, held[3].effect_id}
    assert (await bench.ledger.pending("other", None, 10)).effects == ()


async def test_p7_4_what_is_pending_is_listed_a_page_at_a_time(bench, asks):
    """7.4, 9.4: over all conversations of the company, each once, whatever is decided meanwhile."""
    held = {}
    for number in range(7):
        effect = (await bench.claim("call_1", conversation=f"c-{number}", turn="t-1", **asks())).effect
        held[effect.effect_id] = effect
    await bench.claim("call_1", company="other", turn="t-1", **asks())
    found, cursor = [], None
    while True:
        page = await bench.ledger.pending("acme", cursor, 2)
        found += [effect.effect_id for effect in page.effects]
        if len(found) == 2:
            await bench.deny(held[found[0]])
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(found) == sorted(held)


# --- submitted effects (7.2) ---------------------------------------------------------------------------------


async def test_p7_2_a_granted_submission_is_used_once(bench, asks):
    """7.2, 7.4: it stays granted until its runtime submits it again; then it is used."""
    token = b"the-runtimes-own"
    held = (await bench.submit("call_1", token=token, **TOOL, **asks())).effect
    approved = await bench.grant(held, bench.submission("call_1", **TOOL, **asks()))
    assert (type(approved), approved.effect.status) == (d.Approved, Status.AWAITING_APPROVAL)
    assert approved.effect.granted
    used = await bench.submit("call_1", token=token, **TOOL, **asks())
    assert (type(used), used.effect.tokens) == (d.Granted, (token,))
    other = await bench.submit("call_1", token=b"another-runtimes", **TOOL, **asks())
    assert isinstance(other, d.Wait)
    assert [t for t in await bench.types() if t.startswith("approval")] == [
        "approval.requested",
        "approval.granted",
        "approval.used",
    ]
    late = await bench.grant(held, bench.submission("call_1", **TOOL, **asks()), "anna")
    assert isinstance(late, d.Late)


async def test_p7_4_a_granted_submission_that_nobody_uses_lapses(memory_bench, memory_time, asks):
    """7.4: its time counts from the grant."""
    bench, more = memory_bench, asks(timeout_ms=60_000)
    held = (await bench.submit("call_1", **TOOL, **more)).effect
    memory_time.advance(50_000)
    assert isinstance(await bench.grant(held, bench.submission("call_1", **TOOL, **more)), d.Approved)
    memory_time.advance(50_000)
    assert (await bench.ledger.due(10)).effects == ()
    memory_time.advance(10_001)
    (due,) = (await bench.ledger.due(10)).effects
    await bench.expire(due)
    assert is_denied(await bench.submit("call_1", **TOOL, **more), "approval_expired")
    assert isinstance(await bench.grant(held, bench.submission("call_1", **TOOL, **more)), d.Late)


@pytest.mark.parametrize("why", ["denied", "registered anew", "others approve"])
async def test_p7_4_a_grant_that_was_not_used_is_void_once_something_changed(bench, asks, why):
    """7.4: a newer bundle's deny, a newer tool, a rule that names others."""
    held = (await bench.submit("call_1", **TOOL, **asks())).effect
    await bench.grant(held, bench.submission("call_1", **TOOL, **asks()))
    if why == "denied":
        assert await bench.submit("call_1", **TOOL, refusal=POLICY_SAYS_NO) == POLICY_SAYS_NO
        return
    more = {"version": 2, **asks()} if why == "registered anew" else asks("anna")
    anew = await bench.submit("call_1", **TOOL, **more)
    assert isinstance(anew, d.Blocked)
    assert not anew.effect.granted
    assert isinstance(await bench.submit("call_1", **TOOL, **more), d.Blocked)


@pytest.mark.parametrize("call", ["call_1", "call_2"])
@pytest.mark.parametrize("because", ["policy", "repeat"])
async def test_p7_4_what_was_granted_to_a_submission_no_call_of_the_gateways_uses(bench, asks, because, call):
    """4.1, 7.4: who approved a tool that the runtime runs approved no order at the merchant, under whatever id it is
    asked for; the grant stays, and its submission uses it."""
    more = asks() if because == "policy" else {}
    if because == "repeat":
        await bench.settle((await bench.submit("call_0", **TOOL)).effect)
    held = (await bench.submit("call_1", **TOOL, **more)).effect
    await bench.grant(held, bench.submission("call_1", **TOOL, **more))
    asked = await bench.claim(call, turn="t-1", attempt=1, **TOOL, **more)
    assert (type(asked), asked.effect.effect_id, asked.effect.granted) == (d.Blocked, held.effect_id, True)
    used = await bench.submit("call_1", **TOOL, **more)
    assert (type(used), used.effect.effect_id) == (d.Granted, held.effect_id)
    types = await bench.types()
    assert (types.count("approval.used"), types.count("approval.requested")) == (1, 1)


async def test_p7_2_a_submission_by_token_alone_is_held_and_granted_too(bench, asks):
    """7.2: the token finds it again; a re-run of its turn finds it by number."""
    token = b"the-runtimes-own"
    held = (await bench.submit(token=token, **asks())).effect
    assert (await bench.submit(token=token, **asks())).effect == held
    await bench.grant(held, bench.submission(**asks()))
    rerun = await bench.submit(token=b"of-a-later-start", attempt=2, **asks())
    assert (type(rerun), rerun.effect.effect_id) == (d.Granted, held.effect_id)
    assert isinstance(await bench.submit(token=token, **asks()), d.Wait)


async def test_p4_9_a_held_repeat_of_a_submission_is_granted_for_its_next_submission(bench):
    """4.9, 7.2"""
    first = await bench.submit("call_1", **TOOL)
    await bench.settle(first.effect)
    held = (await bench.submit("call_2", **TOOL)).effect
    assert isinstance(await bench.grant(held, bench.submission("call_2", **TOOL)), d.Approved)
    used = await bench.submit("call_2", **TOOL)
    assert (type(used), used.effect.effect_id) == (d.Granted, held.effect_id)


async def test_p4_9_as_many_ids_as_an_effect_may_have_do_not_keep_it_from_being_granted(bench, asks, monkeypatch):
    """4.9: whoever grants takes no id of it."""
    monkeypatch.setattr("gateway.core.granting.MAX_ALIASES", 3)
    held = (await bench.submit("call_1", **TOOL, **asks())).effect
    for number in (2, 3):
        held = (await bench.submit(f"call_{number}", **TOOL, **asks())).effect
    assert isinstance(await bench.submit("call_4", **TOOL, **asks()), d.Refused)
    assert isinstance(await bench.grant(held, bench.submission(None, **TOOL)), d.Approved)


def test_p7_4_holds_last_a_quarter_of_an_hour():
    """7.4: what a hold stands for where no rule says."""
    assert HOLD_MS == 900_000


async def test_p4_9_a_held_repeat_that_is_outdated_when_it_is_granted_stays_a_repeat(bench):
    """4.9, 7.4: whoever decides the new approval is told why it is asked for, and so is the customer if it lapses."""
    _, held = await held_repeat(bench)
    decision = await bench.grant(held, bench.ask("call_2", turn="t-1", version=2))
    assert isinstance(decision, d.Reopened)
    assert decision.effect.approval.because is Because.REPEAT
    asked = [event.data for event in await bench.events() if event.type == "effect.awaiting_approval"]
    assert [each["because"] for each in asked] == ["repeat", "repeat"]


async def test_p7_4_a_grant_of_an_earlier_version_is_not_used_where_no_rule_asks_any_more(bench, asks):
    """7.4, 7.6: it runs, since policy lets it now; the log does not say that the approval did."""
    policy = {"kind": Kind.TOOL_CALL, "tool": "place_order", "mode": Mode.AT_MOST_ONCE, "on_repeat": OnRepeat.HOLD}
    held = (await bench.submit("call_1", **policy, **asks())).effect
    granted = await bench.grant(held, bench.submission("call_1", **policy, **asks()))
    assert isinstance(granted, d.Approved)
    runs = await bench.submit("call_1", version=2, **policy)
    assert isinstance(runs, d.Granted)
    types = await bench.types()
    assert "approval.used" not in types
    assert types[-2:] == ["effect.allowed", "effect.executing"]
