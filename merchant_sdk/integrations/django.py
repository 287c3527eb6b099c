"""Django: a shop as URLs, replies held back until their commit, signed calls in views of your own.

    MIDDLEWARE = ["merchant_sdk.integrations.django.CommitBeforeReply", ...]      # first: outside the others
    urlpatterns = [*urls(shop), ...]

Streaming replies are read to their end here, and ONCEGATE_MAX_REPLY (bytes, in the settings) is the most of any reply.
Every database of the request is asked, whoever opened what.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

from merchant_sdk import units
from merchant_sdk.commit_before_reply import MAX_REPLY, SAFE_METHODS, failure_body
from merchant_sdk.endpoint import reply_to
from merchant_sdk.errors import BodyTooLarge, ReplyTooLarge
from merchant_sdk.integrations.django_transactions import lines_of_beginnings, note_open, undo_open
from merchant_sdk.shop import Shop
from merchant_sdk.signed_calls import ANSWERED, MAX_BODY, read_call
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
        self._max_reply = _max_reply()

    def __call__(self, request: HttpRequest) -> Any:
        if request.method in SAFE_METHODS:
            return self._get_response(request)
        response: Any = None
        with units.request() as inside, lines_of_beginnings() as begun:
            try:
                response = self._get_response(request)
                inside.answering()
                whole = _whole(response, self._max_reply)
                note_open(request, begun)
                inside.check(success=response.status_code < 400)
                if whole is not response:
                    # Only now: Django closes connections with it, and what was open on one would be gone unseen.
                    response.close()
            except Exception as error:
                _log.exception("reply held back: %s", type(error).__name__)
                undo_open()
                if response is not None:
                    with suppress(Exception):  # what it holds is let go, and nobody is told of it
                        response.close()
                return HttpResponse(failure_body(error), status=500, content_type="application/json")
        return whole

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The SDK's errors from a view, as their answers."""
        if not isinstance(error, ANSWERED):
            return None
        reply = reply_to(error)
        headers = {name.decode(): value.decode() for name, value in reply.headers}
        return HttpResponse(reply.body, status=reply.status, content_type="application/json", headers=headers)


def _max_reply() -> int:
    """ONCEGATE_MAX_REPLY of the settings. Raises ImproperlyConfigured."""
    set_to = getattr(settings, "ONCEGATE_MAX_REPLY", MAX_REPLY)
    if isinstance(set_to, bool) or not isinstance(set_to, int) or set_to < 1:
        raise ImproperlyConfigured(f"ONCEGATE_MAX_REPLY is a whole number of bytes above 0, not {set_to!r}")
    return set_to


def _whole(response: Any, most: int) -> Any:
    """The reply itself, or a streaming one read to its end. Raises ReplyTooLarge."""
    if not response.streaming:
        _check_size(len(response.content), most)
        return response
    body = bytearray()

    def keep(chunk: bytes) -> None:
        body.extend(chunk)
        _check_size(len(body), most)

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


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ReplyTooLarge("the reply is larger than ONCEGATE_MAX_REPLY: nothing of it was sent")
