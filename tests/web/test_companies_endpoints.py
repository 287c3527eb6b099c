"""Companies, secrets and tools over HTTP, on the registry's own use cases."""

from __future__ import annotations

from typing import Any

import pytest

TOOL = {"endpoint": "https://shop.example/tools"}


async def test_a_company_that_was_never_set_has_the_platforms_settings(gateway: Any) -> None:
    """9.1: so nobody learns which companies exist."""
    answer = await gateway.get("/v1/companies/acme")
    assert answer.json() == {
        "company": "acme",
        "max_steps": 6,
        "call_id_scope": "auto",
        "overrides": {},
        "heuristic": "words",
        "repeat_window_s": 60.0,
        "retention_s": 2_592_000.0,
        "on_finding": "warn",
        "runtime_may_resolve": False,
        "customer_may_approve": False,
        "policy": None,
        "policy_version": None,
    }


async def test_what_a_company_sets_is_answered_and_read_back(gateway: Any) -> None:
    """A PUT replaces the whole; what is left out follows the platform again."""
    put = await gateway.put(
        "/v1/companies/acme",
        {"max_steps": "off", "call_id_scope": "turn", "overrides": {"get_*": True}},
        key="k-merchant",
    )
    assert (put.status, put.json()["max_steps"], put.json()["call_id_scope"]) == (200, "off", "turn")
    assert (await gateway.get("/v1/companies/acme")).json() == put.json()
    tool = await gateway.get("/v1/companies/acme/tools/get_order")
    assert tool.json()["verdict"]["source"] == "company"
    again = await gateway.put("/v1/companies/acme", {}, key="k-merchant")
    assert (again.json()["max_steps"], again.json()["overrides"]) == (6, {})


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"max_steps": 0}, ["/max_steps"]),
        ({"max_steps": True}, ["/max_steps"]),
        ({"max_steps": 2.5}, ["/max_steps"]),
        ({"call_id_scope": "all", "overrides": {"x": 1}}, ["/call_id_scope", "/overrides/x"]),
        ({"policy": {}}, ["/policy/default_action"]),
        ({"policy": {"default_action": "no", "rule": []}}, ["/policy/default_action", "/policy/rule"]),
        ({"repeat_window_s": -1}, ["/repeat_window_s"]),
        ([], [""]),
        ("x", [""]),
    ],
)
async def test_a_malformed_company_is_400_with_every_field_named(gateway: Any, body: Any, named: list[str]) -> None:
    """9.4: and nothing is stored."""
    before = dict(gateway.documents.content)
    answer = await gateway.put("/v1/companies/acme", body, key="k-merchant")
    assert answer.status == 400
    assert sorted(set(answer.fields)) == sorted(named)
    assert gateway.documents.content == before


async def test_a_signing_secret_is_shown_once_and_retired_by_its_id(gateway: Any) -> None:
    """9.3: the list holds ids, never values."""
    made = await gateway.post("/v1/companies/acme/secrets", key="k-merchant")
    assert made.status == 201
    assert made.json()["secret"].startswith("whsec_")
    listed = await gateway.get("/v1/companies/acme/secrets", key="k-merchant")
    assert listed.json() == {"secrets": [{"id": made.json()["id"]}]}
    gone = await gateway.ask("DELETE", f"/v1/companies/acme/secrets/{made.json()['id']}", key="k-merchant")
    assert (gone.status, gone.body) == (204, b"")
    assert "content-type" not in gone.headers
    again = await gateway.ask("DELETE", f"/v1/companies/acme/secrets/{made.json()['id']}", key="k-merchant")
    assert (again.status, again.problem["code"]) == (404, "not_found")


@pytest.mark.parametrize(("body", "status"), [(b"", 201), (b"{}", 201), (b'{"secret":"mine"}', 400), (b"[]", 400)])
async def test_a_secret_is_made_here_and_not_taken(gateway: Any, body: bytes, status: int) -> None:
    """Unknown request fields are refused."""
    answer = await gateway.ask("POST", "/v1/companies/acme/secrets", body=body, key="k-merchant")
    assert answer.status == status


async def test_a_tool_is_registered_with_its_verdict_and_findings(gateway: Any) -> None:
    """3.5: the answer says what the gateway takes it for and what lint found."""
    answer = await gateway.put("/v1/companies/acme/tools/frobnicate", TOOL, key="k-merchant")
    tool = answer.json()
    assert (answer.status, tool["name"], tool["version"]) == (200, "frobnicate", 1)
    assert tool["verdict"]["side_effecting"] is True
    first = tool["findings"][0]
    assert (first["code"], first["rule"], first["severity"]) == ("OG108", "no-known-verb", "warning")
    assert (await gateway.get("/v1/companies/acme/tools/frobnicate")).json() == tool


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, ["/endpoint"]),
        ({"endpoint": 7}, ["/endpoint"]),
        ({**TOOL, "timeout_s": "10"}, ["/timeout_s"]),
        ({**TOOL, "timeout_s": 0, "colour": 1}, ["/colour", "/timeout_s"]),
        ({**TOOL, "parameters": []}, ["/parameters"]),
        ({**TOOL, "hints": {"readOnlyHint": "yes", "x": 1}}, ["/hints/readOnlyHint", "/hints/x"]),
        ({**TOOL, "side_effecting": "no"}, ["/side_effecting"]),
        ({**TOOL, "on_repeat": "again"}, ["/on_repeat"]),
    ],
)
async def test_a_malformed_tool_is_400_with_every_field_named(gateway: Any, body: Any, named: list[str]) -> None:
    """9.4: and nothing is stored."""
    before = dict(gateway.documents.content)
    answer = await gateway.put("/v1/companies/acme/tools/t", body, key="k-merchant")
    assert (answer.status, sorted(set(answer.fields))) == (400, named)
    assert gateway.documents.content == before


async def test_a_tool_that_cannot_be_registered_is_422(gateway: Any) -> None:
    """9.2, 3.5: form is right, content is not: names, schemas and addresses are judged by the use case."""
    answer = await gateway.put("/v1/companies/acme/tools/t", {"endpoint": "http://10.0.0.1/"}, key="k-merchant")
    assert (answer.status, answer.problem["code"], answer.fields) == (422, "registration_refused", ["/endpoint"])


FORMS = {
    "openai": lambda tool: tool["function"]["name"],
    "anthropic": lambda tool: tool["name"],
    "mcp": lambda tool: tool["name"],
    "oncegate": lambda tool: tool["name"],
    "gemini": lambda tool: tool["functionDeclarations"][0]["name"],
}


@pytest.mark.parametrize("form", FORMS)
async def test_tools_come_in_the_form_that_was_asked_for(gateway: Any, form: str) -> None:
    """api.md: ready to hand to a model; the form left out is oncegate's own."""
    answer = await gateway.get(f"/v1/companies/acme/tools?format={form}")
    assert answer.status == 200
    assert FORMS[form](answer.json()["tools"][0]) == "get_order"
    if form == "oncegate":
        assert (await gateway.get("/v1/companies/acme/tools")).json() == answer.json()


async def test_a_form_nobody_knows_is_400(gateway: Any) -> None:
    """Named, with what there is."""
    answer = await gateway.get("/v1/companies/acme/tools?format=xml")
    assert (answer.status, answer.fields) == (400, ["format"])
    assert "openai" in answer.problem["message"]


async def test_a_removed_tool_is_gone_and_its_calls_are_not(gateway: Any) -> None:
    """DELETE answers 204, then 404; what was recorded stays to be looked up."""
    await gateway.call()
    assert (await gateway.ask("DELETE", "/v1/companies/acme/tools/place_order", key="k-merchant")).status == 204
    assert (await gateway.get("/v1/companies/acme/tools/place_order")).status == 404
    looked = await gateway.get("/v1/calls?company=acme&conversation=c-1&tool_call_id=a")
    assert len(looked.json()["calls"]) == 1


async def test_events_come_in_order_a_page_at_a_time(gateway: Any) -> None:
    """7.6: `after` goes on from a seq, `limit` bounds; without a conversation, the company's own."""
    for id_ in "abc":
        await gateway.call(tool_call_id=id_)
    first = (await gateway.get("/v1/events?company=acme&conversation=c-1&limit=4")).json()["events"]
    rest = (await gateway.get("/v1/events?company=acme&conversation=c-1&after=4")).json()["events"]
    assert [event["seq"] for event in first + rest] == [1, 2, 3, 4, 5, 6]
    assert [event["type"] for event in first[:2]] == ["effect.executing", "effect.succeeded"]
    company = (await gateway.get("/v1/events?company=acme")).json()["events"]
    assert {event["type"] for event in company} == {"tool.registered"}


async def test_unknown_outcomes_are_listed_page_by_page(gateway: Any) -> None:
    """api.md: `status=indeterminate`, paged by `cursor` until it is null."""
    gateway.merchant.faults["place_order"] = RuntimeError("lost")
    for number in range(5):
        await gateway.call(tool_call_id=f"{number}")
    found, cursor = [], "0:0"
    while cursor is not None:
        page = (await gateway.get(f"/v1/calls?company=acme&status=indeterminate&limit=2&cursor={cursor}")).json()
        assert len(page["calls"]) <= 2
        found += [record["tool_call_id"] for record in page["calls"]]
        cursor = page["cursor"]
    assert found == ["0", "1", "2", "3", "4"]
