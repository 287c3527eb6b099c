"""Who asks: keys, roles, companies, and what junk in their place gets."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

JUNK = {
    "no header": [],
    "not ASCII": [(b"authorization", b"Bearer caf\xe9")],
    "undecodable": [(b"authorization", b"\xff\xfe\x00")],
    "empty": [(b"authorization", b"")],
    "scheme only": [(b"authorization", b"Bearer")],
    "scheme and a blank": [(b"authorization", b"Bearer ")],
    "another scheme": [(b"authorization", b"Basic ay1ydW50aW1lOg==")],
    "no scheme": [(b"authorization", b"k-runtime")],
    "unknown key": [(b"authorization", b"Bearer k-nobody")],
    "two words": [(b"authorization", b"Bearer k-runtime k-runtime")],
    "a NUL": [(b"authorization", b"Bearer k-runtime\x00")],
    "two headers": [(b"authorization", b"Bearer k-runtime"), (b"authorization", b"Bearer k-runtime")],
    "three headers": [(b"authorization", b"Bearer k-runtime")] * 3,
    "one megabyte": [(b"authorization", b"Bearer " + b"a" * 1_000_000)],
}


@pytest.mark.parametrize("headers", JUNK.values(), ids=JUNK.keys())
async def test_k6_07_any_junk_for_a_key_is_401_with_one_short_log_line(gateway: Any, headers: Any, caplog: Any) -> None:
    """K6-07: 401 each time, one short line, no trace, nothing of the header repeated."""
    with caplog.at_level("DEBUG", logger="gateway"):
        answer = await gateway.call(key=None, headers=headers)
    assert answer.status == 401
    assert answer.problem["code"] == "unauthenticated"
    assert answer.headers["www-authenticate"] == "Bearer"
    (line,) = caplog.records
    assert line.exc_info is None
    assert len(line.getMessage()) < 120
    assert gateway.calls.asked == []


async def test_k6_07_a_megabyte_for_a_key_is_not_copied(gateway: Any) -> None:
    """K6-07: bounded work, whatever the length: nothing near the header's size is allocated."""
    scope = gateway.scope("POST", "/v1/calls", None, [(b"authorization", b"Bearer " + b"a" * 1_000_000)])
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("an anonymous caller's body is not read")

    tracemalloc.start()
    await gateway.app(scope, receive, send)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent[0]["status"] == 401
    assert peak < 200_000


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_read_in_any_case(gateway: Any, scheme: str) -> None:
    """RFC 9110, 11.1: an authentication scheme is case-insensitive."""
    answer = await gateway.call(key=None, headers=[("authorization", f"{scheme}  k-runtime ")])
    assert answer.status == 200


PROTECTED = [
    ("POST", "/v1/calls"),
    ("POST", "/v1/calls/batch"),
    ("GET", "/v1/calls?company=acme&status=indeterminate"),
    ("GET", "/v1/events?company=acme"),
    ("GET", "/v1/events/feed?company=acme"),
    ("GET", "/v1/events/seal?company=acme"),
    ("GET", "/v1/events/stream?company=acme"),
    ("POST", "/v1/effects/" + "ab" * 32 + "/resolve"),
    ("POST", "/v1/effects"),
    ("POST", "/v1/effects/" + "ab" * 32 + "/complete"),
    ("POST", "/v1/effects/" + "ab" * 32 + "/fail"),
    ("POST", "/v1/effects/" + "ab" * 32 + "/renew"),
    ("POST", "/v1/effects/" + "ab" * 32 + "/release"),
    ("GET", "/v1/approvals?company=acme"),
    ("GET", "/v1/approvals/apr_ab"),
    ("POST", "/v1/approvals/apr_ab/grant"),
    ("POST", "/v1/approvals/apr_ab/deny"),
    ("GET", "/v1/companies/acme"),
    ("PUT", "/v1/companies/acme"),
    ("GET", "/v1/companies/acme/secrets"),
    ("POST", "/v1/companies/acme/secrets"),
    ("DELETE", "/v1/companies/acme/secrets/ws_1"),
    ("GET", "/v1/companies/acme/tools"),
    ("GET", "/v1/companies/acme/tools/place_order"),
    ("PUT", "/v1/companies/acme/tools/place_order"),
    ("DELETE", "/v1/companies/acme/tools/place_order"),
]


@pytest.mark.parametrize(("method", "path"), PROTECTED)
async def test_everything_about_companies_wants_a_key_before_it_reads_a_body(
    gateway: Any, method: str, path: str
) -> None:
    """9.1: an anonymous caller gets 401 and has nothing of its body read."""

    async def receive() -> Any:
        raise AssertionError("the body was read")

    assert (await gateway.ask(method, path, key=None, receive=receive)).status == 401


def test_the_list_of_protected_paths_is_whole(gateway: Any) -> None:
    """An operation added without a key stands out here."""
    table = {(o.method, len(o.path.split("/"))) for o in gateway.app.operations if not o.open}
    assert {(method, len(path.split("?")[0].split("/"))) for method, path in PROTECTED} == table
    assert len(PROTECTED) == sum(not o.open for o in gateway.app.operations)
    assert {o.path for o in gateway.app.operations if o.open} == {
        "/livez",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/problems/{code}",
    }


FOREIGN = [
    (
        "POST",
        "/v1/calls",
        {"company": "globex", "conversation": "c", "tool": "t", "arguments": {}, "tool_call_id": "a"},
    ),
    ("GET", "/v1/calls?company=globex&conversation=c&tool_call_id=a", None),
    ("GET", "/v1/calls?company=globex&status=indeterminate", None),
    ("GET", "/v1/events?company=globex&conversation=c", None),
    ("GET", "/v1/companies/globex", None),
    ("PUT", "/v1/companies/globex", {"company": "acme"}),
    ("PUT", "/v1/companies/globex", {"max_steps": 3}),
    ("POST", "/v1/companies/globex/secrets", None),
    ("GET", "/v1/companies/globex/secrets", None),
    ("DELETE", "/v1/companies/globex/secrets/ws_1", None),
    ("GET", "/v1/companies/globex/tools", None),
    ("GET", "/v1/companies/globex/tools/x", None),
    ("PUT", "/v1/companies/globex/tools/x", {"company": "acme", "endpoint": 7}),
    ("DELETE", "/v1/companies/globex/tools/x", None),
]


@pytest.mark.parametrize("key", ["k-merchant", "k-runtime"])
@pytest.mark.parametrize(("method", "path", "document"), FOREIGN)
async def test_k6_12_a_foreign_company_is_403_whatever_the_body_says(
    gateway: Any, method: str, path: str, document: Any, key: str
) -> None:
    """K6-12: the key decides; and a company that exists is refused in the words of one that does not."""
    known = await gateway.ask(method, path, document, key=key)
    absent = await gateway.ask(
        method,
        path.replace("globex", "nowhere"),
        None if document is None else {**document, "company": "nowhere"} if path == "/v1/calls" else document,
        key=key,
    )
    assert (known.status, absent.status) == (403, 403)
    assert known.problem["message"] == absent.problem["message"]
    assert gateway.merchant.hits == []


async def test_k6_12_a_key_that_may_not_call_does_not_call(gateway: Any) -> None:
    """K6-12: a merchant's key is refused create_order, and a batch holds the refusal in its entry."""
    answer = await gateway.call(key="k-merchant")
    assert (answer.status, answer.problem["code"]) == (403, "forbidden")
    call = {"company": "acme", "conversation": "c", "tool": "place_order", "arguments": {}, "tool_call_id": "a"}
    batch = await gateway.post("/v1/calls/batch", {"calls": [call]}, key="k-merchant")
    assert [entry["code"] for entry in batch.json()["answers"]] == ["forbidden"]
    assert gateway.merchant.hits == []


@pytest.mark.parametrize(
    ("method", "path", "document"),
    [
        ("PUT", "/v1/companies/acme", {}),
        ("POST", "/v1/companies/acme/secrets", None),
        ("GET", "/v1/companies/acme/secrets", None),
        ("DELETE", "/v1/companies/acme/secrets/x", None),
        ("PUT", "/v1/companies/acme/tools/t", {"endpoint": "https://shop.example/t"}),
        ("DELETE", "/v1/companies/acme/tools/place_order", None),
    ],
)
async def test_a_runtime_key_changes_nothing_of_its_company(
    gateway: Any, method: str, path: str, document: Any
) -> None:
    """Roles (api.md): runtimes call and read; they register nothing and see no secret."""
    before = dict(gateway.documents.content)
    assert (await gateway.ask(method, path, document)).status == 403
    assert gateway.documents.content == before


async def test_k8_06_a_forwarded_address_counts_for_nothing(gateway: Any) -> None:
    """K8-06: random, long, IPv6 and garbage forwarding headers change neither the answer nor what is counted."""
    values = [b"10.0.0.1", b"::1", b"x" * 4_000, b"\xff\xfe", b", ".join([b"1.2.3.4"] * 50), b"", b"unknown, _hid"]
    await gateway.call()
    before = gateway.series()
    for value in values:
        headers = [(b"x-forwarded-for", value), (b"forwarded", b"for=" + value), (b"x-real-ip", value)]
        assert (await gateway.call(headers=headers)).status == 200
        assert (await gateway.call(headers=headers, key=None)).status == 401
    grown = gateway.series()
    assert not any("10.0.0.1" in name or "1.2.3.4" in name for name in grown)
    assert {
        name for name in grown if "401" not in name and "unauthenticated" not in name and "replay" not in name
    } == set(before)
    assert not any("forwarded" in str(trace) for trace in gateway.calls.traces)


async def test_a_key_made_elsewhere_is_known_once_the_registry_is_refreshed(gateway: Any) -> None:
    """Keys live in the ledger: one that another process stored opens this one a second later."""
    from gateway.core.model import Role
    from gateway.core.registry_documents import StoredKey, encode, key_document
    from gateway.service.registry import key_digest

    made = StoredKey(1, "key-9", key_digest("k-new"), Role.RUNTIME, ("acme",), "new", 0)
    await gateway.documents.change(key_document("key-9"), encode(made), None)
    assert (await gateway.call(key="k-new")).status == 401
    gateway.clock.now += 1.1
    assert (await gateway.call(key="k-new")).status == 200
