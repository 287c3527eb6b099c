"""Routes of the merchant's own that answer the gateway: the call is verified before the handler sees it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import django
import fastapi
import flask
import pytest
from django.apps import apps
from django.conf import settings
from django.http import JsonResponse
from django.test import Client, override_settings
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from merchant_sdk import Refused, Shop, once, sign
from merchant_sdk.integrations import fastapi as with_fastapi
from merchant_sdk.integrations import flask as with_flask
from merchant_sdk.integrations import starlette as with_starlette
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
    return over_asgi(app, body, headers)


def over_asgi(app: Any, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
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


def under_starlette(shop: Shop, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    read = with_starlette.signed_call(shop)

    async def order(request: Request) -> JSONResponse:
        return JSONResponse(place(shop, await read(request)))

    app = Starlette(routes=[Route("/order", order, methods=["POST"])])
    with_starlette.install(app, None)
    return over_asgi(app, body, headers)


def under_django(shop: Shop, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
    if not apps.ready:
        django.setup()
    from merchant_sdk.integrations.django import signed_call

    def order(request: Any) -> JsonResponse:
        return JsonResponse(place(shop, signed_call(request, shop)))

    urls = ModuleType("urls_of_one_route")
    urls.urlpatterns = [path("order", csrf_exempt(order))]  # type: ignore[attr-defined]
    middleware = ["merchant_sdk.integrations.django.CommitBeforeReply"]
    with override_settings(ROOT_URLCONF=urls, MIDDLEWARE=middleware, ALLOWED_HOSTS=["*"]):
        sent = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
        answer = Client().generic("POST", "/order", body, "application/json", **sent)  # type: ignore[arg-type]
    return answer.status_code, json.loads(answer.content)


@pytest.mark.parametrize("ask", [under_fastapi, under_starlette, under_flask, under_django])
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
