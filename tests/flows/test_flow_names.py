"""What a name or a hint may not do at a running gateway (K5-01, K5-04, K5-06)."""

from __future__ import annotations

import pytest
from flow_client import Api
from flow_merchant import RawMerchant

WRITES = {
    "orders.pay": {"readOnlyHint": True},
    "inventory.batchChange": {"readOnlyHint": True},
    "subscriptions.changeBillingAnchorDate": {"readOnlyHint": True},
    "refunds.payment": {"readOnlyHint": True},
    "customers.addGroupTo": {"readOnlyHint": True},
    "replace_symbol": {"readOnlyHint": True},
    "insert_at_symbol": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True},
    "run_affected_tests": {"readOnlyHint": True, "httpMethod": "GET"},
    "undelete_record": None,
    "delete_draft": {"destructiveHint": False},
}
READS = ["orders.list", "inventory.search", "subscriptions.get", "refunds.get", "customers.list"]


async def test_k5_01_k5_04_a_hint_that_denies_a_change_lets_no_write_run_twice(api: Api, merchant: RawMerchant) -> None:
    """K5-01, K5-04, 3.4: registered with every hint that says "safe", a write is recorded, has a key and runs once; the
    contradiction is told at registration. Its reading siblings go through each time. Only an override says otherwise."""
    for tool, hints in WRITES.items():
        stored = await api.register(tool, merchant.url, **({} if hints is None else {"hints": hints}))
        assert stored.json["verdict"]["side_effecting"], tool
        contradicted = "OG104" in [finding["code"] for finding in stored.json["findings"]]
        assert contradicted == bool(hints and hints.get("readOnlyHint")), tool
        before = merchant.hits
        answers = [await api.call(f"id {tool}", tool) for _ in range(2)]
        assert [answer.decision for answer in answers] == ["proceed", "replay"], tool
        assert merchant.hits == before + 1
        assert merchant.requests[-1].headers["idempotency-key"] == answers[0].json["effect_id"]
    for tool in READS:
        await api.register(tool, merchant.url, hints={"readOnlyHint": True})
        answers = [await api.call(f"id {tool}", tool) for _ in range(2)]
        assert [(answer.decision, answer.json["recorded"]) for answer in answers] == [("proceed", False)] * 2, tool
    await api.send("PUT", f"/v1/companies/{api.company}", {"overrides": {"run_affected_tests": False}})
    await api.register("run_affected_tests", merchant.url)
    answers = [await api.call(f"new {number}", "run_affected_tests", {"n": number}) for number in (1, 1)]
    assert [(answer.decision, answer.json["recorded"]) for answer in answers] == [("proceed", False)] * 2


@pytest.mark.parametrize(
    ("reads", "asks"), [("catalog.query", "catalog_query"), ("A-b", "a_b")], ids=["dot, underscore", "case, hyphen"]
)
async def test_k5_06_of_two_names_that_look_alike_each_has_its_own_verdict_and_policy(
    api: Api, merchant: RawMerchant, reads: str, asks: str
) -> None:
    """K5-06, 3.3, 7.3: the override and the rule that name one say nothing of the other, in whichever order they come."""
    rule = {"id": "r", "priority": 1, "when": {"target": asks}, "then": {"decision": "require_approval"}}
    policy = {"default_action": "allow", "rules": [rule]}
    company = f"/v1/companies/{api.company}"
    settings = {"overrides": {asks: True, reads: False}, "policy": policy}
    assert (await api.send("PUT", company, settings)).status == 200
    for first, second in ((reads, asks), (asks, reads)):
        for tool in (first, second):
            await api.register(tool, f"{merchant.url}?{tool}")
        listed = (await api.send("GET", f"{company}/tools")).json["tools"]
        assert {row["name"]: row["verdict"]["side_effecting"] for row in listed} == {reads: False, asks: True}
        before = merchant.hits
        assert (await api.call(f"w {first}", asks, {"from": first})).decision == "blocked"
        assert merchant.hits == before
        assert (await api.call(f"r {first}", reads, {"from": first})).decision == "proceed"
        assert merchant.requests[-1].target.endswith(f"?{reads}")
        assert (await api.call(f"x {first}", reads.upper(), {})).code == "unknown_tool"
        for tool in (first, second):
            await api.send("DELETE", f"{company}/tools/{tool}")
