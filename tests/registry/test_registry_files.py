"""Companies from configuration files, taken over at start."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import ConfigError, RegistrationRefused
from gateway.core.model import Company, SigningSecret
from gateway.core.registration import Declared

URL = "https://shop.example/tools"


async def test_a_files_tools_are_registered_and_a_restart_changes_nothing(place: Any, from_file: Any) -> None:
    names = ("acme_get_order", "acme_place_order", "acme_refund")
    filed = from_file(tools={name: Declared(URL) for name in names})
    first = place.gateway(files=[filed])
    await first.adopt()
    tools = first.registry.tools("acme")
    assert [(tool.name, tool.version, tool.verdict.side_effecting) for tool in tools] == [
        ("acme_get_order", 1, False),
        ("acme_place_order", 1, True),
        ("acme_refund", 1, True),
    ]
    events = await place.events("acme")
    assert [data["by"] for _, data in events] == ["configuration"] * 3
    second = place.gateway(files=[filed])
    await second.adopt()
    assert second.registry.tools("acme") == tools
    assert await place.events("acme") == events


async def test_a_tool_that_left_its_file_is_removed_and_one_of_the_api_stays(
    place: Any, from_file: Any, merchant: Any, body: Any
) -> None:
    first = place.gateway(files=[from_file(tools={"place_order": Declared(URL), "refund": Declared(URL)})])
    await first.adopt()
    await first.tools.put(merchant, "acme", "get_order", body())
    second = place.gateway(files=[from_file(tools={"place_order": Declared(URL, timeout_s=2)})])
    await second.adopt()
    assert [(tool.name, tool.version) for tool in second.registry.tools("acme")] == [
        ("get_order", 1),
        ("place_order", 2),
    ]


async def test_what_a_file_defines_is_changed_in_the_file_only(
    place: Any, from_file: Any, merchant: Any, body: Any
) -> None:
    filed = from_file(tools={"place_order": Declared(URL)}, secrets=(SigningSecret("f1", "whsec_x"),))
    gateway = place.gateway(files=[filed])
    await gateway.adopt()
    for attempt in (
        gateway.tools.put(merchant, "acme", "place_order", body()),
        gateway.tools.remove(merchant, "acme", "place_order"),
        gateway.companies.put(merchant, "acme", {}),
        gateway.companies.add_secret(merchant, "acme"),
        gateway.companies.retire_secret(merchant, "acme", "f1"),
    ):
        with pytest.raises(RegistrationRefused, match=r"config/merchants/acme\.toml"):
            await attempt


async def test_a_file_that_is_elsewhere_keeps_its_tools_here(
    place: Any, from_file: Any, merchant: Any, caplog: Any
) -> None:
    """Another gateway on the same ledger may still have the file."""
    await place.gateway(files=[from_file(tools={"place_order": Declared(URL)})]).adopt()
    other = place.gateway()
    await other.adopt()
    assert other.registry.tool("acme", "place_order") is not None
    assert "acme" in caplog.text
    await other.tools.remove(merchant, "acme", "place_order")
    assert other.registry.tools("acme") == []


async def test_p3_5_findings_in_files_stop_the_start_all_at_once(place: Any, from_file: Any) -> None:
    """3.5: with `refuse`, a start names every tool that has to be renamed or declared."""
    filed = from_file(tools={"zorble": Declared(URL), "frobnicate": Declared(URL), "get_order": Declared(URL)})
    gateway = place.gateway(files=[filed], defaults=Company("", on_finding="refuse"))
    with pytest.raises(ConfigError) as wrong:
        await gateway.adopt()
    assert [line.partition(":")[0] for line in wrong.value.problems] == [
        "config/merchants/acme.toml, tools.zorble",
        "config/merchants/acme.toml, tools.frobnicate",
    ]


async def test_p3_3_the_platforms_overrides_and_heuristic_reach_stored_tools_at_start(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    """3.3: the platform's overrides come last; a heuristic that was switched gives new verdicts, an equal one none."""
    await gateway.tools.put(merchant, "acme", "get_quote", body())
    await gateway.tools.put(merchant, "acme", "finalise_basket", body())
    overriding = place.gateway(platform_overrides={"get_quote": True})
    await overriding.adopt()
    assert overriding.registry.tool("acme", "get_quote").verdict.source == "platform_override"
    assert overriding.registry.tool("acme", "finalise_basket").version == 1
    bare = place.gateway(defaults=Company("", heuristic="platform"))
    await bare.adopt()
    basket = bare.registry.tool("acme", "finalise_basket")
    assert (basket.version, basket.verdict.side_effecting, basket.verdict.source) == (2, False, "heuristic:platform")
    assert basket.protected_until_ms is not None
