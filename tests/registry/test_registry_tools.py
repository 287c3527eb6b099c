"""Registering tools: promises 3.3 to 3.6, 9.1 to 9.3 and the cases K5-06, K6-10, K6-12."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import Forbidden, LedgerUnavailable, Malformed, NotFound, RegistrationRefused
from gateway.core.record import Mode
from gateway.core.registration import LOOKED_UP_SLACK_MS
from gateway.core.tool_lists import ToolFormat, tool_body, tool_list

GOOD: dict[str, Any] = {
    "description": "What it does, in a sentence.",
    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "additionalProperties": False},
    "idempotency": "safe_to_retry",
}
"""A declaration in which lint finds nothing but what the name brings."""


async def test_p3_5_registration_answers_with_the_verdict_and_findings(gateway: Any, merchant: Any, body: Any) -> None:
    """3.5: the answer names the verdict with its rule, and what is worth remarking."""
    tool, findings = await gateway.tools.put(merchant, "acme", "place_order", body(**GOOD))
    assert (tool.version, tool.verdict.side_effecting, tool.verdict.source, tool.verdict.verb) == (
        1,
        True,
        "heuristic:words",
        "place",
    )
    assert findings == []
    _, findings = await gateway.tools.put(merchant, "acme", "zorble", body(**GOOD))
    assert [(f.code, f.rule, f.severity) for f in findings] == [("OG108", "no-known-verb", "warning")]


async def test_p3_3_the_verdict_is_stored_and_the_same_in_another_process(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    """3.3: the verdict is stored with the tool version."""
    declared = body(
        description="d",
        parameters={"type": "object", "properties": {"n": {"maximum": 2**70, "type": "integer"}}},
        side_effecting=False,
        idempotency="safe_to_retry",
        on_repeat="run",
        timeout_s=3,
        status_endpoint="https://shop.example/status",
        unavailable_means_not_executed=True,
        hints={"readOnlyHint": False},
    )
    tool, _ = await gateway.tools.put(merchant, "acme", "add_note", declared)
    other = place.gateway()
    await other.registry.refresh()
    assert other.registry.tool("acme", "add_note") == tool
    assert tool.verdict.source == "tool"
    assert tool.mode is Mode.SAFE_TO_RETRY


async def test_the_same_registration_again_keeps_the_version(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    for _ in range(2):
        tool, _ = await gateway.tools.put(merchant, "acme", "place_order", body())
        assert tool.version == 1
    tool, _ = await gateway.tools.put(merchant, "acme", "place_order", body(timeout_s=2))
    assert tool.version == 2
    assert [(type_, data["version"]) for type_, data in await place.events("acme")] == [
        ("tool.registered", 1),
        ("tool.registered", 2),
    ]


async def test_a_registration_that_could_not_be_logged_is_logged_by_the_same_one_again(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    """7.6: no registration is missing from the event log because the ledger went away in between."""
    place.stored.ledger_away = True
    with pytest.raises(LedgerUnavailable):
        await gateway.tools.put(merchant, "acme", "place_order", body())
    place.stored.ledger_away = False
    tool, _ = await gateway.tools.put(merchant, "acme", "place_order", body())
    assert tool.version == 1
    assert [type_ for type_, _ in await place.events("acme")] == ["tool.registered"]


async def test_removal_keeps_the_version_counter_and_is_logged(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    await gateway.tools.put(merchant, "acme", "place_order", body())
    await gateway.tools.remove(merchant, "acme", "place_order")
    assert gateway.registry.tool("acme", "place_order") is None
    with pytest.raises(NotFound):
        await gateway.tools.remove(merchant, "acme", "place_order")
    tool, _ = await gateway.tools.put(merchant, "acme", "place_order", body())
    assert tool.version == 3
    assert [type_ for type_, _ in await place.events("acme")] == ["tool.registered", "tool.removed", "tool.registered"]


async def test_p3_6_a_tool_that_turns_read_only_is_still_looked_up(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    """3.6: a tool that was ever side-effecting is looked up for the retention time, counted from when it was last."""
    await gateway.tools.put(merchant, "acme", "order", body(side_effecting=True))
    turned_at = place.clock.wall_ms()
    tool, _ = await gateway.tools.put(merchant, "acme", "order", body(side_effecting=False))
    until = turned_at + 30 * 86_400_000 + LOOKED_UP_SLACK_MS
    assert tool.protected_until_ms == until
    place.clock.seconds += 500
    tool, _ = await gateway.tools.put(merchant, "acme", "order", body(side_effecting=False, timeout_s=1))
    assert tool.protected_until_ms == until


async def test_p3_6_a_tool_removed_and_registered_again_as_read_only_is_still_looked_up(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    """3.6: removing it first does not get around the look-up."""
    await gateway.tools.put(merchant, "acme", "order", body(side_effecting=True))
    await gateway.tools.remove(merchant, "acme", "order")
    tool, _ = await gateway.tools.put(merchant, "acme", "order", body(side_effecting=False))
    assert tool.protected_until_ms == place.clock.wall_ms() + 30 * 86_400_000 + LOOKED_UP_SLACK_MS
    fresh, _ = await gateway.tools.put(merchant, "acme", "get_order", body())
    assert fresh.protected_until_ms is None


async def test_p3_5_a_warning_refuses_where_the_company_says_so(gateway: Any, merchant: Any, body: Any) -> None:
    """3.5: with `refuse`, 422 until the tool is renamed or declared."""
    await gateway.companies.put(merchant, "acme", {"on_finding": "refuse"})
    with pytest.raises(RegistrationRefused) as refused:
        await gateway.tools.put(merchant, "acme", "zorble", body(**GOOD))
    assert [(f["code"], f["rule"]) for f in refused.value.details["findings"]] == [("OG108", "no-known-verb")]
    assert gateway.registry.tool("acme", "zorble") is None
    await gateway.tools.put(merchant, "acme", "zorble", body(**GOOD, side_effecting=True))
    await gateway.tools.put(merchant, "acme", "add_zorble", body(**GOOD))
    _, findings = await gateway.tools.put(merchant, "acme", "add_numbers", body(**GOOD, side_effecting=False))
    assert [(f.code, f.severity) for f in findings] == [("OG109", "note")]


async def test_every_wrong_field_is_named_at_once(gateway: Any, merchant: Any) -> None:
    """Bad input: a 400 that names the fields, and no version is written."""
    wrong = {
        "enpoint": "x",
        "timeout_s": 61,
        "side_effecting": "no",
        "hints": {"readonlyHint": True},
        "on_repeat": "twice",
    }
    with pytest.raises(Malformed) as refused:
        await gateway.tools.put(merchant, "acme", "place_order", wrong)
    assert {p["field"] for p in refused.value.details["fields"]} == {
        "/endpoint",
        "/enpoint",
        "/timeout_s",
        "/side_effecting",
        "/hints/readonlyHint",
        "/on_repeat",
    }
    assert "did you mean endpoint?" in str(refused.value.details)
    assert gateway.registry.stored_tools() == []


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("", {}, "tool"),
        ("x" * 129, {}, "tool"),
        ("place\norder", {}, "tool"),
        (" place_order", {}, "tool"),
        ("place_order", {"endpoint": "http://shop.example/"}, "/endpoint"),
        ("place_order", {"endpoint": "https://10.0.0.1/"}, "/endpoint"),
        ("place_order", {"endpoint": "https://inside.example/"}, "/endpoint"),
        ("place_order", {"endpoint": "https://nowhere.example/"}, "/endpoint"),
        ("place_order", {"status_endpoint": "https://169.254.169.254/"}, "/status_endpoint"),
        ("place_order", {"parameters": {"type": "string"}}, "/parameters/type"),
        ("place_order", {"parameters": {"properties": {"a": {"type": "int"}}}}, "/parameters/properties/a/type"),
        ("place_order", {"parameters": {"$ref": "http://127.0.0.1/s"}}, "/parameters/$ref"),
    ],
)
async def test_what_cannot_be_registered_is_refused_by_field(
    place: Any, gateway: Any, merchant: Any, body: Any, name: str, changes: dict[str, Any], field: str
) -> None:
    """9.2 and 3.5: names, endpoints and schemas are judged before anything is stored."""
    place.names["inside.example"] = "192.168.0.7"
    with pytest.raises(RegistrationRefused) as refused:
        await gateway.tools.put(merchant, "acme", name, body(**changes))
    assert [p["field"] for p in refused.value.details["fields"]] == [field]
    assert gateway.registry.stored_tools() == []


async def test_k5_06_names_that_look_alike_are_kept_apart(
    gateway: Any, operator: Any, merchant: Any, body: Any
) -> None:
    """K5-06: `catalog.query` and `catalog_query` have verdicts, versions and overrides of their own."""
    await gateway.companies.put(merchant, "acme", {"overrides": {"catalog_query": True}})
    read, _ = await gateway.tools.put(merchant, "acme", "catalog.query", body(side_effecting=False))
    write, findings = await gateway.tools.put(merchant, "acme", "catalog_query", body(**GOOD))
    assert (read.verdict.side_effecting, write.verdict.side_effecting) == (False, True)
    assert [f.code for f in findings] == ["OG202"]
    for name in ("A-b", "a_b"):
        await gateway.tools.put(merchant, "acme", name, body(side_effecting=name == "a_b"))
    assert [tool.name for tool in gateway.registry.tools("acme")] == ["A-b", "a_b", "catalog.query", "catalog_query"]
    assert gateway.registry.tool("acme", "catalog-query") is None
    again, _ = await gateway.tools.put(merchant, "acme", "catalog.query", body(timeout_s=1, side_effecting=False))
    assert (again.version, gateway.registry.tool("acme", "catalog_query").version) == (2, 1)
    listed = tool_list(gateway.registry.tools("acme"), ToolFormat.OPENAI)
    assert [each["function"]["name"] for each in listed] == ["A-b", "a_b", "catalog.query", "catalog_query"]


async def test_k5_06_company_and_tool_names_never_run_together(gateway: Any, operator: Any, body: Any) -> None:
    """K5-06: separators inside names make no two tools one document."""
    pairs = [("a:b", "c"), ("a", "b:c"), ('a","b', "c"), ("a", 'b","c')]
    for company, tool in pairs:
        await gateway.tools.put(operator, company, tool, body(description=f"{company}|{tool}"))
    for company, tool in pairs:
        assert gateway.registry.tool(company, tool).description == f"{company}|{tool}"


async def test_k6_10_no_url_credential_is_registered_or_listed(
    gateway: Any, merchant: Any, runtime: Any, body: Any
) -> None:
    """K6-10: user names in an endpoint are refused, and a query, which may hold a key, is hidden in listings."""
    with pytest.raises(RegistrationRefused) as refused:
        await gateway.tools.put(
            merchant, "acme", "place_order", body(endpoint="https://u:pw@shop.example/x?key=SECRET1")
        )
    assert "SECRET1" not in str(refused.value.details) + str(refused.value)
    assert "pw@" not in str(refused.value.details) + str(refused.value)
    urls = {"endpoint": "https://shop.example/x?key=SECRET1", "status_endpoint": "https://shop.example/s?key=SECRET2"}
    tool, findings = await gateway.tools.put(merchant, "acme", "place_order", body(**urls))
    assert tool.endpoint == urls["endpoint"]
    shown = [tool_body(tool, findings), *(tool_list([tool], each) for each in ToolFormat)]
    assert "SECRET" not in str(shown)
    assert "https://shop.example/x?(hidden)" in str(shown)


async def test_k6_10_no_secret_is_in_the_event_log(place: Any, gateway: Any, merchant: Any, body: Any) -> None:
    """K6-10, 9.3: events of registration hold no URL and no signing secret."""
    secret = await gateway.companies.add_secret(merchant, "acme")
    await gateway.tools.put(merchant, "acme", "place_order", body(endpoint="https://shop.example/x?key=SECRET1"))
    events = str(await place.events("acme"))
    assert "SECRET1" not in events
    assert secret.value not in events


async def test_k6_12_a_foreign_company_is_refused_whatever_the_body_says(
    gateway: Any, merchant: Any, body: Any
) -> None:
    """K6-12, 9.1: 403 in the same words whether the other company exists or not; nothing is learnt, nothing stored."""
    said = set()
    for company in ("acme", "bravo"):
        foreign = type(merchant)("x", merchant.role, frozenset({"zulu"}), "k")
        if company == "acme":
            await gateway.tools.put(merchant, "acme", "place_order", body())
        for attempt in (
            gateway.tools.put(foreign, company, "place_order", {"company": "zulu"}),
            gateway.tools.remove(foreign, company, "place_order"),
            gateway.tools.get(foreign, company, "place_order"),
            gateway.tools.tools(foreign, company),
            gateway.companies.put(foreign, company, {}),
            gateway.companies.add_secret(foreign, company),
            gateway.companies.retire_secret(foreign, company, "ws_1"),
        ):
            with pytest.raises(Forbidden) as refused:
                await attempt
            said.add(str(refused.value))
    assert said == {"This key is not for that company."}
    assert [tool.company for tool in gateway.registry.stored_tools()] == ["acme"]


async def test_p9_1_a_runtime_key_may_list_tools_but_not_change_them(
    gateway: Any, merchant: Any, runtime: Any, body: Any
) -> None:
    """9.1: the key decides."""
    await gateway.tools.put(merchant, "acme", "place_order", body())
    assert [tool.name for tool in await gateway.tools.tools(runtime, "acme")] == ["place_order"]
    for attempt in (
        gateway.tools.put(runtime, "acme", "place_order", body()),
        gateway.tools.remove(runtime, "acme", "place_order"),
        gateway.companies.put(runtime, "acme", {}),
        gateway.companies.add_secret(runtime, "acme"),
    ):
        with pytest.raises(Forbidden):
            await attempt


async def test_two_processes_registering_at_once_both_get_a_version(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    """Compare and set: the slower one sees the faster one's version and takes the next."""
    other = place.gateway()
    await other.registry.refresh()
    first, _ = await gateway.tools.put(merchant, "acme", "place_order", body(timeout_s=1))
    second, _ = await other.tools.put(merchant, "acme", "place_order", body(timeout_s=2))
    assert (first.version, second.version) == (1, 2)


async def test_what_a_newer_gateway_wrote_is_neither_guessed_at_nor_overwritten(
    place: Any, gateway: Any, merchant: Any, body: Any
) -> None:
    await place.stored.change('["tool","acme","place_order"]', b'{"format":99}', None)
    await gateway.registry.reload()
    assert gateway.registry.tool("acme", "place_order") is None
    with pytest.raises(Exception, match="newer gateway"):
        await gateway.tools.put(merchant, "acme", "place_order", body())
    assert (await place.stored.load())['["tool","acme","place_order"]'] == b'{"format":99}'
