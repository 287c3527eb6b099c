"""A company's own policy in the registry (7.3, 9.1)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.identity import Kind
from gateway.core.policy import Action, PolicyCall, decide
from gateway.core.registry_documents import StoredCompany, company_document, encode

CALL = PolicyCall(Kind.TOOL_CALL, "place_order", "acme", {}, True)
UNREADABLE = {
    "another company's": '{"default_action": "allow", "rules": [{"id": "r", "priority": 1, "when": {"company": "x"}, '
    '"then": {"decision": "deny"}}]}',
    "of a newer gateway": '{"default_action": "ask_nicely"}',
    "no JSON": "{",
    "no text": {"default_action": "allow"},
}


async def test_p7_3_a_policy_is_read_with_its_company_and_gone_when_left_out(gateway: Any, merchant: Any) -> None:
    """7.3: another version for another content."""
    versions = set()
    for action in ("deny", "allow"):
        await gateway.companies.put(merchant, "acme", {"policy": {"default_action": action}})
        policy = gateway.registry.policy("acme")
        assert (decide(policy, CALL).action.value, policy.owner) == (action, "acme")
        versions.add(policy.version)
    assert len(versions) == 2
    assert gateway.registry.policy("globex") is None
    await gateway.companies.put(merchant, "acme", {})
    assert gateway.registry.policy("acme") is None


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
async def test_p7_3_a_policy_that_cannot_be_read_denies_all_of_its_company_and_nothing_else(
    place: Any, gateway: Any, merchant: Any, body: Any, text: Any
) -> None:
    """7.3, 9.1: not one company's gateway stops for another's policy, and what cannot be read is not taken for none."""
    await gateway.tools.put(merchant, "acme", "place_order", body())
    stored = encode(StoredCompany(1, "acme", {"policy": text}))
    assert await place.stored.change(company_document("acme"), stored, None)
    fresh = place.gateway().registry
    for _ in range(2):
        await fresh.refresh()
        assert decide(fresh.policy("acme"), CALL).action is Action.DENY
        assert fresh.tool("acme", "place_order") is not None
        assert fresh.policy("globex") is None
        place.clock.seconds += 2
