"""Django: a shop as URLs, replies held back until their commit, signed calls in views of your own.

    MIDDLEWARE = ["merchant_sdk.integrations.django.CommitBeforeReply", ...]      # first: outside the others
    urlpatterns = [*urls(shop), ...]

Streaming replies are read to their end here. Every database of the request is asked, whoever opened what.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

from merchant_sdk import units
from merchant_sdk.commit_before_reply import MAX_REPLY, SAFE_METHODS, failure_body
from merchant_sdk.endpoint import reply_to
from merchant_sdk.errors import BodyTooLarge, ReplyTooLarge
from merchant_sdk.shop import Shop
from merchant_sdk.signed_calls import ANSWERED, MAX_BODY, read_call
from merchant_sdk.stores.django import is_inside_merchants_block
from merchant_sdk.wire import Call
from merchant_sdk.wsgi import discard_body, headers_of

PATH = "oncegate"

_log = logging.getLogger("merchant_sdk")


def urls(shop: Shop, *, path: str = PATH) -> list[Any]:
    """The shop under `path`, without Django's own transaction around it and without its CSRF check."""
    app = shop.wsgi()

    def view(request: HttpRequest) -> HttpResponse:
        said: list[Any] = []
        environ = {**request.META, "wsgi.input": request}
        body = b"".join(app(environ, lambda status, headers: said.extend((status, headers))))
        status, headers = said
        return HttpResponse(body, status=int(status.split(" ", 1)[0]), headers=dict(headers))

    return [re_path(rf"^{path}(?:/(?:status|health))?/?$", csrf_exempt(transaction.non_atomic_requests(view)))]


def signed_call(request: HttpRequest, shop: Shop, *, max_body: int = MAX_BODY) -> Call:
    """The verified Call of this request. Raises SignatureError, MalformedCall or BodyTooLarge, which the middleware
    answers with 401, 400 and 413. A smaller DATA_UPLOAD_MAX_MEMORY_SIZE holds in place of `max_body`."""
    djangos = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    most = max_body if djangos is None else min(max_body, djangos)
    promised = request.META.get("CONTENT_LENGTH") or ""
    if promised.isdecimal() and (len(promised) > 18 or int(promised) > most):
        discard_body({**request.META, "wsgi.input": request})
        raise BodyTooLarge(most)
    if len(request.body) > most:
        raise BodyTooLarge(most)
    return read_call(shop, headers_of(request.META), request.body)


class CommitBeforeReply:
    """Django middleware: the first of MIDDLEWARE."""

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        if request.method in SAFE_METHODS:
            return self._get_response(request)
        with units.request() as inside:
            try:
                response = self._get_response(request)
                inside.answering()
                streamed = _read(response) if response.streaming else None
                for alias in connections:
                    _note_open(alias, request)
                inside.check(success=response.status_code < 400)
                if streamed is not None:
                    # Only now: Django closes connections with it, and what was open on one would be gone unseen.
                    response.close()
                    response = streamed
            except Exception as error:
                _log.exception("reply held back: %s", type(error).__name__)
                for alias in connections:
                    _undo(alias)
                return HttpResponse(failure_body(error), status=500, content_type="application/json")
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The SDK's errors from a view, as their answers."""
        if not isinstance(error, ANSWERED):
            return None
        reply = reply_to(error)
        headers = {name.decode(): value.decode() for name, value in reply.headers}
        return HttpResponse(reply.body, status=reply.status, content_type="application/json", headers=headers)


def _read(response: Any) -> HttpResponse:
    body = bytearray()

    def keep(chunk: bytes) -> None:
        body.extend(chunk)
        if len(body) > MAX_REPLY:
            raise ReplyTooLarge("the reply is larger than 4 MiB: nothing of it was sent")

    async def read_all() -> None:
        async for chunk in response.streaming_content:
            keep(chunk)

    if response.is_async:
        async_to_sync(read_all)()
    else:
        for chunk in response.streaming_content:
            keep(chunk)
    whole = HttpResponse(
        bytes(body), status=response.status_code, reason=response.reason_phrase, headers=dict(response.headers)
    )
    whole.cookies = response.cookies
    return whole


def _is_open(alias: str) -> bool:
    connection = connections[alias]
    if connection.connection is None:
        return False
    if connection.in_atomic_block:
        return is_inside_merchants_block(connection)
    return not connection.get_autocommit()


def _note_open(alias: str, request: HttpRequest) -> None:
    if _is_open(alias):
        view = getattr(request.resolver_match, "func", None)
        code = getattr(view, "__code__", None)
        where = f"the view {getattr(view, '__qualname__', view)}"
        unit = units.Unit(f"a transaction on the database {alias!r}", where, lambda: _is_open(alias))
        if code is not None:
            unit.where = f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}"
        units.note(unit)


def _undo(alias: str) -> None:
    """What is left open must not be committed by a later request on the same thread."""
    if _is_open(alias):
        connections[alias].close()
