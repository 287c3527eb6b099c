"""Each framework's example, on a real server: one order, whatever is sent twice, late, forged or broken."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

UVICORN = ["uvicorn", "--port", "PORT", "--log-level", "warning"]


@dataclass(frozen=True)
class Example:
    """How it is served, where the shop is mounted, and its place_order's arguments."""

    command: list[str]
    prefix: str
    arguments: Callable[[str], Any]
    wrong: dict[str, Any]
    named: str


EXAMPLES = {
    "plain": Example(
        ["plain_shop", "PORT"], "", lambda i: {"item": i, "quantity": 1}, {"item": "dosa", "quantity": "7"}, "quantity"
    ),
    "waitress": Example(
        ["waitress", "--listen", "127.0.0.1:PORT", "plain_shop:app"],
        "",
        lambda i: {"item": i, "quantity": 1},
        {"item": "dosa"},
        "quantity",
    ),
    "starlette": Example(
        [*UVICORN, "starlette_shop:app"],
        "/tools",
        lambda i: {"items": [{"sku": i, "quantity": 2}]},
        {"items": [{"sku": "dosa"}, {"sku": 7}]},
        "items[1].sku",
    ),
    "fastapi": Example(
        [*UVICORN, "fastapi_shop:app"],
        "/tools",
        lambda i: {"item": i, "quantity": 1},
        {"item": "dosa", "quantity": 0},
        "quantity",
    ),
    "flask": Example(
        ["waitress", "--listen", "127.0.0.1:PORT", "--call", "flask_shop:create_app"],
        "/tools",
        lambda i: {"item": i, "quantity": 1},
        {"item": "", "quantity": 1},
        "item",
    ),
    "django": Example(
        ["gunicorn", "--bind", "127.0.0.1:PORT", "--threads", "4", "--log-level", "warning", "django_shop:app"],
        "/tools",
        lambda i: {"item": i, "quantity": 1},
        {"item": "dosa", "quantity": 1, "extra": 1},
        "extra",
    ),
}


@dataclass
class Running:
    client: Any
    example: Example
    own_checkout: bool

    def order(self, key: str, conversation: str, item: str = "dosa") -> Any:
        return self.client.call("place_order", self.example.arguments(item), key, conversation)

    def count(self) -> int:
        return int(self.client.call("count_orders", {}, f"r{uuid4().hex}", keyed=False).json["orders"])


@pytest.fixture(scope="module", params=EXAMPLES)
def running(request: pytest.FixtureRequest, start_server: Any) -> Running:
    example = EXAMPLES[request.param]
    return Running(start_server(example.command, example.prefix), example, request.param not in ("plain", "waitress"))


@pytest.fixture
def fresh() -> Any:
    """Keys and conversations that no other test uses."""
    return lambda word: f"{word}{uuid4().hex}"


def test_k6_06_the_same_request_again_is_the_same_order_and_its_bytes(running: Running, fresh: Any) -> None:
    """2.1, K6-06: within the tolerance a replay is harmless."""
    before, key, conversation = running.count(), fresh("k"), fresh("c")
    first, again = running.order(key, conversation), running.order(key, conversation)
    assert first.status == 200, first.body
    assert again.body == first.body
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert running.count() == before + 1


def test_k1_13_a_brand_new_call_of_the_same_purchase_is_one_order(running: Running, fresh: Any) -> None:
    """K1-13: another key, the same buyer and cart."""
    before, conversation = running.count(), fresh("c")
    first = running.order(fresh("k"), conversation)
    again = running.order(fresh("k"), conversation)
    assert (first.status, again.status) == (200, 200), (first.body, again.body)
    shown = again.json
    assert shown.pop("already_done")
    assert shown == first.json, "the first order, by its number"
    assert running.count() == before + 1


def test_k7_02_twins_at_once_are_one_order(running: Running, fresh: Any) -> None:
    """K7-02: eight threads, one key; nobody gets a conflict or a 500."""
    before, key, conversation = running.count(), fresh("k"), fresh("c")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: running.order(key, conversation), range(8)))
    assert {reply.status for reply in replies} == {200}, [reply.body for reply in replies]
    assert len({reply.body for reply in replies}) == 1
    assert running.count() == before + 1


def test_p5_4_the_status_endpoint_says_what_became_of_a_key_and_void_binds(running: Running, fresh: Any) -> None:
    """5.4: committed with the stored reply; void, and the late arrival meets the tombstone."""
    before, done, late, conversation = running.count(), fresh("k"), fresh("k"), fresh("c")
    first = running.order(done, conversation)
    assert running.client.status(done).json == {"status": "committed", "result": first.json}
    assert running.client.status(late).json == {"status": "void"}
    arrived = running.order(late, fresh("c"))
    assert (arrived.status, arrived.code) == (410, "void")
    assert running.client.status(late).json == {"status": "void"}
    assert running.count() == before + 1


def test_wrong_arguments_are_refused_by_name_and_nothing_runs(running: Running, fresh: Any) -> None:
    """Bad input: a definite no that names the field."""
    before = running.count()
    refused = running.client.call("place_order", running.example.wrong, fresh("k"), fresh("c"))
    assert (refused.status, refused.code) == (422, "invalid_arguments")
    assert f": {running.example.named} " in refused.json["error"]["message"]
    assert running.count() == before


def test_unknown_tools_and_wrong_requests_are_4xx_and_nothing_runs(running: Running, fresh: Any) -> None:
    """9.4: each a clear answer, none a 500."""
    before, client = running.count(), running.client
    assert client.call("fly_to_moon", {}, fresh("k")).code == "unknown_tool"
    body = json.dumps({"tool": "place_order", "arguments": running.example.arguments("dosa")}).encode()
    good = client.signed(body, fresh("k"))
    path = f"{client.prefix}/"
    for headers, sent, status, code in (
        ({}, body, 401, "signature_invalid"),
        (good, body, 400, "malformed_call"),
        (good, body[:-1], 401, "signature_invalid"),
        (good | {"webhook-signature": "v1=\xff"}, body, 401, "signature_invalid"),
        (good | {"webhook-id": fresh("k")}, body, 401, "signature_invalid"),
        (good | {"Content-Type": "text/xml"}, body, 415, "content_type_not_accepted"),
        (good | {"Content-Encoding": "gzip"}, body, 415, "encoding_not_accepted"),
        (client.signed(body, fresh("k"), age_s=360), body, 401, "signature_invalid"),
    ):
        said = client.send("POST", path, sent, headers)
        assert (said.status, said.code) == (status, code), headers
    assert client.send("GET", path).status == 405
    assert running.count() == before


def test_a_body_cut_in_half_and_one_too_large_run_nothing(running: Running, fresh: Any) -> None:
    """9.4: the server goes on after both."""
    before, client = running.count(), running.client
    body = json.dumps({"tool": "place_order", "arguments": running.example.arguments("dosa")}).encode()
    head = f"POST {client.prefix}/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in client.signed(body, fresh("k")).items() if name[0] != "C")
    with socket.create_connection(("127.0.0.1", client.port)) as raw:
        raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[: len(body) // 2])
    large = client.send("POST", f"{client.prefix}/", b" " * (1 << 21), {"Content-Type": "application/json"})
    assert (large.status, large.code) == (413, "body_too_large")
    assert running.count() == before


def test_p5_2_the_shops_address_takes_calls_with_a_slash_at_its_end_and_without(running: Running, fresh: Any) -> None:
    """5.2: the gateway follows no redirect, so one between the two would leave every order unknown."""
    client, keys, conversation = running.client, [fresh("k"), fresh("k")], fresh("c")
    before = running.count()
    for key, path in zip(keys, (client.prefix or "/", f"{client.prefix}/"), strict=True):
        context = {"company": "acme", "conversation": conversation + key, "turn": None, "tool_call_id": "call_1"}
        body = json.dumps(
            {"tool": "place_order", "arguments": running.example.arguments("dosa"), "context": context | {"attempt": 1}}
        ).encode()
        said = client.send("POST", path, body, client.signed(body, key))
        assert said.status == 200, (path, said.status, said.body)
    assert running.count() == before + 2


def test_health_says_that_the_database_is_there(running: Running) -> None:
    """For whoever watches the shop."""
    assert running.client.send("GET", f"{running.client.prefix}/health").json == {"status": "ok"}


def test_k7_11_the_websites_own_order_is_there_when_its_reply_is(running: Running) -> None:
    """K7-11: a route of the merchant's own, committed in the framework's usual place."""
    if not running.own_checkout:
        pytest.skip("this example has no website of its own")
    before = running.count()
    body = json.dumps({"item": "vada", "quantity": 1}).encode()
    said = running.client.send("POST", "/checkout", body, {"Content-Type": "application/json"})
    assert said.status == 200, said.body
    assert said.json["order_id"]
    assert running.count() == before + 1
