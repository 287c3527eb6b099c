"""Routes of the merchant's own that answer the gateway: the call is verified before the handler sees it."""

from __future__ import annotations

import asyncio
import io
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
from django.core.asgi import get_asgi_application
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
LIMIT = 1 << 20
CONTEXT = {"company": "acme", "conversation": "c-1"}
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
    # A body without a length is one that the server ends, as waitress and gunicorn do for a chunked one.
    chunked = "Transfer-Encoding" in headers
    given: dict[str, Any] = {"input_stream": io.BytesIO(body)} if chunked else {"data": body}
    environ = {"wsgi.input_terminated": True} if chunked else {}
    answer = app.test_client().post("/order", headers=headers, environ_overrides=environ, **given)
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
        if "Transfer-Encoding" in headers:
            return over_asgi(get_asgi_application(), body, headers)
        sent = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
        answer = Client().generic("POST", "/order", body, "application/json", **sent)  # type: ignore[arg-type]
    return answer.status_code, json.loads(answer.content)


@pytest.mark.parametrize("ask", [under_fastapi, under_starlette, under_flask, under_django])
def test_a_signed_route_orders_once_and_answers_the_rest_by_the_book(shop: Shop, ask: Any) -> None:
    """Section 6 and 5: 200 and its repeat, a refusal in words, 401 for a forged one, 400 for what is no call."""

    def send(key: str, item: str = "dosa", *, body: bytes | None = None, **changed: str) -> tuple[int, Any]:
        whole = json.dumps({"tool": "place_order", "arguments": {"item": item}, "context": CONTEXT}).encode()
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


@pytest.mark.parametrize(("extra", "status"), [(0, 400), (1, 413)])
@pytest.mark.parametrize("promised", [True, False])
@pytest.mark.parametrize("ask", [under_fastapi, under_starlette, under_flask, under_django])
def test_p9_4_a_signed_route_refuses_a_body_one_byte_too_large_as_the_shops_endpoint_does(
    shop: Shop, ask: Any, promised: bool, extra: int, status: int
) -> None:
    """9.4: 413 `body_too_large` for one that says its length and one that does not; at the limit it is read."""
    body, stamp = b" " * (LIMIT + extra), int(time.time())
    headers = {"webhook-id": "k1", "webhook-timestamp": str(stamp), "Content-Type": "application/json"}
    headers |= {"webhook-signature": sign(SECRET, "k1", stamp, body)}
    headers |= {"Content-Length": str(len(body))} if promised else {"Transfer-Encoding": "chunked"}
    said = ask(shop, body, headers)
    assert (said[0], said[1]["error"]["code"]) == (status, "body_too_large" if extra else "malformed_call")


def test_p9_4_djangos_own_smaller_limit_is_a_413_too(shop: Shop) -> None:
    """9.4: Django itself would answer its DATA_UPLOAD_MAX_MEMORY_SIZE with an HTML page and a 400."""
    under_django(shop, b"", {})  # which sets Django up
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=10):
        status, said = under_django(shop, b" " * 11, {"Content-Length": "11"})
    assert (status, said["error"]) == (
        413,
        {"code": "body_too_large", "message": "A body is at most 10 bytes."},
    )


def test_p9_4_what_a_signed_route_read_is_still_there_for_the_handler(shop: Shop) -> None:
    """Flask's own reading of the body goes on working, before and after."""
    app = flask.Flask(__name__)

    @app.post("/before")
    def before() -> Any:
        return {"before": len(flask.request.get_data()), "tool": with_flask.signed_call(shop).tool}

    @app.post("/after")
    def after() -> Any:
        return {"tool": with_flask.signed_call(shop).tool, "after": flask.request.get_json()["tool"]}

    body, stamp = json.dumps({"tool": "t", "arguments": {}, "context": CONTEXT}).encode(), int(time.time())
    headers = {"webhook-id": "k1", "webhook-timestamp": str(stamp), "Content-Type": "application/json"}
    headers |= {"webhook-signature": sign(SECRET, "k1", stamp, body)}
    client = app.test_client()
    assert client.post("/before", data=body, headers=headers).get_json() == {"before": len(body), "tool": "t"}
    assert client.post("/after", data=body, headers=headers).get_json() == {"tool": "t", "after": "t"}
