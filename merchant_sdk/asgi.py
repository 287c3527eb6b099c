"""The merchant's endpoint: verify, parse, work, commit, and only then reply (semantics 6).

The reply is built from `Work.answer`, which does not exist before the commit; there is no other way out of
here with a 200. Bodies in and out are buffered whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from merchant_sdk.errors import MalformedCall, Refused, SignatureError, StoreBusy
from merchant_sdk.reply import to_json
from merchant_sdk.shop import Shop
from merchant_sdk.signing import verify
from merchant_sdk.wire import Call, parse_call

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_log = logging.getLogger("merchant_sdk")


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole HTTP answer. `body` is JSON text."""

    status: int
    body: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _Rejected(Exception):
    """A request that is answered before anybody looks at what it asks."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply


class _ClientGone(Exception):
    """The body was cut off: there is nobody to answer."""


class MerchantApp:
    """A plain ASGI application over a Shop. Answers POST on every path, so it mounts anywhere."""

    def __init__(self, shop: Shop, *, max_body: int) -> None:
        self._shop = shop
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "http":
            reply = await self._answer(scope, receive)
            if reply is not None:
                await _send(reply, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Reply | None:
        """What to say, or None if nobody is left to hear it. What each error means on the wire (semantics 5)."""
        try:
            return await self._handle(scope, receive)
        except _Rejected as rejected:
            return rejected.reply
        except _ClientGone:
            return None
        except SignatureError as error:
            _log.warning("request refused: %s", error)
            # One answer for all kinds: the reason is for our log, not for whoever is guessing.
            return _error(401, "signature_invalid", "The signature is missing or wrong.")
        except MalformedCall as error:
            _log.warning("call refused: %s", error)
            return _error(400, "malformed_call", f"This is not a call: {error}.")
        except Refused as refused:
            return _error(refused.status, refused.code, refused.message)
        except StoreBusy:
            # 429 tells the gateway that nothing was executed, which is true: the work never began.
            _log.warning("call put off: the database stayed locked")
            return _error(429, "merchant_busy", "The shop is busy. Nothing was done.", (b"retry-after", b"1"))
        except Exception:
            _log.exception("call failed: rolled back")
            return _error(500, "merchant_error", "The shop failed to finish this call and stored nothing of it.")

    async def _handle(self, scope: Scope, receive: Receive) -> Reply:
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        if scope["method"] != "POST":
            raise _Rejected(_error(405, "method_not_allowed", "Calls are sent with POST.", (b"allow", b"POST")))
        if any(name.lower() == b"content-encoding" for name, _ in headers):
            raise _Rejected(_error(415, "encoding_not_accepted", "Bodies are sent without an encoding."))
        body = await self._read_body(headers, receive)
        verified = verify(self._shop.secrets, headers, body, now=self._shop.now())
        call = parse_call(verified.id, body)
        tool = self._shop.tools.get(call.tool)
        loop = asyncio.get_running_loop()
        if tool is not None and not tool.side_effecting:
            return Reply(200, await loop.run_in_executor(self._shop.readers, self._shop.run_read, call, loop))
        _require_idempotency_key(headers, call)
        answer = await loop.run_in_executor(self._shop.writers, self._shop.run_call, call, loop)
        replayed = ((b"idempotent-replayed", b"true"),) if answer.matched else ()
        return Reply(200, answer.body, replayed)

    async def _read_body(self, headers: list[tuple[bytes, bytes]], receive: Receive) -> bytes:
        too_large = _Rejected(_error(413, "body_too_large", f"A body is at most {self._max_body} bytes."))
        for name, value in headers:
            if name.lower() != b"content-length":
                continue
            if not value.isdigit():
                raise _Rejected(_error(400, "malformed_length", "Content-Length is a whole number."))
            if len(value) > 18 or int(value) > self._max_body:
                raise too_large
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            body += message.get("body", b"")
            if len(body) > self._max_body:
                raise too_large
            if not message.get("more_body", False):
                return bytes(body)


def _require_idempotency_key(headers: list[tuple[bytes, bytes]], call: Call) -> None:
    """The header is not signed, the equal `webhook-id` is: a captured request must not be replayed under
    another key."""
    keys = [value for name, value in headers if name.lower() == b"idempotency-key"]
    if not keys:
        raise MalformedCall("a side-effecting call carries an Idempotency-Key")
    if keys != [call.key.encode()]:
        raise SignatureError("no_match")


def _error(status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> Reply:
    return Reply(status, to_json({"error": {"code": code, "message": message}}), headers)


async def _send(reply: Reply, send: Send) -> None:
    body = reply.body.encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
