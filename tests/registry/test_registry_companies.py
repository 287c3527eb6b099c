"""A company's settings and signing secrets: promises 3.3, 9.1 and 9.3."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gateway.core.errors import Forbidden, LedgerUnavailable, Malformed, NotFound, RegistrationRefused
from gateway.core.identity import Scope
from gateway.service.manage_company import MAX_SECRETS

OF_ANOTHER = {
    "default_action": "allow",
    "rules": [{"id": "r", "priority": 1, "when": {"company": "globex"}, "then": {"decision": "deny"}}],
}
"""A policy that can never be met, as it is acme's."""


async def test_settings_are_replaced_as_a_whole(gateway: Any, merchant: Any) -> None:
    company = await gateway.companies.put(merchant, "acme", {"max_steps": 2, "call_id_scope": "turn"})
    assert (company.max_steps, company.call_id_scope) == (2, Scope.TURN)
    company = await gateway.companies.put(merchant, "acme", {"max_steps": "off", "repeat_window_s": 0})
    assert (company.max_steps, company.call_id_scope, company.repeat_window_s) == (None, Scope.AUTO, 0)
    company = await gateway.companies.put(merchant, "acme", {"max_steps": None})
    assert company.max_steps == 6
    assert await gateway.companies.get(merchant, "acme") == company


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], ""),
        ({"max_step": 1}, "/max_step"),
        ({"max_steps": 0}, "/max_steps"),
        ({"max_steps": True}, "/max_steps"),
        ({"call_id_scope": "trun"}, "/call_id_scope"),
        ({"overrides": {"a": 1}}, "/overrides/a"),
        ({"repeat_window_s": -1}, "/repeat_window_s"),
        ({"policy": {}}, "/policy/default_action"),
        ({"policy": OF_ANOTHER}, "/policy/rules/0/when/company"),
    ],
)
async def test_a_wrong_setting_is_named(gateway: Any, merchant: Any, body: Any, field: str) -> None:
    with pytest.raises(Malformed) as refused:
        await gateway.companies.put(merchant, "acme", body)
    assert [p["field"] for p in refused.value.details["fields"]] == [field]


@pytest.mark.parametrize("name", ["*", "", "a\x00b", "x" * 129])
async def test_a_company_cannot_be_called_what_a_key_means_by_all(gateway: Any, operator: Any, name: str) -> None:
    """9.1: `*` in a key is every company, so no company has that name."""
    with pytest.raises(RegistrationRefused):
        await gateway.companies.put(operator, name, {})


async def test_p3_3_an_override_gives_stored_tools_a_new_verdict_and_version(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    """3.3: the company's overrides come before the name, by exact name first; the tool's own declaration wins."""
    await gateway.tools.put(merchant, "acme", "get_quote", body())
    await gateway.tools.put(merchant, "acme", "get_price", body(side_effecting=False))
    await gateway.companies.put(merchant, "acme", {"overrides": {"get_*": True}})
    quote, price = gateway.registry.tool("acme", "get_quote"), gateway.registry.tool("acme", "get_price")
    assert (quote.version, quote.verdict.side_effecting, quote.verdict.source) == (2, True, "company")
    assert (price.version, price.verdict.side_effecting, price.verdict.source) == (1, False, "tool")
    await gateway.companies.put(merchant, "acme", {"overrides": {"get_*": True, "get_quote": False}})
    quote = gateway.registry.tool("acme", "get_quote")
    assert (quote.version, quote.verdict.side_effecting) == (3, False)
    assert quote.protected_until_ms is not None
    await gateway.companies.put(merchant, "acme", {})
    quote = gateway.registry.tool("acme", "get_quote")
    assert (quote.version, quote.verdict.source) == (4, "heuristic:words")
    assert len(await place.events("acme")) == 5


async def test_p3_3_a_change_that_broke_off_is_made_whole_by_the_same_one_again(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    """3.3: no tool keeps the verdict of overrides that are gone."""
    await gateway.tools.put(merchant, "acme", "get_quote", body())
    await gateway.tools.put(merchant, "acme", "get_price", body())
    place.stored.ledger_away = True
    with pytest.raises(LedgerUnavailable):
        await gateway.companies.put(merchant, "acme", {"overrides": {"get_*": True}})
    place.stored.ledger_away = False
    await gateway.companies.put(merchant, "acme", {"overrides": {"get_*": True}})
    assert all(tool.verdict.side_effecting for tool in gateway.registry.tools("acme"))
    logged = [data["tool"] for _, data in await place.events("acme") if data["version"] == 2]
    assert sorted(logged) == ["get_price", "get_quote"]


async def test_p9_3_a_signing_secret_is_shown_once_and_both_sign_during_a_rotation(
    gateway: Any, merchant: Any, runtime: Any
) -> None:
    """9.3: the answer that makes a secret is the only one that shows it; the newest comes first."""
    first = await gateway.companies.add_secret(merchant, "acme")
    second = await gateway.companies.add_secret(merchant, "acme")
    assert first.value.startswith("whsec_")
    assert len(base64.b64decode(first.value.removeprefix("whsec_"))) == 32
    assert first.value != second.value
    assert gateway.registry.secrets("acme") == [second, first]
    assert await gateway.companies.secrets(merchant, "acme") == [second.id, first.id]
    assert first.value not in repr(first) + repr(gateway.registry.document('["secrets","acme"]'))
    await gateway.companies.retire_secret(merchant, "acme", first.id)
    assert gateway.registry.secrets("acme") == [second]
    with pytest.raises(NotFound):
        await gateway.companies.retire_secret(merchant, "acme", first.id)
    with pytest.raises(Forbidden):
        await gateway.companies.secrets(runtime, "acme")


async def test_signing_secrets_are_bounded(gateway: Any, merchant: Any) -> None:
    for _ in range(MAX_SECRETS):
        await gateway.companies.add_secret(merchant, "acme")
    with pytest.raises(RegistrationRefused, match="retire one"):
        await gateway.companies.add_secret(merchant, "acme")


async def test_k4_05_one_companys_secrets_never_sign_for_another(gateway: Any, operator: Any) -> None:
    """K4-05: nothing of one company is in another's, before it has one of its own and after, in whichever order."""
    made = {"shopA": {(await gateway.companies.add_secret(operator, "shopA")).value}}
    assert gateway.registry.secrets("shopB") == []
    for company in ("shopB", "shopA", "shop", "shopB"):
        made.setdefault(company, set()).add((await gateway.companies.add_secret(operator, company)).value)
    for company, values in made.items():
        assert {secret.value for secret in gateway.registry.secrets(company)} == values
    assert len(set.union(*made.values())) == 5
