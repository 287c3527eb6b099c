"""A shop as a plain WSGI application (PEP 3333). Bodies in and out are buffered whole."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from merchant_sdk.endpoint import (
    MOST_DISCARDED,
    Endpoint,
    Header,
    Rejected,
    Reply,
    error_reply,
    reply_headers,
    reply_to,
)
from merchant_sdk.errors import BodyTooLarge
from merchant_sdk.shop import Shop

Environ = dict[str, Any]
StartResponse = Callable[..., Any]

_UNPREFIXED = {"CONTENT_TYPE": b"content-type", "CONTENT_LENGTH": b"content-length"}


class MerchantWSGI:
    """The same as `asgi.MerchantApp` for WSGI servers. Runs a call in the server's own thread."""

    def __init__(self, shop: Shop, *, max_body: int) -> None:
        self.shop = shop
        self._endpoint = Endpoint(shop, max_body=max_body)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        reply = self._answer(environ)
        body = reply.body.encode()
        headers = [(name.decode().title(), value.decode("latin-1")) for name, value in reply_headers(reply, body)]
        start_response(f"{reply.status} {_phrase(reply.status)}", headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    def _answer(self, environ: Environ) -> Reply:
        method = environ["REQUEST_METHOD"]
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        try:
            if self._endpoint.is_health(method, path):
                return self._endpoint.health()
            headers = headers_of(environ)
            try:
                self._endpoint.check_head(method, headers)
            except (Rejected, BodyTooLarge):
                discard_body(environ)
                raise
            return self._endpoint.accept(path, headers, self._read_body(environ)).run(_finish)
        except Exception as error:
            return reply_to(error)

    def _read_body(self, environ: Environ) -> bytes:
        declared = environ.get("CONTENT_LENGTH") or ""
        body, length = bytearray(), 0
        for chunk in _chunks(environ):
            length += len(chunk)
            if length <= self._endpoint.max_body:
                body += chunk
        self._endpoint.check_length(length)
        if declared and length < int(declared):
            raise Rejected(error_reply(400, "body_incomplete", "The body ended before its Content-Length."))
        return bytes(body)


def discard_body(environ: Environ) -> None:
    """Read a body that nobody wants, so that its sender lives to see the answer (MOST_DISCARDED)."""
    if "HTTP_EXPECT" not in environ:  # else its sender waits to be asked for it, and reading asks
        for _ in _chunks(environ):
            pass


def _chunks(environ: Environ) -> Iterator[bytes]:
    """The body, at most MOST_DISCARDED bytes of it. Reading past its end would block on some servers."""
    declared = environ.get("CONTENT_LENGTH") or ""
    if declared:
        length = min(int(declared), MOST_DISCARDED) if declared.isdecimal() else 0
    else:
        length = MOST_DISCARDED if environ.get("wsgi.input_terminated") else 0
    while length > 0:
        chunk = environ["wsgi.input"].read(min(length, 65536))
        if not chunk:
            return
        length -= len(chunk)
        yield chunk


def headers_of(environ: Environ) -> list[Header]:
    """The request's headers as bytes. A header that came twice is one with a comma, as servers join them."""
    headers = [
        (name[5:].replace("_", "-").lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in environ.items()
        if name.startswith("HTTP_") and isinstance(value, str)
    ]
    return headers + [(name, environ[key].encode("latin-1")) for key, name in _UNPREFIXED.items() if environ.get(key)]


def _finish(result: Any) -> Any:
    """The result itself, or that of a coroutine, run to its end on a loop of its own."""
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase
