"""Policy, limits and approvals through the whole service: what a runtime, an approver and a shop see (7.3, 7.4, 7.5)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from gateway.core import errors, identity
from gateway.core.model import Company, Principal, Role
from gateway.core.policy_bundle import read_bundle
from gateway.core.record import Fault
from gateway.core.strict_json import parse
from gateway.service.call_request import CallRequest
from gateway.service.decide_approval import Verdict
from gateway.service.report_effect import Report
from gateway.service.sending import Trace
from gateway.service.submit_effect import Submission

OPS = Principal("ops", Role.OPERATOR, frozenset({"*"}), "k-1")
ANNA = Principal("anna", Role.MERCHANT, frozenset({"shop1"}), "k-2")
SHOP = Principal("shop", Role.MERCHANT, frozenset({"shop1"}), "k-3")
RUNTIME = Principal("rt", Role.RUNTIME, frozenset({"shop1"}), "k-4")
STRANGER = Principal("anna", Role.MERCHANT, frozenset({"shop2"}), "k-5")
CALLED_OPERATOR = Principal("operator", Role.MERCHANT, frozenset({"shop1"}), "k-6")
CALLED_CUSTOMER = Principal("customer", Role.MERCHANT, frozenset({"shop1"}), "k-7")
TRACE = Trace("req-1")
CARD = "4111111111111111"
LARGE = {"sku": "A", "total": "7400.00"}
PLACE = {"turn": "t-1", "step": 1, "attempt": 1}


def bundle(*rules: dict[str, Any], company: str | None = "shop1", default: str = "allow") -> Any:
    numbered = [{"id": f"r{n}", "priority": n, **rule} for n, rule in enumerate(rules)]
    return read_bundle({"default_action": default, "rules": numbered}, company)


def holding(*approvers: str, **more: Any) -> Any:
    then: dict[str, Any] = {"decision": "require_approval", **more}
    if approvers:
        then["approvers"] = list(approvers)
    return bundle({"when": {"target": "create_order", "arguments": {"/total": {"gt": 5000}}}, "then": then})


def limited(per: str = "conversation", most: Any = 2, target: str = "*", **more: Any) -> Any:
    limit = {"max": most, "window_s": 60, "per": per, **more}
    return bundle({"when": {"target": target}, "then": {"decision": "allow", "rate_limit": limit}})


async def held(world: Any, policy: Any = None, **call: Any) -> str:
    """The name of the approval that a large order waits for."""
    world.shelf.policies["shop1"] = policy or holding()
    answer = await world.call(**{"tool_call_id": "n1", "arguments": LARGE, **PLACE, **call})
    assert (answer.decision, answer.status) == ("blocked", "awaiting_approval"), answer
    return answer.approval["id"]


async def grant(world: Any, name: str, who: Principal = OPS, **said: str) -> dict[str, Any]:
    return await world.desk.decide_approval.grant(who, name, Verdict(**said), TRACE)


async def deny(world: Any, name: str, who: Principal = OPS, **said: str) -> dict[str, Any]:
    return await world.desk.decide_approval.deny(who, name, Verdict(**said))


async def events(world: Any, conversation: str = "c1", company: str = "shop1") -> list[Any]:
    digest = identity.conversation_digest(company, conversation)
    return [each.event for each in await world.ledger.events(digest, 0, 1_000)]


# --- policy (7.3) --------------------------------------------------------------------------------------------


async def test_p7_3_a_denied_call_is_told_logged_and_not_stored(world):
    """7.3: the rule and the bundle are in the event; asked again it is judged again, by the rules of then."""
    policy = bundle({"when": {"target": "create_*"}, "then": {"decision": "deny", "reason": "Closed on Mondays"}})
    world.shelf.policies["shop1"] = policy
    for _ in range(2):
        answer = await world.call(tool_call_id="n1", **PLACE)
        assert (answer.decision, answer.status, answer.effect_id, answer.recorded) == ("denied", "denied", None, False)
        assert answer.error["code"] == "policy_denied"
        assert "Closed on Mondays." in answer.message
    (first, _) = await events(world)
    assert first.type == "effect.denied"
    assert first.data == {
        "code": "policy_denied",
        "target": "create_order",
        "tool_call_id": "n1",
        "turn": "t-1",
        "rule": "r0",
        "bundle_version": policy.version,
        "reason": "Closed on Mondays",
    }
    del world.shelf.policies["shop1"]
    assert (await world.call(tool_call_id="n1", **PLACE)).decision == "proceed"
    assert world.merchant.hits == 1


async def test_p4_10_what_is_recorded_replays_whatever_policy_says_by_now(world):
    """4.10, 7.3: order: ledger, policy, limit, claim."""
    first = await world.call(tool_call_id="n1", conversation="c2")
    world.shelf.policies["shop1"] = bundle(default="deny")
    again = await world.call(tool_call_id="n1", conversation="c2", **PLACE)
    assert (again.decision, again.result) == ("replay", first.result)


async def test_p7_3_every_decision_event_says_which_rule_of_which_bundle(world):
    """7.3: of a call that a rule lets pass, and of one that the default does."""
    policy = bundle({"when": {"target": "create_*"}, "then": {"decision": "allow"}})
    world.shelf.policies["shop1"] = policy
    await world.call(tool_call_id="n1")
    await world.call(tool_call_id="n2", tool="cancel_order")
    said = [event.data for event in await events(world) if event.type == "effect.allowed"]
    assert said == [{"rule": "r0", "bundle_version": policy.version}, {"bundle_version": policy.version}]


@pytest.mark.parametrize("first", ["platform", "company"])
async def test_p7_3_the_stricter_of_two_gates_holds(world, first):
    """7.3: neither undoes the other's."""
    allow, ask = bundle(default="allow"), holding()
    world.shelf.platform_policy, world.shelf.policies["shop1"] = (ask, allow) if first == "platform" else (allow, ask)
    answer = await world.call(tool_call_id="n1", arguments=LARGE)
    assert answer.decision == "blocked"
    assert (await world.call(tool_call_id="n2", conversation="c2")).decision == "proceed"


async def test_p7_3_a_read_that_policy_holds_is_recorded(world):
    """7.3, 3.6: an approval is of something that stands; once granted its answer is stored as any other."""
    policy = bundle({"when": {"target": "list_orders"}, "then": {"decision": "require_approval"}})
    world.shelf.policies["shop1"] = policy
    answer = await world.call(tool="list_orders", tool_call_id="n1")
    assert (answer.decision, answer.side_effecting) == ("blocked", False)
    granted = await grant(world, answer.approval["id"])
    assert granted["status"] == "succeeded"
    replay = await world.call(tool="list_orders", tool_call_id="n1")
    assert (replay.decision, world.merchant.hits) == ("replay", 1)
    assert (await world.call(tool="get_menu", tool_call_id="n2")).recorded is False


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("list_orders", "needs approval, a read-only one too, needs a tool_call_id"),
        ("create_order", "a side-effecting call needs a tool_call_id"),
    ],
)
async def test_p2_7_a_held_call_without_an_id_is_told_why_it_needs_one(world, tool, said):
    """2.7, 7.3: and nothing is recorded."""
    world.shelf.policies["shop1"] = bundle({"when": {"target": tool}, "then": {"decision": "require_approval"}})
    with pytest.raises(errors.Malformed) as refused:
        await world.call(tool=tool, tool_call_id=None)
    assert said in refused.value.message
    assert ("side-effecting" in refused.value.message) is (tool == "create_order")
    assert refused.value.details["fields"] == [{"field": "/tool_call_id", "problem": "missing or blank"}]
    assert await events(world) == []
    asked = await world.call(tool=tool, tool_call_id=None, **PLACE)
    assert (asked.decision, asked.status) == ("blocked", "awaiting_approval")


# --- approvals (7.4) -----------------------------------------------------------------------------------------


async def test_p7_4_a_person_grants_and_the_order_is_placed_once(world):
    """7.4: the stored call goes out with the stored arguments under its own key; repeats get its outcome."""
    name = await held(world, holding(message="A large one: ask the shop."))
    assert world.merchant.hits == 0
    granted = await grant(world, name, rationale="seen the basket")
    assert (granted["decision"], granted["status"], granted["by"]) == ("granted", "succeeded", "ops")
    assert granted["result"] == msgspec.Raw(b'{"order": "O-1"}')
    assert world.merchant.header(0, "idempotency-key") == granted["effect_id"]
    assert json.loads(world.merchant.requests[0].body)["arguments"] == LARGE
    answer = await world.call(tool_call_id="n1", arguments=LARGE, **PLACE)
    assert (answer.decision, answer.effect_id) == ("replay", granted["effect_id"])
    again = await grant(world, name)
    assert (again["status"], again["result"], world.merchant.hits) == ("succeeded", granted["result"], 1)
    (said,) = [event.data for event in await events(world) if event.type == "approval.granted"]
    assert (said["by"], said["rationale"]) == ("ops", "seen the basket")


async def test_p7_4_a_person_refuses_and_that_stands(world):
    """7.4"""
    name = await held(world)
    assert (await deny(world, name, rationale="no"))["status"] == "denied"
    assert (await deny(world, name))["status"] == "denied"
    for who, act in ((ANNA, deny), (OPS, grant)):
        with pytest.raises(errors.GatewayError) as too_late:
            await act(world, name, who)
        assert too_late.value.status == (403 if who is ANNA else 409)
    answer = await world.call(tool_call_id="n1", arguments=LARGE, **PLACE)
    assert (answer.decision, answer.status, answer.error["code"]) == ("replay", "denied", "approval_denied")
    assert world.merchant.hits == 0


# who asks, what the rule names -> under what name they decide, or what they get
DECIDERS = {
    "an operator, where operators may": (OPS, ("operator",), "ops"),
    "an operator, where they are not named": (OPS, ("anna",), errors.Forbidden),
    "one who is named": (ANNA, ("anna",), "anna"),
    "one of the same name, of another company": (STRANGER, ("anna",), errors.NotFound),
    "a merchant, where merchants may": (SHOP, ("merchant",), "shop"),
    "a merchant, where operators may": (SHOP, ("operator",), errors.Forbidden),
    "a merchant that is called operator": (CALLED_OPERATOR, ("operator",), errors.Forbidden),
    "a merchant that is called customer": (CALLED_CUSTOMER, ("customer",), errors.Forbidden),
    "the runtime, where operators may": (RUNTIME, ("operator",), errors.Forbidden),
    "the runtime, for a customer who is not named": (RUNTIME, ("merchant",), errors.Forbidden),
    "the runtime, without the customer's words": (RUNTIME, ("customer",), errors.Malformed),
}


@pytest.mark.parametrize(("who", "approvers", "expected"), DECIDERS.values(), ids=DECIDERS.keys())
@pytest.mark.parametrize("act", [grant, deny])
async def test_p7_4_only_whom_the_rule_names_decides(world, who, approvers, expected, act):
    """7.4, 9.1: whoever the key says; and what is refused changes nothing."""
    name = await held(world, holding(*approvers))
    before = [event.type for event in await events(world)]
    if isinstance(expected, str):
        assert (await act(world, name, who))["by"] == expected
        return
    with pytest.raises(expected):
        await act(world, name, who, rationale="I am the operator")
    assert [event.type for event in await events(world)] == before
    assert world.merchant.hits == 0


async def test_p7_4_a_runtime_speaks_for_the_customer_with_the_customers_words(world):
    """7.4: they go into the log, with the key that brought them."""
    name = await held(world, holding("customer", "operator"))
    granted = await grant(world, name, RUNTIME, customer_message="yes, do order it")
    assert granted["by"] == "customer"
    (said,) = [event.data for event in await events(world) if event.type == "approval.granted"]
    assert (said["by"], said["via"], said["customer_message"]) == ("customer", "rt", "yes, do order it")


@pytest.mark.parametrize("customer_may", [False, True])
async def test_p7_4_a_customer_approves_a_repeat_only_where_the_company_lets_them(world, customer_may):
    """7.4: no rule asked for this one."""
    world.shelf.companies["shop1"] = Company("shop1", customer_may_approve=customer_may)
    await world.call(tool_call_id="n1", turn="t-1")
    answer = await world.call(tool_call_id="n2", turn="t-1")
    name = answer.approval["id"]
    assert ("customer" in answer.approval["approvers"]) is customer_may
    if not customer_may:
        with pytest.raises(errors.Forbidden):
            await grant(world, name, RUNTIME, customer_message="once more")
        return
    assert (await grant(world, name, RUNTIME, customer_message="once more"))["status"] == "succeeded"
    assert world.merchant.hits == 2


async def test_p9_1_who_may_not_read_results_decides_without_seeing_one(world):
    """9.1: a merchant's key sees its calls and their status, and no stored result."""
    world.merchant.behave = lambda _: _reply({"order": "O-1", "card": CARD})
    name = await held(world, holding("anna"))
    granted = await grant(world, name, ANNA)
    again = await grant(world, name, ANNA)
    assert (granted["status"], granted["result"]) == ("succeeded", None)
    assert (again["status"], again["result"]) == ("succeeded", None)
    assert CARD not in repr((granted, again))


def _reply(body: Any) -> Any:
    from gateway.core.outcome import Reason, Seen, SeenKind

    return Seen(SeenKind.REPLY, Reason.REPLIED, True, 200, "application/json", None, "", json.dumps(body).encode())


async def test_p9_1_another_companys_approval_is_not_there(world):
    """9.1: in the same words as one that is not."""
    name = await held(world)
    stranger = Principal("s", Role.OPERATOR, frozenset({"shop2"}), "k-9")
    said = set()
    for wrong in (
        name,
        name[:-2] + ("00" if name[-2:] != "00" else "11"),
        "apr_",
        "apr_" + "0" * 68,
        name.upper(),
        name + " ",
        "x",
    ):
        for act in (
            world.desk.decide_approval.get(stranger, wrong),
            grant(world, wrong, stranger),
            deny(world, wrong, stranger),
        ):
            with pytest.raises(errors.NotFound) as found:
                await act
            said.add(str(found.value))
    assert len(said) == 1
    with pytest.raises(errors.Forbidden):
        await world.desk.decide_approval.pending(stranger, "shop1", None, 10)
    assert (await world.desk.decide_approval.pending(OPS, "shop2", None, 10))[0] == []


async def test_p7_4_what_is_pending_is_shown_with_the_call_it_is_about(world):
    """7.4, 2.10: arguments digit for digit; gone from the list once decided."""
    arguments = '{"total": 24000000000000000001.10, "sku": "A"}'
    name = await held(world, arguments=parse(arguments))
    (shown,), cursor = await world.desk.decide_approval.pending(OPS, "shop1", None, 10)
    assert cursor is None
    assert shown == await world.desk.decide_approval.get(OPS, name)
    assert (shown["id"], shown["status"], shown["because"], shown["rule"]) == (name, "pending", "policy", "r0")
    assert (shown["tool"], shown["tool_call_id"], shown["turn"], shown["step"]) == ("create_order", "n1", "t-1", 1)
    assert b"24000000000000000001.10" in bytes(shown["arguments"])
    assert shown["expires_at"] > shown["requested_at"]
    await deny(world, name)
    assert await world.desk.decide_approval.pending(OPS, "shop1", None, 10) == ([], None)
    assert (await world.desk.decide_approval.get(OPS, name))["status"] == "denied"


async def test_p9_3_sensitive_arguments_are_masked_for_whoever_approves(world, retag):
    """9.3: no listing shows them; the merchant gets them all the same."""
    parameters = {"type": "object", "properties": {"card": {"type": "string", "x-sensitive": True}}}
    retag(world, "create_order", parameters=parameters)
    name = await held(world, arguments={**LARGE, "card": CARD})
    for shown in (
        await world.desk.decide_approval.get(OPS, name),
        (await world.desk.decide_approval.pending(OPS, "shop1", None, 9))[0][0],
    ):
        assert msgspec.json.decode(shown["arguments"]) == {**LARGE, "card": "***"}
    assert CARD not in repr(await events(world))
    kept = world.shelf.shelf.pop(("shop1", "create_order"))
    assert (await world.desk.decide_approval.get(OPS, name))["arguments"] == "***"
    world.shelf.shelf["shop1", "create_order"] = kept
    await grant(world, name)
    assert CARD.encode() in world.merchant.requests[0].body


async def test_p7_4_a_tool_registered_anew_has_to_be_approved_anew(world):
    """7.4: the old name leads to the new one, and decides nothing."""
    name = await held(world)
    world.shelf.put("shop1", "create_order", version=2)
    with pytest.raises(errors.ApprovalOutdated) as outdated:
        await grant(world, name)
    anew = outdated.value.details["approval"]["id"]
    assert anew != name
    for act in (grant, deny):
        with pytest.raises(errors.ApprovalOutdated) as again:
            await act(world, name)
        assert again.value.details["approval"]["id"] == anew
    assert (await grant(world, anew))["status"] == "succeeded"


@pytest.mark.parametrize("change", ["denied", "tool gone", "no secret", "arguments no longer fit"])
async def test_p7_4_a_grant_of_what_would_be_refused_now_is_refused_and_stays_open(world, retag, change):
    """7.4"""
    name = await held(world)
    kept = world.shelf.shelf["shop1", "create_order"]
    if change == "denied":
        world.shelf.policies["shop1"] = bundle(default="deny")
    elif change == "tool gone":
        del world.shelf.shelf["shop1", "create_order"]
    elif change == "no secret":
        world.shelf.without_secret.add("shop1")
    else:
        retag(world, "create_order", parameters={"type": "object", "required": ["address"]})
    with pytest.raises(errors.GrantRefused) as refused:
        await grant(world, name)
    expected = {"denied": "policy_denied", "tool gone": "unknown_tool", "no secret": "merchant_not_ready"}
    assert refused.value.details["refused"] == expected.get(change, "invalid_arguments")
    world.shelf.shelf["shop1", "create_order"] = kept
    world.shelf.without_secret.clear()
    world.shelf.policies["shop1"] = holding()
    assert (await grant(world, name))["status"] == "succeeded"


async def test_p4_8_the_runtimes_own_request_gets_the_outcome_of_a_grant_that_runs(world):
    """4.8, 7.4: it waits for the one who granted."""
    name = await held(world)
    gate = asyncio.Event()

    async def slowly(_: Any) -> Any:
        await gate.wait()
        return _reply({"order": "O-1"})

    world.merchant.behave = slowly
    granting = asyncio.ensure_future(grant(world, name))
    await world.merchant.reached()
    asking = asyncio.ensure_future(world.call(tool_call_id="n1", arguments=LARGE, **PLACE))
    for _ in range(20):
        await asyncio.sleep(0)
    gate.set()
    granted, answer = await granting, await asking
    assert (answer.decision, answer.effect_id, world.merchant.hits) == ("replay", granted["effect_id"], 1)


@pytest.mark.parametrize("seen_", ["no_connection", "timed_out"])
async def test_p7_4_a_grant_tells_what_became_of_the_call(world, seen, seen_):
    """7.4, 5: not sent: a problem, and the id may be used again, with another approval; unknown: said so."""
    name = await held(world)
    world.merchant.behave = lambda _: seen[seen_]
    if seen_ == "timed_out":
        granted = await grant(world, name)
        assert (granted["status"], granted["error"]["code"]) == ("indeterminate", "outcome_unknown")
        assert (await grant(world, name))["status"] == "indeterminate"
        return
    with pytest.raises(errors.MerchantUnreachable):
        await grant(world, name)
    with pytest.raises(errors.ApprovalDecided, match="granted by ops, and not done") as used:
        await grant(world, name)
    assert used.value.details["stands"] == {"status": "absent", "by": "ops"}
    assert await held(world) != name


@pytest.mark.parametrize("who", [OPS, SHOP])
async def test_p7_4_an_approval_is_shown_after_what_it_granted_was_not_sent(world, seen, who):
    """7.4: who granted it and for what, until the call is made anew; it grants nothing any more."""
    name = await held(world)
    pending = await world.desk.decide_approval.get(who, name)
    world.merchant.behave = lambda _: seen["no_connection"]
    with pytest.raises(errors.MerchantUnreachable):
        await grant(world, name)
    shown = await world.desk.decide_approval.get(who, name)
    assert (shown["status"], shown["by"], shown["arguments"]) == ("absent", "ops", None)
    same = ("id", "tool", "tool_call_id", "rule", "requested_at", "approvers", "effect_id")
    assert {each: shown[each] for each in same} == {each: pending[each] for each in same}
    assert (await world.desk.decide_approval.pending(who, "shop1", None, 9))[0] == []
    assert await world.look_up.calls(OPS, "shop1", "c1", "n1") == []
    for act in (grant, deny):
        with pytest.raises(errors.ApprovalDecided):
            await act(world, name)
    again = await held(world)
    with pytest.raises(errors.ApprovalOutdated) as outdated:
        await world.desk.decide_approval.get(who, name)
    assert outdated.value.details["approval"]["id"] == again
    world.merchant.behave = lambda _: _reply({"order": "O-1"})
    assert (await grant(world, again))["status"] == "succeeded"
    with pytest.raises(errors.NotFound):
        await world.desk.decide_approval.get(who, name)


async def test_p7_4_a_submission_that_gives_its_granted_claim_back_leaves_the_approval_to_be_seen(world):
    """7.2, 7.4: released by its runner."""
    world.shelf.policies["shop1"] = bundle({"when": {"kind": "llm_call"}, "then": {"decision": "require_approval"}})
    asked = Submission("shop1", "c1", "t-1", 1, identity.Kind.LLM_CALL, "a-model", identity.read_arguments({}), "mine")
    name = (await world.desk.submit_effect(RUNTIME, asked))["approval"]["id"]
    await grant(world, name)
    effect = (await world.desk.submit_effect(RUNTIME, asked))["effect_id"]
    assert (await world.desk.decide_approval.get(OPS, name))["status"] == "executing"
    said = Report("shop1", "c1", "mine")
    for _ in range(2):
        assert (await world.desk.report_effect.release(RUNTIME, effect, said))["status"] == "absent"
    shown = await world.desk.decide_approval.get(OPS, name)
    assert (shown["status"], shown["by"]) == ("absent", "ops")
    with pytest.raises(errors.ClaimLost):
        await world.desk.report_effect.fail(RUNTIME, effect, Report("shop1", "c1", "mine", fault=Fault("x", "y")))


class Deaf:
    """A ledger whose replies to some swaps are lost."""

    def __init__(self, ledger: Any, lost: int) -> None:
        self._ledger, self.lost = ledger, lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def swap(self, where: Any, view: Any, writes: Any) -> Any:
        swap = await self._ledger.swap(where, view, writes)
        if self.lost:
            self.lost -= 1
            raise errors.LedgerUnavailable("the reply was lost", may_have_run=True)
        return swap


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_p4_3_a_grant_whose_replies_are_lost_runs_once_or_not_at_all(world, lost):
    """4.3, 4.11: told that it holds it, it goes on; told nothing, it takes the claim back, and all is open again."""
    name = await held(world)
    world.decider._ledger = Deaf(world.ledger, lost if lost < 3 else 1)
    if lost < 3:
        assert (await grant(world, name))["status"] == "succeeded"
        assert world.merchant.hits == 1
        return
    reads = world.ledger.read
    world.decider._ledger.read = _away(reads, 2)
    with pytest.raises(errors.LedgerUnavailable):
        await grant(world, name)
    await world.settle_background()
    assert world.merchant.hits == 0
    answer = await world.call(tool_call_id="n1", arguments=LARGE, **PLACE)
    assert answer.decision == "blocked"


def _away(read: Any, skip: int) -> Any:
    """Reads once, then is away twice, then back."""
    asked = 0

    async def sometimes(where: Any) -> Any:
        nonlocal asked
        asked += 1
        if 1 < asked <= 1 + skip:
            raise errors.LedgerUnavailable("away", may_have_run=True)
        return await read(where)

    return sometimes


# --- limits (7.5) --------------------------------------------------------------------------------------------


async def refused(world: Any, **call: Any) -> errors.RateLimited:
    with pytest.raises(errors.RateLimited) as limit:
        await world.call(**call)
    return limit.value


async def test_p7_5_a_limited_call_leaves_no_claim_and_its_id_works_later(world, ledger_time):
    """7.5: 429 with how long to wait; nothing is stored, one line is logged."""
    policy = world.shelf.policies["shop1"] = limited()
    for number in (1, 2):
        assert (await world.call(tool_call_id=f"n{number}", arguments={"n": number})).decision == "proceed"
    limit = await refused(world, tool_call_id="n3", arguments={"n": 3}, turn="t-1")
    assert (limit.status, limit.code, 0 < limit.retry_after_s <= 60) == (429, "rate_limited", True)
    last = (await events(world))[-1]
    assert (last.type, last.effect_id) == ("effect.rate_limited", None)
    assert last.data == {
        "target": "create_order",
        "tool_call_id": "n3",
        "turn": "t-1",
        "rule": "r0",
        "bundle_version": policy.version,
    }
    assert await world.look_up.calls(OPS, "shop1", "c1", "n3") == []
    ledger_time.advance(61)
    assert (await world.call(tool_call_id="n3", arguments={"n": 3}, turn="t-1")).decision == "proceed"
    assert world.merchant.hits == 3


async def test_p7_5_replays_never_count(world):
    """7.5, 4.10: nor are they ever limited."""
    world.shelf.policies["shop1"] = limited(most=2)
    for _ in range(5):
        await world.call(tool_call_id="n1", arguments={"n": 1})
    assert (await world.call(tool_call_id="n2", arguments={"n": 2})).decision == "proceed"
    await refused(world, tool_call_id="n3", arguments={"n": 3})
    assert (await world.call(tool_call_id="n1", arguments={"n": 1})).decision == "replay"


async def test_p7_5_a_crowd_of_the_same_call_counts_once(world):
    """7.5, 4.8: those that counted and found another there first give it back."""
    world.shelf.policies["shop1"] = limited(most=5)
    answers = await asyncio.gather(*(world.call(tool_call_id="n1", arguments={"n": 1}) for _ in range(5)))
    assert sorted(each.decision for each in answers) == ["proceed", *["replay"] * 4]
    for number in range(4):
        assert (await world.call(tool_call_id=f"m{number}", arguments={"m": number})).decision == "proceed"
    await refused(world, tool_call_id="one too many", arguments={"m": 9})


async def test_p7_5_a_limit_counts_when_an_effect_is_new_and_not_when_it_is_granted(world):
    """7.5, 7.4: a held call has been counted; asked again, granted and replayed it is not counted once more."""
    rule = {
        "when": {"target": "create_order"},
        "then": {"decision": "require_approval", "rate_limit": {"max": 1, "window_s": 60, "per": "conversation"}},
    }
    name = await held(world, bundle(rule))
    for _ in range(3):
        assert (await world.call(tool_call_id="n1", arguments=LARGE, **PLACE)).decision == "blocked"
    await refused(world, tool_call_id="n2", arguments={"n": 2})
    assert (await grant(world, name))["status"] == "succeeded"
    assert (await world.call(tool_call_id="n1", arguments=LARGE, **PLACE)).decision == "replay"


@pytest.mark.parametrize(
    ("call", "decision"),
    [({"tool_call_id": "n2", "turn": "t-1"}, "blocked"), ({"tool_call_id": "n1", "turn": "t-1"}, "replay")],
)
async def test_p7_5_a_repeat_is_new_and_a_replay_is_not(world, call, decision):
    """7.5, 4.9: one that is held counts as the new effect that it is."""
    world.shelf.policies["shop1"] = limited(most=2)
    await world.call(tool_call_id="n1", turn="t-1")
    assert (await world.call(**call)).decision == decision
    if decision == "replay":
        await world.call(tool_call_id="n3", arguments={"n": 3})
    await refused(world, tool_call_id="n4", arguments={"n": 4})


async def test_p7_5_an_order_that_came_to_nothing_stays_counted_and_one_that_was_refused_is_not(world, seen):
    """7.5: what was claimed was new; a full conversation, an unknown first, made nothing new."""
    world.shelf.policies["shop1"] = limited(most=2)
    world.merchant.behave = lambda _: seen["timed_out"]
    assert (await world.call(tool_call_id="n1")).status == "indeterminate"
    for _ in range(4):
        assert (await world.call(tool_call_id="n2")).decision == "denied"
    world.merchant.behave = lambda _: _reply({})
    assert (await world.call(tool_call_id="n3", arguments={"n": 3})).decision == "proceed"
    await refused(world, tool_call_id="n4", arguments={"n": 4})


async def test_p7_5_amounts_are_added_exactly_for_each_buyer(world):
    """7.5: `/amount` of `/buyer`; a tenth and two tenths are three tenths."""
    world.shelf.policies["shop1"] = limited("/buyer", "0.3", sum_of="/amount")
    for number, amount in enumerate((0.1, "0.2")):
        assert (
            await world.call(tool_call_id=f"n{number}", arguments={"buyer": 7, "amount": amount})
        ).decision == "proceed"
    await refused(world, tool_call_id="n3", arguments={"buyer": "7", "amount": "0.0001"})
    assert (await world.call(tool_call_id="n4", arguments={"buyer": 8, "amount": "0.3"})).decision == "proceed"


@pytest.mark.parametrize("denied", ["runtime", "operator"])
@pytest.mark.parametrize("submitted", [False, True])
async def test_p7_4_at_the_grant_a_call_is_judged_as_a_runtimes_whoever_asked_and_whoever_grants(
    world, denied, submitted
):
    """7.4: a rule about operators' calls does not stop what an operator grants, nor let through what one asked for."""
    world.shelf.policies["shop1"] = holding()
    operator = Principal("op", Role.OPERATOR, frozenset({"*"}), "k-8")
    args = identity.read_arguments(LARGE)
    if not submitted:
        request = CallRequest("shop1", "c1", "create_order", LARGE, tool_call_id="n1", **PLACE)
        name = (await world.handle(operator, request, TRACE)).approval["id"]
    else:
        place = {"turn": "t-1", "attempt": 1, "kind": identity.Kind.TOOL_CALL, "target": "create_order", "args": args}
        asked = Submission("shop1", "c1", claim_token="mine", **place)
        name = (await world.desk.submit_effect(operator, asked))["approval"]["id"]
    held = {"when": {"target": "create_order"}, "then": {"decision": "require_approval"}}
    world.shelf.policies["shop1"] = bundle({"when": {"role": denied}, "then": {"decision": "deny"}}, held)
    if denied == "operator":
        assert (await grant(world, name))["decision"] == "granted"
        return
    with pytest.raises(errors.GrantRefused) as refused:
        await grant(world, name)
    assert refused.value.details == {"refused": "policy_denied"}


@pytest.mark.parametrize("first", [{}, {"sum_of": "/amount"}, {"sum_of": "/other"}])
@pytest.mark.parametrize("then", [{}, {"sum_of": "/amount"}, {"sum_of": "/other"}])
async def test_p7_5_a_rule_that_counts_something_else_by_now_counts_anew(world, first, then):
    """7.5: calls are no amounts, nor is one amount another: 3.00 counted as calls would be 30,000 of them."""
    for number, of in enumerate((first, then)):
        world.shelf.policies["shop1"] = limited("company", 5, **of)
        say = {"amount": 3, "other": 3, "n": number}
        if number and first == then and first:
            await refused(world, tool_call_id=f"n{number}", arguments=say)
        else:
            assert (await world.call(tool_call_id=f"n{number}", arguments=say)).decision == "proceed"


@pytest.mark.parametrize("on_error", ["deny", "allow"])
@pytest.mark.parametrize("arguments", [{}, {"amount": -1}, {"amount": "7,400"}])
async def test_p7_5_what_does_not_say_what_is_counted_gets_what_on_error_says(world, on_error, arguments):
    """7.5"""
    world.shelf.policies["shop1"] = limited("company", 10, sum_of="/amount", on_error=on_error)
    if on_error == "allow":
        assert (await world.call(tool_call_id="n1", arguments=arguments)).decision == "proceed"
        return
    await refused(world, tool_call_id="n1", arguments=arguments)
    assert (await events(world))[-1].data["reason"] == "not countable"


@pytest.mark.parametrize("on_error", ["deny", "allow"])
async def test_p7_5_a_counter_that_is_away_gets_what_on_error_says(world, on_error):
    """7.5: 503 with nothing claimed, or let pass."""
    world.shelf.policies["shop1"] = limited(on_error=on_error)

    async def away(_: Any) -> Any:
        raise errors.LedgerUnavailable("away", may_have_run=False)

    counters = world.desk.handle_call._rate_limits._counters
    counters.take = away
    if on_error == "allow":
        assert (await world.call(tool_call_id="n1")).decision == "proceed"
        return
    with pytest.raises(errors.LedgerUnavailable):
        await world.call(tool_call_id="n1")
    assert (world.merchant.hits, await events(world)) == (0, [])


async def test_p7_5_two_limits_count_both_or_neither(world):
    """7.5, 7.3: the platform's and the company's; the one that says no is named with its own bundle."""
    platform = bundle(
        {"when": {"target": "*"}, "then": {"decision": "allow", "rate_limit": {"max": 2, "window_s": 60, "per": "company"}}},
        company=None,
    )  # fmt: skip
    own = limited("/buyer", 1)
    world.shelf.platform_policy, world.shelf.policies["shop1"] = platform, own
    assert (await world.call(tool_call_id="n1", arguments={"buyer": 1})).decision == "proceed"
    for number in (2, 3, 4):
        await refused(world, tool_call_id=f"n{number}", arguments={"buyer": 1, "n": number})
    said = (await events(world))[-1].data
    assert (said["rule"], said["bundle_version"]) == ("r0", own.version)
    assert (await world.call(tool_call_id="n5", arguments={"buyer": 2})).decision == "proceed"
    await refused(world, tool_call_id="n6", arguments={"buyer": 3})
    assert (await events(world))[-1].data["bundle_version"] == platform.version


async def test_p7_5_read_only_calls_are_limited_too(world):
    """7.5: each one counts, since none is recorded."""
    world.shelf.policies["shop1"] = limited(target="get_menu")
    for _ in range(2):
        assert (await world.call(tool="get_menu", tool_call_id=None)).decision == "proceed"
    await refused(world, tool="get_menu", tool_call_id=None)


async def test_p7_5_another_company_has_counters_of_its_own(world):
    """7.5, 9.1: also under the platform's rule."""
    world.shelf.platform_policy = bundle(
        {"when": {"target": "*"}, "then": {"decision": "allow", "rate_limit": {"max": 1, "window_s": 60, "per": "company"}}},
        company=None,
    )  # fmt: skip
    for company in ("shop1", "shop2"):
        assert (await world.call(company=company, tool_call_id="n1")).decision == "proceed"
        await refused(world, company=company, tool_call_id="n2", arguments={"n": 2})


async def test_k6_12_a_guessed_conversations_ids_are_its_own_companys_only(world):
    """9.1: whoever holds one company's key can occupy ids in that company's conversations, and in no other's; a key
    that may not execute reads no result, and calls nothing."""
    for number in range(10):
        await world.call(company="shop2", tool_call_id=f"call_{number}", arguments={"squat": number})
    answer = await world.call(tool_call_id="call_0", arguments={"sku": "A"})
    assert answer.decision == "proceed"
    with pytest.raises(errors.Forbidden):
        await world.handle(SHOP, _request(), TRACE)
    with pytest.raises(errors.Forbidden):
        await world.handle(Principal("rt", Role.RUNTIME, frozenset({"shop2"}), "k"), _request(), TRACE)
    (shown,) = await world.look_up.calls(SHOP, "shop1", "c1", "call_0")
    assert shown["result"] is None


def _request() -> Any:
    from gateway.service.call_request import CallRequest

    return CallRequest("shop1", "c1", "create_order", {"sku": "A"}, "call_0")
