"""`/v1/effects` and `/v1/approvals` on the wire: bodies, keys, problems (7.2, 7.3, 7.4, 7.5, 9.1, 9.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

RULES = {"id": "r", "priority": 1, "when": {"kind": "llm_call"}, "then": {"decision": "require_approval"}}
RESULT = '{"text":"hi","n":12345678901234567890.10}'


def body(**fields: Any) -> dict[str, Any]:
    usual = {
        "company": "acme",
        "conversation": "c-1",
        "turn": "t-1",
        "attempt": 1,
        "kind": "llm_call",
        "target": "a-model",
        "args": {"messages": []},
        "claim_token": "mine",
    }
    return {name: value for name, value in {**usual, **fields}.items() if value is not ...}


def said(**fields: Any) -> dict[str, Any]:
    usual = {"company": "acme", "conversation": "c-1", "claim_token": "mine"}
    return {name: value for name, value in {**usual, **fields}.items() if value is not ...}


async def submit(gateway: Any, key: str = "k-runtime", headers: Any = (), **fields: Any) -> Any:
    return await gateway.post("/v1/effects", body(**fields), key=key, headers=headers)


async def set_policy(gateway: Any, *rules: Any, company: str = "acme", default: str = "allow", **more: Any) -> Any:
    settings = {"policy": {"default_action": default, "rules": list(rules)}, **more}
    answer = await gateway.put(f"/v1/companies/{company}", settings, key="k-operator")
    assert answer.status == 200, answer
    return answer.json()


async def held(gateway: Any, *approvers: str, **fields: Any) -> str:
    """The approval that a model call waits for."""
    then = {**RULES["then"], **({"approvers": list(approvers)} if approvers else {})}
    await set_policy(gateway, {**RULES, "then": then})
    answer = await submit(gateway, **fields)
    assert (answer.status, answer.json()["decision"]) == (200, "blocked"), answer
    return str(answer.json()["approval"]["id"])


async def decide(gateway: Any, name: str, act: str = "grant", key: str = "k-operator", document: Any = None) -> Any:
    return await gateway.post(f"/v1/approvals/{name}/{act}", {} if document is None else document, key=key)


async def test_p7_2_submit_complete_and_replay_on_the_wire(gateway: Any) -> None:
    """7.2, 2.10: digit for digit."""
    first = (await submit(gateway)).json()
    assert (first["decision"], first["status"], first["lease_s"]) == ("proceed", "executing", 60.0)
    text = json.dumps(said())[:-1] + f', "result": {RESULT}}}'
    for _ in range(2):
        done = await gateway.post(f"/v1/effects/{first['effect_id']}/complete", body=text.encode())
        assert (done.status, done.json()["status"]) == (200, "succeeded")
        assert RESULT.encode() in done.body
    replay = await submit(gateway)
    assert replay.json()["decision"] == "replay"
    assert RESULT.encode() in replay.body


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        *(({name: ...}, [f"/{name}"]) for name in body()),
        ({"kind": "tool"}, ["/kind"]),
        ({"kind": ["llm_call"]}, ["/kind"]),
        ({"args": []}, ["/args"]),
        ({"args": "{"}, ["/args"]),
        ({"args": 1}, ["/args"]),
        ({"attempt": 0}, ["/attempt"]),
        ({"attempt": 1.5}, ["/attempt"]),
        ({"attempt": True}, ["/attempt"]),
        ({"attempt": "1"}, ["/attempt"]),
        ({"attempt": None}, ["/attempt"]),
        ({"turn": ""}, ["/turn"]),
        ({"turn": None}, ["/turn"]),
        ({"claim_token": ""}, ["/claim_token"]),
        ({"claim_token": "x" * 1_025}, ["/claim_token"]),
        ({"claim_token": 7}, ["/claim_token"]),
        ({"step": 0}, ["/step"]),
        ({"idempotency": "maybe"}, ["/idempotency"]),
        ({"call_id_scope": "step"}, ["/step"]),
        ({"call_id_scope": "ever"}, ["/call_id_scope"]),
        ({"tool_call_id": 7}, ["/tool_call_id"]),
        ({"tokens": 1}, ["/tokens"]),
        ({"by": "operator"}, ["/by"]),
        ({"company": 1, "turn": 2, "kind": 3}, ["/company", "/kind", "/turn"]),
    ],
)
async def test_p9_4_a_malformed_submission_names_every_field_and_records_nothing(
    gateway: Any, fields: dict[str, Any], named: list[str]
) -> None:
    """7.2, 9.4"""
    answer = await submit(gateway, **fields)
    assert answer.status == 400, answer
    assert answer.problem["code"] == "malformed"
    assert sorted(answer.fields) == named
    assert (await submit(gateway)).json()["decision"] == "proceed"


BYTES = [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"company":"acme","company":"acme"}', b"[" * 100_000]
PATHS = [
    "/v1/effects",
    *(f"/v1/effects/{'ab' * 32}/{act}" for act in ("complete", "fail", "renew", "release")),
    *(f"/v1/approvals/apr_{'0' * 68}/{act}" for act in ("grant", "deny")),
]


@pytest.mark.parametrize("raw", BYTES, ids=lambda raw: repr(raw[:12]))
@pytest.mark.parametrize("path", PATHS)
async def test_p9_4_bad_bytes_are_a_4xx(gateway: Any, path: str, raw: bytes) -> None:
    """9.4: never a 500. An empty body is a decision without words, of an approval that is not there."""
    answer = await gateway.post(path, body=raw, key="k-operator")
    expected = {404, 400} if "/approvals/" in path and raw == b"" else {400, 413}
    assert answer.status in expected, answer


@pytest.mark.parametrize("act", ["complete", "fail", "renew", "release"])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"claim_token": ...}, "/claim_token"),
        ({"company": ...}, "/company"),
        ({"conversation": None}, "/conversation"),
        ({"claim_token": ["mine"]}, "/claim_token"),
        ({"more": 1}, "/more"),
    ],
)
async def test_p9_4_a_malformed_report_names_its_field(gateway: Any, act: str, fields: Any, named: str) -> None:
    """7.2, 9.4"""
    effect = (await submit(gateway)).json()["effect_id"]
    own = {"complete": {"result": 1}, "fail": {"error": {"code": "x", "message": "y"}}}.get(act, {})
    answer = await gateway.post(f"/v1/effects/{effect}/{act}", said(**own, **fields))
    assert (answer.status, answer.fields) == (400, [named])


@pytest.mark.parametrize(
    ("act", "fields"),
    [
        ("complete", {}),
        ("fail", {}),
        ("fail", {"error": {"code": "x"}}),
        ("fail", {"error": {"code": "X y", "message": "m"}}),
        ("fail", {"error": {"code": "x", "message": ""}}),
        ("fail", {"error": {"code": "x", "message": "m" * 2_001}}),
        ("fail", {"error": {"code": "x", "message": "m", "more": 1}}),
        ("fail", {"error": "x"}),
        ("renew", {"result": 1}),
        ("release", {"error": {"code": "x", "message": "m"}}),
        ("complete", {"result": 1, "error": {"code": "x", "message": "m"}}),
    ],
)
async def test_p9_4_a_report_holds_what_is_its_own_and_nothing_else(gateway: Any, act: str, fields: Any) -> None:
    """7.2: nothing changes."""
    effect = (await submit(gateway)).json()["effect_id"]
    assert (await gateway.post(f"/v1/effects/{effect}/{act}", said(**fields))).status == 400
    assert (await submit(gateway)).json()["decision"] == "proceed"


@pytest.mark.parametrize("id_", ["ab" * 32, "AB" * 32, "ab", "z" * 64, "ab" * 33, "%20" + "a" * 63, "%00", "caf%C3%A9"])
@pytest.mark.parametrize("act", ["complete", "fail", "renew", "release"])
async def test_p9_1_an_effect_that_is_not_there_is_a_404(gateway: Any, act: str, id_: str) -> None:
    """9.1"""
    own = {"complete": {"result": 1}, "fail": {"error": {"code": "x", "message": "y"}}}.get(act, {})
    answer = await gateway.post(f"/v1/effects/{id_}/{act}", said(**own))
    assert (answer.status, answer.problem["code"]) == (404, "not_found")


@pytest.mark.parametrize(("key", "status"), [("k-other", 403), ("k-merchant", 403), (None, 401), ("nobody", 401)])
async def test_p9_1_a_key_that_may_not_call_submits_and_reports_nothing(gateway: Any, key: Any, status: int) -> None:
    """9.1: whatever company the body names; another company's key in its own finds no such effect."""
    effect = (await submit(gateway)).json()["effect_id"]
    assert (await submit(gateway, key=key)).status == status
    for act in ("complete", "renew", "release"):
        own = {"result": 1} if act == "complete" else {}
        answer = await gateway.post(f"/v1/effects/{effect}/{act}", said(**own), key=key)
        assert answer.status == status
        if key == "k-other":
            answer = await gateway.post(f"/v1/effects/{effect}/{act}", said(company="globex", **own), key=key)
            assert answer.status == 404
    assert (await submit(gateway)).json()["decision"] == "proceed"


async def test_p7_2_conflicts_say_what_stands(gateway: Any) -> None:
    """7.2, 4.4: 409, each with a code of its own."""
    effect = (await submit(gateway)).json()["effect_id"]
    lost = await gateway.post(f"/v1/effects/{effect}/renew", said(claim_token="theirs"))
    assert (lost.status, lost.problem["code"], lost.problem["stands"]["status"]) == (409, "claim_lost", "executing")
    assert (await gateway.post(f"/v1/effects/{effect}/complete", said(result=1))).status == 200
    other = await gateway.post(f"/v1/effects/{effect}/complete", said(result=2))
    assert (other.status, other.problem["code"]) == (409, "outcome_conflict")
    assert other.problem["stands"]["status"] == "succeeded"
    reused = await submit(gateway, args={"messages": [1]})
    assert (reused.status, reused.problem["code"], reused.fields) == (422, "tool_call_id_reused", ["/args/messages"])


# --- approvals -----------------------------------------------------------------------------------------------


async def test_p7_4_list_show_grant_use(gateway: Any) -> None:
    """7.4, 7.2"""
    name = await held(gateway)
    listed = await gateway.get("/v1/approvals?company=acme", key="k-operator")
    (shown,) = listed.json()["approvals"]
    assert (shown["id"], shown["status"], shown["approvers"]) == (name, "pending", ["operator"])
    assert (shown["kind"], shown["tool"], shown["arguments"]) == ("llm_call", "a-model", {"messages": []})
    assert listed.json()["cursor"] is None
    granted = await decide(gateway, name, document={"rationale": "fine"})
    assert (granted.status, granted.json()["decision"], granted.json()["by"]) == (200, "granted", "ops")
    assert (await gateway.get("/v1/approvals?company=acme", key="k-operator")).json()["approvals"] == []
    shown = (await gateway.get(f"/v1/approvals/{name}", key="k-operator")).json()
    assert (shown["status"], shown["by"]) == ("granted", "ops")
    assert (await submit(gateway)).json()["decision"] == "proceed"
    late = await decide(gateway, name, "deny")
    assert (late.status, late.problem["code"]) == (409, "approval_decided")
    assert late.problem["stands"] == {"status": "executing", "by": "ops"}


async def test_p7_4_denied_is_replayed(gateway: Any) -> None:
    """7.4"""
    name = await held(gateway)
    assert (await decide(gateway, name, "deny")).json()["status"] == "denied"
    answer = (await submit(gateway)).json()
    assert (answer["decision"], answer["status"], answer["error"]["code"]) == ("replay", "denied", "approval_denied")
    late = await decide(gateway, name)
    assert (late.status, late.problem["stands"]) == (409, {"status": "denied", "by": "ops"})


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({"by": "operator"}, "/by"),
        ({"principal": "ops"}, "/principal"),
        ({"role": "operator"}, "/role"),
        ({"rationale": ""}, "/rationale"),
        ({"rationale": 1}, "/rationale"),
        ({"rationale": "x" * 2_001}, "/rationale"),
        ({"customer_message": {}}, "/customer_message"),
        ({"approvers": ["assistant"]}, "/approvers"),
    ],
)
@pytest.mark.parametrize("act", ["grant", "deny"])
async def test_p7_4_a_name_in_the_body_proves_nothing(gateway: Any, document: Any, named: str, act: str) -> None:
    """7.4, 9.1: it is refused, and nothing changes."""
    name = await held(gateway)
    answer = await decide(gateway, name, act, document=document)
    assert (answer.status, answer.fields) == (400, [named])
    assert (await submit(gateway)).json()["decision"] == "blocked"


@pytest.mark.parametrize("act", ["grant", "deny"])
@pytest.mark.parametrize(
    ("key", "approvers", "document", "status"),
    [
        ("k-runtime", ("operator",), {"customer_message": "yes"}, 403),
        ("k-merchant", ("operator",), {}, 403),
        ("k-operator", ("shop",), {}, 403),
        ("k-merchant", ("shop",), {}, 200),
        ("k-merchant", ("merchant",), {}, 200),
        ("k-other", ("customer",), {"customer_message": "yes"}, 404),
        (None, ("customer",), {}, 401),
        ("k-runtime", ("customer",), {}, 400),
        ("k-runtime", ("customer",), {"customer_message": None}, 400),
        ("k-runtime", ("customer",), {"customer_message": "yes"}, 200),
    ],
)
async def test_p7_4_the_key_decides_who_may(
    gateway: Any, act: str, key: Any, approvers: Any, document: Any, status: int
) -> None:
    """7.4: role, name, company; a runtime speaks for a customer only with the customer's words."""
    name = await held(gateway, *approvers)
    answer = await decide(gateway, name, act, key, document)
    assert answer.status == status, answer
    if status == 400:
        assert answer.fields == ["/customer_message"]
    if status != 200:
        assert (await submit(gateway)).json()["decision"] == "blocked"


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "apr_",
        "apr_" + "0" * 68,
        "apr_" + "0" * 67,
        "apr_" + "G" * 68,
        "APR_" + "0" * 68,
        "apr_%20",
        "%00",
        "caf%C3%A9",
    ],
)
@pytest.mark.parametrize("how", ["get", "grant", "deny"])
async def test_p9_1_an_approval_that_is_not_there_is_a_404(gateway: Any, name: str, how: str) -> None:
    """9.1"""
    if how == "get":
        answer = await gateway.get(f"/v1/approvals/{name}", key="k-operator")
    else:
        answer = await decide(gateway, name, how)
    assert (answer.status, answer.problem["code"]) == (404, "not_found")


async def test_p9_1_one_company_never_sees_anothers_approvals(gateway: Any) -> None:
    """9.1"""
    name = await held(gateway)
    assert (await gateway.get("/v1/approvals?company=acme", key="k-other")).status == 403
    assert (await gateway.get(f"/v1/approvals/{name}", key="k-other")).status == 404
    assert (await gateway.get("/v1/approvals?company=globex", key="k-other")).json()["approvals"] == []


@pytest.mark.parametrize("query", ["", "?company=", "?company=acme&status=granted", "?company=acme&cursor=x", "?company=acme&limit=0", "?company=acme&limit=501", "?company=acme&conversation=c-1", "?company=acme&company=globex"])  # fmt: skip
async def test_p9_4_a_malformed_listing_is_a_400(gateway: Any, query: str) -> None:
    """9.4"""
    assert (await gateway.get(f"/v1/approvals{query}", key="k-operator")).status == 400


async def test_p9_4_listings_are_paged(gateway: Any) -> None:
    """9.4: each once; only a cursor of null is the end."""
    await held(gateway, conversation="c-0")
    for number in range(1, 5):
        await submit(gateway, conversation=f"c-{number}")
    found, cursor = [], ""
    while True:
        page = (await gateway.get(f"/v1/approvals?company=acme&limit=2{cursor}", key="k-operator")).json()
        found += [each["conversation"] for each in page["approvals"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert sorted(found) == [f"c-{number}" for number in range(5)]


# --- policy over the API (7.3) -------------------------------------------------------------------------------


async def test_p7_3_a_companys_policy_is_set_over_the_api_with_exact_numbers(gateway: Any) -> None:
    """7.3: what is shown is what was sent, digit for digit, with its version; left out, it is gone."""
    total = "5000.000000000000000000000000000000001"
    text = (
        '{"policy": {"default_action": "allow", "rules": [{"id": "large", "priority": 1, '
        f'"when": {{"target": "a-model", "arguments": {{"/total": {{"gt": {total}}}}}}}, '
        '"then": {"decision": "deny"}}]}}'
    )
    answer = await gateway.put("/v1/companies/acme", body=text.encode(), key="k-operator")
    assert answer.status == 200, answer
    assert total.encode() in answer.body
    version = answer.json()["policy_version"]
    assert len(version) == 16
    shown = await gateway.get("/v1/companies/acme", key="k-operator")
    assert (shown.body, shown.json()["policy_version"]) == (answer.body, version)
    for number, (asked, decision) in enumerate(((total, "proceed"), (total[:-1] + "2", "denied"))):
        raw = json.dumps(body(claim_token=f"t{number}", args=...))[:-1] + f', "args": {{"total": {asked}}}}}'
        assert (await gateway.post("/v1/effects", body=raw.encode())).json()["decision"] == decision
    none = (await gateway.put("/v1/companies/acme", {}, key="k-operator")).json()
    assert (none["policy"], none["policy_version"]) == (None, None)


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({}, "/policy/default_action"),
        ([], "/policy"),
        ({"default_action": "alow"}, "/policy/default_action"),
        ({"default_action": "allow", "rules": [{**RULES, "priority": -1}]}, "/policy/rules/0/priority"),
        (
            {"default_action": "allow", "rules": [{**RULES, "then": {"decision": "require_approval", "approvers": ["runtime"]}}]},
            "/policy/rules/0/then/approvers/0",
        ),
        ({"default_action": "allow", "rules": [{**RULES, "when": {"company": "globex"}}]}, "/policy/rules/0/when/company"),
    ],
)  # fmt: skip
async def test_p7_3_a_policy_that_is_not_fit_for_use_changes_nothing(gateway: Any, policy: Any, named: str) -> None:
    """7.3: every problem with its place."""
    before = await set_policy(gateway, RULES)
    answer = await gateway.put("/v1/companies/acme", {"policy": policy}, key="k-operator")
    assert (answer.status, answer.fields) == (400, [named])
    after = (await gateway.get("/v1/companies/acme", key="k-operator")).json()
    assert after["policy_version"] == before["policy_version"]


async def test_p9_1_only_who_may_change_a_company_sets_its_policy(gateway: Any) -> None:
    """9.1: the assistant's own key does not lift what holds it back."""
    before = await set_policy(gateway, RULES)
    for key, status in (("k-runtime", 403), ("k-other", 403), (None, 401)):
        settings = {"policy": {"default_action": "allow"}}
        assert (await gateway.put("/v1/companies/acme", settings, key=key)).status == status
    after = (await gateway.get("/v1/companies/acme", key="k-operator")).json()
    assert after["policy_version"] == before["policy_version"]


# --- limits (7.5, 9.5) ---------------------------------------------------------------------------------------

FORWARDED = ["203.0.113.7", "2001:db8::1", ", ".join(["10.0.0.1"] * 50), "'; DROP", "", "\x7f\xff", "unknown, unknown"]


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
async def test_k8_06_no_forwarded_address_evades_a_limit_or_fills_anothers(gateway: Any, header: str) -> None:
    """9.5, 7.5: limits are keyed on the company that the key proves, whatever addresses are claimed."""
    limit = {"max": 3, "window_s": 60, "per": "company"}
    rule = {"id": "r", "priority": 1, "when": {"target": "*"}, "then": {"decision": "allow", "rate_limit": limit}}
    for company in ("acme", "globex"):
        await set_policy(gateway, rule, company=company)
    decisions = []
    for number, address in enumerate(FORWARDED * 3):
        answer = await submit(gateway, claim_token=f"t{number}", headers=[(header, address)])
        assert answer.status == 200, answer
        decisions.append(answer.json()["decision"])
    assert decisions == ["proceed"] * 3 + ["rate_limited"] * (len(decisions) - 3)
    for number, address in enumerate(FORWARDED[:3]):
        answer = await submit(
            gateway, key="k-other", company="globex", claim_token=f"t{number}", headers=[(header, address)]
        )
        assert answer.json()["decision"] == "proceed"
    assert (await submit(gateway, claim_token="t0")).json()["decision"] == "proceed"


async def test_p9_5_limits_and_approvals_grow_no_series(gateway: Any) -> None:
    """9.5"""
    await held(gateway)
    before = set(gateway.series())
    for number in range(30):
        await submit(gateway, conversation=f"c-{number}", claim_token=f"t{number}", target="a-model")
        await decide(gateway, f"apr_{number:068x}")
    grown = set(gateway.series()) - before
    assert not [name for name in grown if any(f"c-{number}" in name or "apr_" in name for number in range(30))]
    assert len(grown) < 40, grown
