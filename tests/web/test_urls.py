"""Names in paths and queries, whatever they hold."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import pytest

LONG = "call_ab__thought__" + "A" * 900
NAMES = [
    "a/b",
    "a//b",
    "/",
    "a+b=c",
    "a b",
    "a?b#c",
    "100%",
    "%2F",
    "ü-é-漢",
    "a&b=c",
    "a;b",
    ".hidden",
    "tools",
    "secrets",
]


@pytest.mark.parametrize("name", [*NAMES, "x" * 128])
async def test_k1_09_a_tool_and_a_company_of_any_name_are_reached_by_their_path(gateway: Any, name: str) -> None:
    """K1-09: slashes, plus and equals signs, blanks: percent-encoded, they stay one segment."""
    path = f"/v1/companies/{quote(name, safe='')}/tools/{quote(name, safe='')}"
    put = await gateway.put(path, {"endpoint": "https://shop.example/t"}, key="k-operator")
    assert put.status == 200, put
    assert (put.json()["company"], put.json()["name"]) == (name, name)
    got = await gateway.get(path, key="k-operator")
    assert got.json() == put.json()
    listed = await gateway.get(f"/v1/companies/{quote(name, safe='')}/tools", key="k-operator")
    assert [tool["name"] for tool in listed.json()["tools"]] == [name]
    assert (await gateway.ask("DELETE", path, key="k-operator")).status == 204
    assert (await gateway.get(path, key="k-operator")).status == 404


async def test_k1_09_ids_that_differ_in_their_last_character_are_two_calls_and_are_looked_up_as_such(
    gateway: Any,
) -> None:
    """K1-09: ids of over 900 characters; nothing is cut before it is compared, in bodies and in queries."""
    for last in "12":
        answer = await gateway.call(tool_call_id=LONG + last, arguments={"n": last})
        assert answer.json()["decision"] == "proceed"
    for last in "12":
        query = urlencode({"company": "acme", "conversation": "c-1", "tool_call_id": LONG + last})
        (record,) = (await gateway.get(f"/v1/calls?{query}")).json()["calls"]
        assert record["tool_call_id"] == LONG + last
    assert len(gateway.merchant.hits) == 2


@pytest.mark.parametrize("id_", ["a/b+c==", "x" * 1_024, "ü" * 512, "a b", "%2B", "a&company=globex", "null", "0"])
async def test_k1_09_any_id_up_to_the_limit_is_looked_up_by_a_query(gateway: Any, id_: str) -> None:
    """K1-09, 2.8: base64 signatures and the rest, up to 1,024 bytes."""
    assert (await gateway.call(tool_call_id=id_, conversation=id_)).status == 200
    query = urlencode({"company": "acme", "conversation": id_, "tool_call_id": id_})
    (record,) = (await gateway.get(f"/v1/calls?{query}")).json()["calls"]
    assert record["tool_call_id"] == id_
    assert [event["type"] for event in record["events"]] == ["effect.executing", "effect.succeeded"]


@pytest.mark.parametrize("id_", ["x" * 1_025, "ü" * 513, ""])
async def test_k1_09_an_id_over_the_limit_is_400_in_queries_and_paths(gateway: Any, id_: str) -> None:
    """K1-09, 2.8: a clear refusal rather than a shortened name."""
    query = urlencode({"company": "acme", "conversation": "c", "tool_call_id": id_})
    answer = await gateway.get(f"/v1/calls?{query}")
    assert (answer.status, answer.fields) == (400, ["tool_call_id"])
    if id_:
        path = await gateway.get(f"/v1/companies/{quote(id_)}", key="k-operator")
        assert (path.status, path.fields) == (400, ["company"])


async def test_k1_09_a_long_id_is_not_in_the_log(gateway: Any, caplog: Any) -> None:
    """K1-09: a refused call's line holds no id at all."""
    with caplog.at_level("DEBUG", logger="gateway"):
        await gateway.call(tool_call_id=LONG, tool="no_such")
        await gateway.get(f"/v1/calls?company=globex&conversation=c&tool_call_id={LONG}")
    assert len(caplog.records) == 2
    assert "thought" not in caplog.text


@pytest.mark.parametrize(
    "query",
    [
        "company=acme",
        "company=acme&conversation=c",
        "company=acme&tool_call_id=a",
        "conversation=c&tool_call_id=a",
        "company=acme&status=succeeded",
        "company=acme&status=indeterminate&tool_call_id=a",
        "company=acme&status=indeterminate&step=1",
        "company=acme&conversation=c&tool_call_id=a&cursor=0:0",
        "company=acme&conversation=c&tool_call_id=a&limit=3",
        "company=acme&conversation=c&tool_call_id=a&step=0",
        "company=acme&conversation=c&tool_call_id=a&step=1.0",
        "company=acme&conversation=c&tool_call_id=a&step=+1",
        "company=acme&conversation=c&tool_call_id=a&step=%D9%A1",
        "company=acme&conversation=c&tool_call_id=a&turn=",
        "company=acme&status=indeterminate&cursor=x",
        "company=acme&status=indeterminate&cursor=-1:0",
        "company=acme&status=indeterminate&limit=0",
        "company=acme&status=indeterminate&limit=501",
        "company=acme&status=indeterminate&limit=1_0",
        "company=acme&status=indeterminate&limit=99999999999999999999",
        "company=acme&company=acme&status=indeterminate",
        "company=acme&company=globex&status=indeterminate",
        "company=acme&status=indeterminate&debug=1",
        "company=%ff&status=indeterminate",
        "company=%ED%A0%80&status=indeterminate",
        "&".join(f"a{n}=1" for n in range(100)),
    ],
)
async def test_a_query_that_cannot_be_meant_is_400(gateway: Any, query: str) -> None:
    """9.4: unknown, repeated, missing and clashing parameters are refused, none guessed at."""
    answer = await gateway.get(f"/v1/calls?{query}")
    assert (answer.status, answer.problem["code"]) == (400, "malformed")


async def test_a_path_that_is_not_utf_8_is_400(gateway: Any) -> None:
    """9.4: bad bytes give a 4xx."""
    answer = await gateway.get("/v1/companies/%ff/tools/%C3%28", key="k-operator")
    assert (answer.status, answer.fields) == (400, ["company", "tool"])


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/calls/",
        "/v1/calls/x",
        "/v1/companies",
        "/v1/companies/",
        "/v1/companies//tools",
        "/v1/companies/acme/tools/",
        "//v1/calls",
        "/V1/calls",
        "/v1%2Fcalls",
        "/openapi.json/",
        "/%00",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
async def test_an_unknown_path_is_a_404_problem(gateway: Any, method: str, path: str) -> None:
    """Nothing is redirected, nothing guessed."""
    answer = await gateway.ask(method, path)
    assert (answer.status, answer.problem["code"]) == (404, "not_found")


METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "PROPFIND"]


async def test_a_method_that_a_path_lacks_is_a_405_that_names_those_it_has(gateway: Any) -> None:
    """RFC 9110, 15.5.6: with an Allow header, on every path of the table."""
    table: dict[str, set[str]] = {}
    for operation in gateway.app.operations:
        table.setdefault(operation.path, set()).add(operation.method)
    for path, methods in table.items():
        offered = methods | ({"HEAD"} if "GET" in methods else set())
        for method in set(METHODS) - offered:
            answer = await gateway.ask(method, path.replace("{", "").replace("}", ""))
            assert answer.status == 405, (method, path)
            assert method == "HEAD" or answer.problem["code"] == "method_not_allowed"
            assert set(answer.headers["allow"].split(", ")) == offered


async def test_head_answers_as_get_without_a_body(gateway: Any) -> None:
    """RFC 9110, 9.3.2."""
    got, head = await gateway.get("/livez"), await gateway.ask("HEAD", "/livez")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


async def test_the_application_answers_below_where_a_proxy_mounts_it(gateway: Any) -> None:
    """A root path is part of what servers hand on and no part of the route."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = gateway.scope("GET", "/shop/v1/companies/acme", "k-runtime", [])
    await gateway.app({**scope, "root_path": "/shop"}, receive, send)
    assert sent[0]["status"] == 200


async def test_a_websocket_is_closed(gateway: Any) -> None:
    """There is none here."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await gateway.app({"type": "websocket", "path": "/v1/calls", "headers": []}, None, send)
    assert sent[0]["type"] == "websocket.close"
