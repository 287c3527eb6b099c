"""Starlette and FastAPI: mount a shop, hold replies back until their commit, read signed calls in routes of your own.

    install(app, shop)            # last, so that it is outside the other middleware

`shop` may be None, for an application that answers the gateway in routes of its own.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from merchant_sdk.commit_before_reply import MAX_REPLY, CommitBeforeReply
from merchant_sdk.endpoint import MOST_DISCARDED, reply_headers, reply_to
from merchant_sdk.errors import BodyTooLarge
from merchant_sdk.shop import Shop
from merchant_sdk.signed_calls import ANSWERED, MAX_BODY, read_call
from merchant_sdk.wire import Call

PATH = "/oncegate"


def install(app: Any, shop: Shop | None, *, path: str = PATH, max_reply: int = MAX_REPLY) -> None:
    """Mount the shop under `path`, answer the SDK's errors, and put the middleware around everything."""
    if shop is not None:
        server, address = shop.asgi(), path.rstrip("/")
        if address:
            # The mount alone would answer it with a redirect, which no gateway follows: all orders would be unknown.
            app.router.routes.append(Route(address, server, include_in_schema=False))
        app.mount(path, server)
    for kind in ANSWERED:
        app.add_exception_handler(kind, _handle)
    app.add_middleware(CommitBeforeReply, max_reply=max_reply)


def signed_call(shop: Shop, *, max_body: int = MAX_BODY) -> Any:
    """A FastAPI dependency, or an awaitable function of a request, that gives the verified Call.

    Raises SignatureError, MalformedCall or BodyTooLarge, which `install` answers with 401, 400 and 413.
    """

    async def read(request: Request) -> Call:
        body, length = bytearray(), 0
        async for chunk in request.stream():
            length += len(chunk)
            if length <= max_body:
                body += chunk
            elif length > MOST_DISCARDED:
                break
        if length > max_body:
            raise BodyTooLarge(max_body)
        return read_call(shop, request.scope["headers"], bytes(body))

    # FastAPI looks at the annotation itself, which `from __future__` made a text.
    read.__annotations__ = {"request": Request, "return": Call}
    return read


async def _handle(request: Request, error: Exception) -> Response:
    reply = reply_to(error)
    body = reply.body.encode()
    headers = {name.decode(): value.decode() for name, value in reply_headers(reply, body)}
    return Response(body, reply.status, headers)
