"""Middleware for a merchant's own application: the reply leaves when everything is over, and committed.

The whole reply is kept back until the application has returned, so that what a framework does after the handler
(a dependency's teardown, a background task, the end of a stream, an `after_request` hook, `close()`) is over
before the first byte leaves. Then it is asked what `units` knows: a transaction still open, or one that was undone
after the reply was made, is a ReplyBeforeCommit and a 500. So is any exception, whenever it comes.

Requests that only read (GET, HEAD, OPTIONS, TRACE) pass through as they are. What cannot be seen: a transaction on a
connection that nobody registered (`watch`, `transaction`, `once`, `track`), and a thread outside the request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from merchant_sdk import units
from merchant_sdk.errors import ReplyBeforeCommit, ReplyTooLarge
from merchant_sdk.reply import to_json

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Environ = dict[str, Any]
StartResponse = Callable[..., Any]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
MAX_REPLY = 4 << 20
"""Bytes; above what the gateway keeps of a result (4.12)."""

_SHORTCUTS = frozenset({"http.response.pathsend", "http.response.zerocopysend"})

_log = logging.getLogger("merchant_sdk")


def failure_body(error: BaseException) -> bytes:
    """The 500: nothing of the error itself, which may hold what is not the caller's business."""
    misused = isinstance(error, ReplyBeforeCommit)
    code = "reply_before_commit" if misused else "merchant_error"
    return to_json({"error": {"code": code, "message": "The shop failed to finish this request."}}).encode()


class CommitBeforeReply:
    """ASGI middleware; the outermost one. `max_reply` is in bytes.

    `propagate` raises the error to the server after the 500 was sent, for tests.
    """

    def __init__(self, app: Any, *, max_reply: int = MAX_REPLY, propagate: bool = False) -> None:
        self._app = app
        self._max_reply = max_reply
        self._propagate = propagate

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        with units.request() as request:
            kept = _Kept(request, self._max_reply, receive)
            try:
                await self._app(_without_shortcuts(scope), kept.receive, kept.send)
                kept.finish()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                _log.exception("reply held back: %s", type(error).__name__)
                await _send_failure(send, error)
                if self._propagate:
                    raise
                return
        for message in kept.messages:
            await send(message)


def _without_shortcuts(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Without the extensions that have the server read a file by itself: its bytes would not be kept back."""
    offered = scope.get("extensions") or {}
    return {**scope, "extensions": {name: each for name, each in offered.items() if name not in _SHORTCUTS}}


class _Kept:
    def __init__(self, request: units.Request, max_reply: int, receive: Receive) -> None:
        self.messages: list[Message] = []
        self._receive = receive
        self._gone = False
        self._request = request
        self._left = max_reply
        self._status: int | None = None
        self._whole = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._gone = self._gone or message["type"] == "http.disconnect"
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self._status is not None:
                raise RuntimeError("the application began a second reply: neither was sent")
            self._status = message["status"]
            self._request.answering()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise ReplyTooLarge("the reply is larger than max_reply: nothing of it was sent")
        self.messages.append(message)
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        self._whole = self._whole or last

    def finish(self) -> None:
        if not self.messages and self._gone:
            return  # nobody is left to be answered
        if not self._whole or self._status is None:
            raise RuntimeError("the application returned without a whole reply")
        self._request.check(success=self._status < 400)


async def _send_failure(send: Send, error: BaseException) -> None:
    body = failure_body(error)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class CommitBeforeReplyWSGI:
    """The same for WSGI: the application's iterable is read and closed before the status line leaves."""

    def __init__(self, app: Any, *, max_reply: int = MAX_REPLY, propagate: bool = False) -> None:
        self._app = app
        self._max_reply = max_reply
        self._propagate = propagate

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in SAFE_METHODS:
            passed: Iterable[bytes] = self._app(environ, start_response)
            return passed
        with units.request() as request:
            try:
                status, headers, body = self._whole(request, environ)
                request.check(success=int(status.split(" ", 1)[0]) < 400)
            except Exception as error:
                _log.exception("reply held back: %s", type(error).__name__)
                if self._propagate:
                    raise
                status, body = "500 Internal Server Error", [failure_body(error)]
                headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body[0])))]
        start_response(status, headers)
        return body

    def _whole(self, request: units.Request, environ: Environ) -> tuple[str, list[tuple[str, str]], list[bytes]]:
        started: list[tuple[str, list[tuple[str, str]]]] = []
        body: list[bytes] = []
        left = self._max_reply

        def keep(data: bytes) -> None:
            nonlocal left
            left -= len(data)
            if left < 0:
                raise ReplyTooLarge("the reply is larger than max_reply: nothing of it was sent")
            body.append(data)

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
            request.answering()
            if exc_info is not None:
                body.clear()  # nothing of it has left
            elif started:
                raise RuntimeError("the application began a second reply: neither was sent")
            started[:] = [(status, headers)]
            return keep

        pieces = self._app(environ, start)
        try:
            for piece in pieces:
                keep(piece)
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()
        if not started:
            raise RuntimeError("the application returned without a reply")
        return (*started[0], body)
