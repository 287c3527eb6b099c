"""Flask: mount a shop, hold replies back until their commit, read signed calls in views of your own.

install(app, shop)            # last, so that it is outside the other middleware
"""

from __future__ import annotations

import io
from typing import Any

from flask import Flask, Response, request
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from merchant_sdk.commit_before_reply import MAX_REPLY, CommitBeforeReplyWSGI
from merchant_sdk.endpoint import MOST_DISCARDED, reply_to
from merchant_sdk.errors import BodyTooLarge
from merchant_sdk.shop import Shop
from merchant_sdk.signed_calls import ANSWERED, MAX_BODY, read_call
from merchant_sdk.wire import Call
from merchant_sdk.wsgi import discard_body, headers_of

PATH = "/oncegate"


def install(app: Flask, shop: Shop | None, *, path: str = PATH, max_reply: int = MAX_REPLY) -> None:
    """Mount the shop under `path`, answer the SDK's errors, and put the middleware around everything."""
    for kind in ANSWERED:
        app.register_error_handler(kind, _handle)
    inner: Any = app.wsgi_app
    if shop is not None:
        inner = DispatcherMiddleware(inner, {path: shop.wsgi()})
    app.wsgi_app = CommitBeforeReplyWSGI(inner, max_reply=max_reply)  # type: ignore[method-assign]


def signed_call(shop: Shop, *, max_body: int = MAX_BODY) -> Call:
    """The verified Call of the request at hand. Raises SignatureError, MalformedCall or BodyTooLarge, which
    `install` answers with 401, 400 and 413."""
    if (request.content_length or 0) > max_body:
        discard_body(request.environ)
        raise BodyTooLarge(max_body)
    body, length = bytearray(), 0  # one that did not say its length may have no end
    while length <= MOST_DISCARDED and (chunk := request.stream.read(65536)):
        length += len(chunk)
        if length <= max_body:
            body += chunk
    if length > max_body:
        raise BodyTooLarge(max_body)
    request.stream = io.BytesIO(body)  # for the handler; empty where it has read the body already
    whole = request.get_data(cache=True)
    if len(whole) > max_body:
        raise BodyTooLarge(max_body)
    return read_call(shop, headers_of(request.environ), whole)


def _handle(error: Exception) -> Response:
    reply = reply_to(error)
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(reply.body, reply.status, headers, content_type="application/json")
