"""Routes of the merchant's own that answer the gateway: the call is verified before the handler sees it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import fastapi
import flask
import pytest

from merchant_sdk import Refused, Shop, once, sign
from merchant_sdk.integrations import fastapi as with_fastapi
from merchant_sdk.integrations import flask as with_flask
from merchant_sdk.wire import Call

SECRET = "whsec_" + "A" * 43 + "="
SCHEMA = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop.db", secrets=[SECRET], schema=SCHEMA)


def place(shop: Shop, call: Call) -> Any:
    with once(shop.store, call.call_key(), now=time.time) as work:
        if not work.done:
            if call.arguments["item"] == "vada":
                raise Refused("sold_out", "Sold out.")
            work.reply({"order_id": work.db.execute("INSERT INTO orders (item) VALUES ('x')").lastrowid})
    return work.answer.result


def under_fastapi(shop: Shop, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    app = fastapi.FastAPI()
    verified = fastapi.Depends(with_fastapi.signed_call(shop))

    @app.post("/order")
    def order(call: Any = verified) -> Any:
        return place(shop, call)

    with_fastapi.install(app, None)
    said: list[Any] = []
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if not incoming:
            await asyncio.Event().wait()
        return incoming.pop()

    async def send(message: Any) -> None:
        said.append(message)

    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/order", "raw_path": b"/order", "headers": raw}
    scope |= {"query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1", "asgi": {"version": "3.0"}}
    asyncio.run(app(scope | {"server": ("shop", 80), "client": ("gw", 1)}, receive, send))
    return said[0]["status"], json.loads(b"".join(message.get("body", b"") for message in said[1:]))


def under_flask(shop: Shop, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    app = flask.Flask(__name__)

    @app.post("/order")
    def order() -> Any:
        return place(shop, with_flask.signed_call(shop))

    with_flask.install(app, None)
    answer = app.test_client().post("/order", data=body, headers=headers)
    return answer.status_code, answer.get_json()


@pytest.mark.parametrize("ask", [under_fastapi, under_flask])
def test_a_signed_route_orders_once_and_answers_the_rest_by_the_book(shop: Shop, ask: Any) -> None:
    """Section 6 and 5: 200 and its repeat, a refusal in words, 401 for a forged one, 400 for what is no call."""

    def send(key: str, item: str = "dosa", *, body: bytes | None = None, **changed: str) -> tuple[int, Any]:
        context = {"company": "acme", "conversation": "c-1"}
        whole = json.dumps({"tool": "place_order", "arguments": {"item": item}, "context": context}).encode()
        whole, stamp = whole if body is None else body, int(time.time())
        headers = {"webhook-id": key, "webhook-timestamp": str(stamp)}
        headers |= {"webhook-signature": sign(SECRET, key, stamp, whole), "Content-Type": "application/json"}
        return ask(shop, whole, headers | {name.replace("_", "-"): value for name, value in changed.items()})

    assert send("k1") == send("k1") == (200, {"order_id": 1})
    assert send("k2", "vada") == (422, {"error": {"code": "sold_out", "message": "Sold out."}})
    for forged in ({"webhook_signature": "v1,\xff"}, {"webhook_timestamp": "1"}, {"webhook_id": "k9"}):
        assert send("k3", **forged)[0] == 401
    assert send("k1", idempotency_key="k1")[0] == 200
    assert send("k1", idempotency_key="k2")[0] == 401  # as the shop's own endpoint does: the header is not signed
    status, said = send("k4", body=b"{}")
    assert (status, said["error"]["code"]) == (400, "malformed_call")
    assert send("k5", body=b" " * (2 << 20))[0] == 400
