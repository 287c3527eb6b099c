"""The registry's snapshot: fresh within a second, cheap while nothing changes, and serving when the ledger is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core.errors import LedgerUnavailable
from gateway.core.model import Company, Principal, Role, SigningSecret


async def test_a_change_elsewhere_is_seen_once_the_snapshot_is_a_second_old(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    other = place.gateway()
    await other.registry.refresh()
    await gateway.tools.put(merchant, "acme", "place_order", body())
    await other.registry.refresh()
    assert other.registry.tool("acme", "place_order") is None
    place.clock.seconds += 1
    await other.registry.refresh()
    assert other.registry.tool("acme", "place_order").version == 1


async def test_the_documents_are_read_again_only_when_something_changed(place: Any, gateway: Any) -> None:
    loads, versions = place.stored.loads, place.stored.versions
    for _ in range(5):
        place.clock.seconds += 2
        await gateway.registry.refresh()
        await gateway.registry.refresh()
    assert (place.stored.loads - loads, place.stored.versions - versions) == (0, 5)


async def test_many_who_ask_at_once_look_once(place: Any, gateway: Any) -> None:
    place.clock.seconds += 2
    before = place.stored.versions
    await asyncio.gather(*(gateway.registry.refresh() for _ in range(20)))
    assert place.stored.versions == before + 1


async def test_p4_11_the_last_snapshot_serves_while_the_ledger_is_away(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    """4.11: read-only calls go through without a ledger, so the registry still knows their tools."""
    await gateway.tools.put(merchant, "acme", "get_order", body())
    place.stored.documents_away = True
    place.clock.seconds += 60
    await gateway.registry.refresh()
    before = place.stored.versions
    await gateway.registry.refresh()
    assert place.stored.versions == before
    assert gateway.registry.tool("acme", "get_order").version == 1


async def test_a_registry_that_never_saw_the_ledger_says_so_each_time(place: Any) -> None:
    fresh = place.gateway().registry
    place.stored.documents_away = True
    for _ in range(2):
        with pytest.raises(LedgerUnavailable):
            await fresh.refresh()
    place.stored.documents_away = False
    await fresh.refresh()
    assert fresh.tools("acme") == []


async def test_a_slow_ledger_delays_a_call_only_by_the_registrys_patience(place: Any, gateway: Any) -> None:
    gate = asyncio.Event()

    async def stuck() -> int:
        await gate.wait()
        return 0

    registry = place.gateway(patience_s=0.0).registry
    await registry.refresh()
    place.stored.version = stuck
    place.clock.seconds += 2
    await registry.refresh()
    assert registry.tools("acme") == []
    gate.set()
    await registry.reload()


async def test_one_unreadable_document_hides_only_itself(
    place: Any, gateway: Any, merchant: Any, body: Any, caplog: Any
) -> None:
    await gateway.tools.put(merchant, "acme", "place_order", body())
    for name, content in {
        "[]": b"{}",
        "tool": b"{}",
        '["tool","acme","x"]': b"not json CANARY",
        '["zzz"]': b"{}",
    }.items():
        await place.stored.change(name, content, None)
    await gateway.registry.reload()
    assert [tool.name for tool in gateway.registry.tools("acme")] == ["place_order"]
    assert "CANARY" not in caplog.text
    assert caplog.text.count("cannot be read") == 4


async def test_a_company_that_was_never_set_has_the_platforms_settings(place: Any) -> None:
    registry = place.gateway(defaults=Company("", max_steps=3, repeat_window_s=0)).registry
    await registry.refresh()
    assert registry.company("acme") == Company("acme", max_steps=3, repeat_window_s=0)


async def test_nearest_tools_are_of_the_same_company_only(place: Any, gateway: Any, operator: Any, body: Any) -> None:
    """9.1 and K5: a suggestion never names another company's tool."""
    await gateway.tools.put(operator, "acme", "place_order", body())
    await gateway.tools.put(operator, "bravo", "place_orders_secretly", body())
    assert gateway.registry.nearest_tools("acme", "placeOrder") == ["place_order"]
    assert gateway.registry.nearest_tools("acme", "zzzzz") == []


async def test_a_files_secrets_and_settings_are_laid_over_what_is_stored(
    place: Any, from_file: Any, operator: Any
) -> None:
    plain = place.gateway()
    await plain.companies.put(operator, "acme", {"max_steps": 2})
    stored = await plain.companies.add_secret(operator, "acme")
    filed = from_file(settings={"max_steps": "off"}, secrets=(SigningSecret("f1", "whsec_x"),))
    registry = place.gateway(files=[filed]).registry
    await registry.refresh()
    assert registry.company("acme").max_steps is None
    assert [secret.id for secret in registry.secrets("acme")] == [stored.id, "f1"]


async def test_k6_07_odd_keys_are_nobodys_and_raise_nothing(place: Any) -> None:
    """K6-07: any text is only a wrong key."""
    dev = Principal("dev", Role.OPERATOR, frozenset({"*"}), "dev")
    registry = place.gateway(fixed_keys={"dev": dev}).registry
    await registry.refresh()
    for key in ("", "caf\xe9", "\udcff", "\x00", "dev ", "DEV", "x" * 1_000_000, "og_r_"):
        assert registry.principal(key) is None
    assert registry.principal("dev") is dev
