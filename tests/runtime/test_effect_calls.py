"""The client's methods for effects and approvals: bodies, lost replies, answers that cannot be read."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal

import pytest

from gateway.runtime import BadCall, Effect, NoAnswer, Oncegate, Problem

WHOSE = ("acme", "c-1", "ef" * 32, "token")
BY_NAME = {"company": "acme", "conversation": "c-1", "claim_token": "token"}
EFFECT = Effect("acme", "c-1", "t-1", 1, "local", "now", {"n": Decimal("1.10")}, "token", step=2)


async def test_p7_2_a_submission_states_what_is_known_and_reads_the_decision(client, played):
    """7.2: optional fields are left out, digits kept."""
    said = await client.submit(EFFECT)
    assert (said.decision, said.status, said.lease_s) == ("proceed", "executing", 60.0)
    assert json.loads(played.bodies[0], parse_float=str) == {
        "company": "acme", "conversation": "c-1", "turn": "t-1", "attempt": 1, "kind": "local", "target": "now",
        "args": {"n": "1.10"}, "claim_token": "token", "step": 2,
    }  # fmt: skip
    await client.complete("acme", "c-1", said.effect_id, "token", {"at": Decimal("2.50")})
    again = await client.submit(EFFECT)
    assert (again.decision, again.result, again.replay.age_s) == ("replay", {"at": Decimal("2.5")}, Decimal("1.5"))
    assert (await client.submit(EFFECT, exact=False)).result == {"at": 2.5}
    assert "token" not in repr(EFFECT)


async def test_p8_every_part_of_a_blocked_submission_is_read(client, played):
    """8, 7.4"""
    played.effects.said["now"] = {
        "effect_id": "ab" * 32, "decision": "blocked", "status": "awaiting_approval", "reason": "wait",
        "approval": {"id": "ap-1", "expires_at": "2026", "message": "ask", "approvers": ["customer"]},
        "first": {"effect_id": "cd" * 32, "status": "succeeded", "result": 1},
    }  # fmt: skip
    said = await client.submit(EFFECT)
    assert (said.approval.id, said.approval.approvers, said.first.result, said.reason) == (
        "ap-1",
        ("customer",),
        1,
        "wait",
    )


@pytest.mark.parametrize(
    ("method", "args", "body"),
    [
        ("complete", (None,), {"result": None}),
        ("fail", ("no_stock", "none left"), {"error": {"code": "no_stock", "message": "none left"}}),
        ("renew", (), {}),
        ("release", (), {}),
    ],
)
async def test_p4_3_a_report_whose_reply_is_lost_is_sent_again_as_it_was(client, played, slept, method, args, body):
    """4.3: repeated with the same token it says the same."""
    said = await client.submit(EFFECT)
    played.faults.extend(["drop_before", "cut_short"] if method != "release" else ["drop_before"])
    standing = await getattr(client, method)("acme", "c-1", said.effect_id, "token", *args)
    assert standing.effect_id == said.effect_id
    assert {json.dumps(sent, sort_keys=True) for _, sent in played.effects.reported} == {
        json.dumps({**BY_NAME, **body}, sort_keys=True)
    }
    assert len(slept) == (1 if method == "release" else 2)


async def test_p4_3_a_submission_whose_reply_is_lost_is_sent_again_with_its_token(client, played):
    """4.3, 7.2"""
    played.faults.append("drop_after")
    assert (await client.submit(EFFECT)).decision == "proceed"
    assert [sent["claim_token"] for sent in played.effects.submitted] == ["token", "token"]
    assert len(played.effects.records) == 1


async def test_a_report_that_is_refused_is_a_problem(client, played):
    """4.4: what stands is said by the gateway, and not asked for again."""
    played.effects.refused["complete"] = [("claim_lost", 409)]
    with pytest.raises(Problem, match="claim_lost"):
        await client.complete(*WHOSE, 1)
    assert played.effects.asked["complete"] == 1


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, object(), {"a": {1, 2}}])
async def test_a_result_that_is_no_json_never_leaves(client, played, value):
    """2.9"""
    with pytest.raises(BadCall):
        await client.complete(*WHOSE, value)
    assert played.bodies == []


@pytest.mark.parametrize("effect_id", ["", ".", ".."])
async def test_an_effect_id_that_leads_elsewhere_is_refused(client, played, effect_id):
    with pytest.raises(BadCall):
        await client.renew("acme", "c-1", effect_id, "token")
    assert played.bodies == []


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"decision": 1},
        {"decision": "proceed", "lease_s": "60"},
        {"decision": "proceed", "lease_s": True},
        {"decision": "blocked", "approval": []},
    ],
)
async def test_a_submission_answered_in_other_words_is_no_answer(client, played, said):
    """8: nothing is guessed from it."""
    played.effects.said["now"] = said
    with pytest.raises(NoAnswer):
        await client.submit(EFFECT)


async def test_p7_4_approvals_are_listed_to_the_last_page(client, played):
    """7.4: a page may be short, or empty, before the last."""
    rows = [{"id": f"ap-{n}"} for n in range(3)]
    played.effects.pages = [
        {"approvals": rows[:2], "cursor": "1"}, {"approvals": [], "cursor": "2"}, {"approvals": rows[2:], "cursor": None},
    ]  # fmt: skip
    assert await client.approvals("acme") == rows
    assert (await client.approval("ap-1"))["status"] == "pending"


@pytest.mark.parametrize("page", [{}, {"approvals": [1], "cursor": None}, {"approvals": [], "cursor": 7}])
async def test_a_list_of_approvals_in_another_shape_is_no_answer(client, played, page):
    played.effects.pages = [page]
    with pytest.raises(NoAnswer):
        await client.approvals("acme")


async def test_p7_4_the_customers_words_go_with_a_grant_and_a_lost_reply_is_asked_for_again(client, played):
    """7.4: the same principal's decision is answered as it was made."""
    played.faults.append("drop_after")
    verdict = await client.grant("ap-1", customer_message="Yes, go ahead")
    assert (verdict.decision, verdict.by, verdict.status, verdict.result) == (
        "granted", "customer", "succeeded", {"total": Decimal("1.1")},
    )  # fmt: skip
    assert played.effects.decided == [("ap-1", "grant", {"customer_message": "Yes, go ahead"})] * 2
    denied = await client.deny("ap-2", rationale="too dear")
    assert (denied.decision, denied.status) == ("denied", "denied")
    assert played.effects.decided[-1] == ("ap-2", "deny", {"rationale": "too dear"})


async def test_the_twin_submits_and_decides_too(played, key):
    def work():
        with Oncegate(played.url, key) as gateway:
            said = gateway.submit(EFFECT)
            gateway.complete("acme", "c-1", said.effect_id, "token", 1)
            return gateway.submit(EFFECT).result, gateway.grant("ap-1", customer_message="Yes").decision

    assert await asyncio.to_thread(work) == (1, "granted")
