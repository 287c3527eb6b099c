"""Effects that a runtime runs itself, through the whole service (promises 2.1, 4.3, 4.4, 7.2, 7.3, 7.4, 7.5, 9.1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core import errors
from gateway.core.identity import Kind, conversation_digest, read_arguments
from gateway.core.model import Principal, Role
from gateway.core.policy_bundle import read_bundle
from gateway.core.record import Fault, Mode
from gateway.service.decide_approval import Verdict
from gateway.service.report_effect import Report
from gateway.service.sending import Trace
from gateway.service.submit_effect import Submission

RUNTIME = Principal("rt", Role.RUNTIME, frozenset({"shop1"}), "k-1")
OPS = Principal("ops", Role.OPERATOR, frozenset({"*"}), "k-2")
MERCHANT = Principal("shop", Role.MERCHANT, frozenset({"shop1"}), "k-3")
STRANGER = Principal("rt2", Role.RUNTIME, frozenset({"shop2"}), "k-4")


async def submit(
    world: Any, who: Principal = RUNTIME, token: str = "mine", args: Any = None, **fields: Any
) -> dict[str, Any]:
    usual = {
        "company": "shop1",
        "conversation": "c1",
        "turn": "t-1",
        "attempt": 1,
        "kind": Kind.LLM_CALL,
        "target": "a-model",
        "args": read_arguments({"messages": []} if args is None else args),
        "claim_token": token,
    }
    return await world.desk.submit_effect(who, Submission(**{**usual, **fields}))


def said(token: str = "mine", **fields: Any) -> Report:
    return Report(**{"company": "shop1", "conversation": "c1", "claim_token": token, **fields})


async def complete(
    world: Any, effect: str, token: str = "mine", result: bytes = b'{"text": "hi"}', **more: Any
) -> dict[str, Any]:
    return await world.desk.report_effect.complete(more.pop("who", RUNTIME), effect, said(token, result=result, **more))


async def test_p7_2_a_model_call_is_run_reported_and_replayed(world):
    """7.2, 2.5, 2.10: digit for digit, to its own token, a re-run, and nobody runs it again."""
    answer = await submit(world)
    assert (answer["decision"], answer["status"], answer["lease_s"]) == ("proceed", "executing", 60.0)
    result = b'{"n":24000000000000000001.10}'
    done = await complete(world, answer["effect_id"], result=result)
    assert (done["status"], bytes(done["result"])) == ("succeeded", result)
    for token, attempt, matched in (("mine", 1, "claim_token"), ("another", 2, "effect")):
        replay = await submit(world, token=token, attempt=attempt)
        assert (replay["decision"], bytes(replay["result"]), replay["replay"]["matched"]) == ("replay", result, matched)


async def test_p7_6_the_log_says_that_a_runtime_runs_it(world):
    """7.6, 7.2: and of a call, which the gateway runs, it says nothing of the kind."""
    await submit(world)
    await world.call(tool_call_id="n1")
    log = await world.ledger.events(conversation_digest("shop1", "c1"), 0, 100)
    claims = [each.event.data.get("by") for each in log if each.event.type == "effect.executing"]
    assert claims == ["runtime", None]


async def test_p7_2_the_same_token_is_told_what_is_left_of_its_lease(world, ledger_time):
    """7.2, 4.3: not a lease that it has not got; renewed, it counts anew."""
    answer = await submit(world)
    ledger_time.advance(45)
    again = await submit(world)
    assert (again["decision"], again["effect_id"], again["lease_s"]) == ("proceed", answer["effect_id"], 15.0)
    renewed = await world.desk.report_effect.renew(RUNTIME, answer["effect_id"], said())
    assert renewed["lease_s"] == 60.0
    ledger_time.advance(50)
    assert (await submit(world))["lease_s"] == 10.0
    ledger_time.advance(10)
    with pytest.raises(errors.ClaimLost) as lost:
        await world.desk.report_effect.renew(RUNTIME, answer["effect_id"], said())
    assert lost.value.details["stands"]["status"] == "indeterminate"


async def test_p7_4_what_was_held_for_days_is_renewed_like_anything_else(world, ledger_time):
    """7.2, 9.4: a claim may be at work for a day; how long it waited for somebody before is another matter."""
    rule = {
        "id": "r",
        "priority": 1,
        "when": {"kind": "llm_call"},
        "then": {"decision": "require_approval", "timeout_s": 7 * 86_400},
    }
    world.shelf.policies["shop1"] = read_bundle({"default_action": "allow", "rules": [rule]}, "shop1")
    held = await submit(world)
    assert held["decision"] == "blocked"
    ledger_time.advance(3 * 86_400)
    granted = await world.desk.decide_approval.grant(OPS, held["approval"]["id"], Verdict(), Trace("r"))
    assert granted["status"] == "awaiting_approval"
    shown = await world.desk.decide_approval.get(OPS, held["approval"]["id"])
    assert (shown["status"], shown["by"]) == ("granted", "ops")
    assert await world.desk.decide_approval.pending(OPS, "shop1", None, 10) == ([], None)
    answer = await submit(world)
    assert answer["decision"] == "proceed"
    assert (await world.desk.report_effect.renew(RUNTIME, answer["effect_id"], said()))["lease_s"] == 60.0


@pytest.mark.parametrize("marked", [True, False])
async def test_p9_3_what_a_tool_marks_that_was_registered_later_is_not_shown(world, marked):
    """9.3, 7.4: the values of a held call are as sensitive as those of the next one."""
    rule = {"id": "r", "priority": 1, "when": {"kind": "tool_call"}, "then": {"decision": "require_approval"}}
    world.shelf.policies["shop1"] = read_bundle({"default_action": "allow", "rules": [rule]}, "shop1")
    tool = {"kind": Kind.TOOL_CALL, "target": "charge_card", "args": {"card": "4111"}}
    name = (await submit(world, **tool))["approval"]["id"]

    async def shown() -> Any:
        return (await world.desk.decide_approval.get(OPS, name))["arguments"]

    assert bytes(await shown()) == b'{"card":"4111"}'
    world.shelf.put("shop1", "charge_card", parameters={"properties": {"card": {"x-sensitive": marked}}})
    assert await shown() == "***"
    (listed,), _ = await world.desk.decide_approval.pending(OPS, "shop1", None, 10)
    assert listed["arguments"] == "***"


async def test_p7_4_a_grant_that_is_sent_again_approves_nothing_that_the_same_token_asks_for_later(world):
    """7.4, 4.3: used and given back, the same token is held under another name; who granted lost the reply only."""
    rule = {"id": "r", "priority": 1, "when": {"kind": "llm_call"}, "then": {"decision": "require_approval"}}
    world.shelf.policies["shop1"] = read_bundle({"default_action": "allow", "rules": [rule]}, "shop1")
    name = (await submit(world))["approval"]["id"]
    await world.desk.decide_approval.grant(OPS, name, Verdict(), Trace("r"))
    used = await submit(world)
    assert used["decision"] == "proceed"
    await world.desk.report_effect.release(RUNTIME, used["effect_id"], said())
    anew = await submit(world)
    assert anew["decision"] == "blocked"
    assert anew["approval"]["id"] != name
    with pytest.raises(errors.ApprovalOutdated):
        await world.desk.decide_approval.grant(OPS, name, Verdict(), Trace("r"))
    assert (await submit(world))["decision"] == "blocked"


class LosesReplies:
    """A ledger whose replies to claims are lost, while `deaf`."""

    def __init__(self, ledger: Any) -> None:
        self._ledger, self.deaf = ledger, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def swap(self, where: Any, view: Any, writes: Any) -> Any:
        swap = await self._ledger.swap(where, view, writes)
        if self.deaf and writes.claims:
            raise errors.LedgerUnavailable("the reply was lost", may_have_run=True)
        return swap


async def test_p4_3_a_claim_whose_reply_was_lost_is_never_taken_back_from_its_runner(world):
    """4.3, 4.11: the runtime sends again, is told that it holds the effect and runs it; taken back behind its back, it
    would be run twice."""
    world.decider._ledger = LosesReplies(world.ledger)
    with pytest.raises(errors.LedgerUnavailable):
        await submit(world)
    world.decider._ledger.deaf = False
    answer = await submit(world)
    assert answer["decision"] == "proceed"
    await world.settle_background()
    other = asyncio.ensure_future(submit(world, token="another", attempt=2))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not other.done()
    await complete(world, answer["effect_id"])
    assert (await other)["decision"] == "replay"


async def test_p7_5_a_submission_that_may_have_landed_stays_counted(world):
    """7.5: hanging up at the right moment is no way past a limit."""
    limit = {"max": 1, "window_s": 60, "per": "conversation"}
    rule = {"id": "r", "priority": 1, "when": {"target": "*"}, "then": {"decision": "allow", "rate_limit": limit}}
    world.shelf.policies["shop1"] = read_bundle({"default_action": "allow", "rules": [rule]}, "shop1")
    world.decider._ledger = LosesReplies(world.ledger)
    with pytest.raises(errors.LedgerUnavailable):
        await submit(world)
    world.decider._ledger.deaf = False
    assert (await submit(world))["decision"] == "proceed"
    answer = await submit(world, token="second")
    assert (answer["decision"], answer["effect_id"], answer["status"]) == ("rate_limited", None, None)
    assert 0 < answer["retry_after_s"] <= 60


@pytest.mark.parametrize("report", ["complete", "fail", "renew", "release"])
async def test_p9_1_another_conversations_or_companys_effect_is_not_there(world, report):
    """9.1: in the same words as one that never was, whatever the token."""
    effect = (await submit(world))["effect_id"]
    act, words = getattr(world.desk.report_effect, report), set()
    more = {"result": b"1"} if report == "complete" else {"fault": Fault("x", "y")} if report == "fail" else {}
    wrong = [(RUNTIME, effect, {"conversation": "c2"}), (STRANGER, effect, {"company": "shop2"}), (RUNTIME, "ab" * 32, {}),
             (RUNTIME, effect.upper(), {}), (RUNTIME, effect[:-1], {}), (RUNTIME, " " + effect[1:], {})]  # fmt: skip
    for who, id_, where in wrong:
        with pytest.raises(errors.NotFound) as found:
            await act(who, id_, said(**more, **where))
        words.add(str(found.value))
    assert len(words) == 1
    for who in (STRANGER, MERCHANT):
        with pytest.raises(errors.Forbidden):
            await act(who, effect, said(**more))
    assert (await submit(world))["decision"] == "proceed"


@pytest.mark.parametrize("report", ["complete", "fail", "renew", "release"])
async def test_p7_2_a_token_that_does_not_hold_it_changes_nothing(world, report):
    """7.2, 4.4: a stranger's word is no late success, and raises no alarm."""
    effect = (await submit(world))["effect_id"]
    more = {"result": b"1"} if report == "complete" else {"fault": Fault("x", "y")} if report == "fail" else {}
    with pytest.raises(errors.ClaimLost) as lost:
        await getattr(world.desk.report_effect, report)(RUNTIME, effect, said("theirs", **more))
    assert lost.value.details["stands"]["status"] == "executing"
    assert world.conflicts == []
    assert (await complete(world, effect))["status"] == "succeeded"


async def test_p4_4_two_outcomes_under_one_token_are_a_conflict(world):
    """4.4, 4.3"""
    effect = (await submit(world))["effect_id"]
    for _ in range(2):
        await complete(world, effect)
    with pytest.raises(errors.OutcomeConflict):
        await complete(world, effect, result=b'"another"')
    with pytest.raises(errors.ClaimLost):
        await world.desk.report_effect.fail(RUNTIME, effect, said(fault=Fault("x", "y")))
    assert world.conflicts == ["outcome"]


async def test_p4_12_a_result_that_is_too_large_is_dropped_and_never_run_again(world):
    """4.12"""
    effect = (await submit(world))["effect_id"]
    large = b'"' + b"x" * 1_048_577 + b'"'
    for _ in range(2):
        assert (await complete(world, effect, result=large))["error"]["code"] == "result_dropped"
    replay = await submit(world)
    assert (replay["decision"], replay["status"], replay["error"]["code"]) == ("replay", "succeeded", "result_dropped")


async def test_p7_2_release_gives_back_and_says_so_again(world):
    """7.2, 4.3"""
    effect = (await submit(world))["effect_id"]
    assert (await world.desk.report_effect.release(RUNTIME, effect, said()))["status"] == "absent"
    with pytest.raises(errors.NotFound):
        await world.desk.report_effect.release(RUNTIME, effect, said())
    assert (await submit(world, token="another"))["effect_id"] == effect


async def test_p7_3_an_unmatched_local_effect_is_allowed_whatever_the_default(world):
    """7.3: a model call is not."""
    world.shelf.policies["shop1"] = read_bundle({"default_action": "deny"}, "shop1")
    assert (await submit(world, kind=Kind.LOCAL, target="clock"))["decision"] == "proceed"
    denied = await submit(world, token="t2")
    assert (denied["decision"], denied["effect_id"], denied["error"]["code"]) == ("denied", None, "policy_denied")
    log = await world.ledger.events(conversation_digest("shop1", "c1"), 0, 100)
    assert log[-1].event.type == "effect.denied"
    assert log[-1].event.data["bundle_version"] == world.shelf.policies["shop1"].version


@pytest.mark.parametrize(
    ("target", "mode", "repeat"),
    [("create_order", Mode.AT_MOST_ONCE, "blocked"), ("send_mail", Mode.AT_MOST_ONCE, "blocked"), ("get_menu", Mode.SAFE_TO_RETRY, "proceed"), ("read_clock", Mode.SAFE_TO_RETRY, "proceed")],
)  # fmt: skip
async def test_p4_9_a_runtimes_own_tool_is_judged_by_its_name_like_any(world, target, mode, repeat):
    """4.9, 4.6, 3.2: registered or not; what changes something is held when it is repeated."""
    first = await submit(world, kind=Kind.TOOL_CALL, target=target, tool_call_id="n1")
    await complete(world, first["effect_id"])
    second = await submit(world, kind=Kind.TOOL_CALL, target=target, tool_call_id="n2", token="t2")
    assert second["decision"] == repeat
    (record,) = await world.look_up.calls(OPS, "shop1", "c1", "n1")
    assert record["idempotency"] == mode.value
    if repeat == "blocked":
        assert second["first"]["effect_id"] == first["effect_id"]
        await world.desk.decide_approval.grant(OPS, second["approval"]["id"], Verdict(), Trace("r"))
        assert (await submit(world, kind=Kind.TOOL_CALL, target=target, tool_call_id="n2", token="t2"))[
            "decision"
        ] == "proceed"
    assert world.merchant.hits == 0


async def test_p2_1_one_id_is_one_call_whoever_runs_it(world):
    """2.1, 7.2: what the gateway has done its runtime does not do again, nor the other way round."""
    call = {"kind": Kind.TOOL_CALL, "target": "create_order", "args": {"sku": "A"}, "tool_call_id": "n1"}
    placed = await world.call(tool_call_id="n1", turn="t-1", attempt=1)
    replay = await submit(world, **call)
    assert (replay["decision"], replay["effect_id"]) == ("replay", placed.effect_id)
    call["tool_call_id"] = "m1"
    mine = await submit(world, **{**call, "args": {"sku": "B"}})
    await complete(world, mine["effect_id"])
    answer = await world.call(tool_call_id="m1", turn="t-1", attempt=1, arguments={"sku": "B"})
    assert (answer.decision, answer.effect_id, world.merchant.hits) == ("replay", mine["effect_id"], 1)


async def test_p4_6_the_gateway_does_not_send_what_only_a_runtime_can_run(world, ledger_time):
    """4.6: its outcome is unknown, and so it is told; a fault of ours would be no answer."""
    mine = await submit(
        world,
        kind=Kind.TOOL_CALL,
        target="create_order",
        args={"sku": "A"},
        tool_call_id="n1",
        idempotency=Mode.SAFE_TO_RETRY,
    )
    ledger_time.advance(61)
    answer = await world.call(tool_call_id="n1", turn="t-1", attempt=1)
    assert (answer.decision, answer.status, answer.effect_id) == ("replay", "indeterminate", mine["effect_id"])
    assert world.merchant.hits == 0


async def test_p4_8_a_submission_waits_for_another_and_is_told_when_it_takes_too_long(world):
    """4.8: 409, nothing recorded."""
    await submit(world, tool_call_id="n1")
    with pytest.raises(errors.CallInFlight):
        await submit(world, tool_call_id="n1", token="another")


async def test_p7_4_a_grant_is_not_used_by_another_companys_submission(world):
    """9.1, 7.4: whatever it names."""
    world.shelf.platform_policy = read_bundle(
        {"default_action": "allow", "rules": [{"id": "r", "priority": 1, "when": {"kind": "llm_call"}, "then": {"decision": "require_approval"}}]},
        None,
    )  # fmt: skip
    held = await submit(world)
    await world.desk.decide_approval.grant(OPS, held["approval"]["id"], Verdict(), Trace("r"))
    for fields in ({"company": "shop2", "who": STRANGER}, {"conversation": "c2"}):
        assert (await submit(world, **fields))["decision"] == "blocked"
    assert (await submit(world))["decision"] == "proceed"


async def test_p4_9_a_held_submission_is_judged_at_the_grant_as_the_kind_of_tool_that_it_was_taken_for(world):
    """4.9, 3.2, 7.4: no tool of that name is registered, so its name says that it reads; at the grant too, or the rule
    that held it would no longer be about it."""
    rule = {
        "id": "reads",
        "priority": 1,
        "when": {"target": "get_*", "side_effecting": False},
        "then": {"decision": "require_approval"},
    }
    world.shelf.policies["shop1"] = read_bundle({"default_action": "deny", "rules": [rule]}, "shop1")
    asked = {"kind": Kind.TOOL_CALL, "target": "get_address", "args": {"of": "A"}}
    held = await submit(world, **asked)
    assert held["decision"] == "blocked"
    given = await world.desk.decide_approval.grant(OPS, held["approval"]["id"], Verdict(), Trace("req-1"))
    assert given["decision"] == "granted"
    assert (await submit(world, **asked))["decision"] == "proceed"


async def test_p9_3_a_token_that_comes_again_with_other_arguments_names_no_sensitive_field(world, retag):
    """9.3, 2.2: where a tool's arguments are sensitive as a whole, for submissions as for calls."""
    retag(world, "create_order", parameters={"type": "object", "x-sensitive": True})
    asked = {"kind": Kind.TOOL_CALL, "target": "create_order"}
    await submit(world, args={"card": "4111"}, **asked)
    with pytest.raises(errors.ToolCallIdReused) as refused:
        await submit(world, args={"card": "4222"}, **asked)
    assert "card" not in repr(refused.value.details)
