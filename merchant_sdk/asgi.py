"""A shop as a plain ASGI application. Bodies in and out are buffered whole."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from merchant_sdk.endpoint import Endpoint, Headers, Job, Reply, reply_headers, reply_to
from merchant_sdk.shop import Shop

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _ClientGone(Exception):
    """The body was cut off: there is nobody to answer."""


class MerchantApp:
    """A plain ASGI application over a Shop. Answers POST on every path, so it mounts anywhere: a path that ends in
    `/status` takes status questions (5.4), any other takes calls; GET on `…/health` says whether the database is
    there."""

    def __init__(self, shop: Shop, *, max_body: int) -> None:
        self.shop = shop
        self._endpoint = Endpoint(shop, max_body=max_body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "http":
            reply = await self._answer(scope, receive)
            if reply is not None:
                body = reply.body.encode()
                headers = reply_headers(reply, body)
                await send({"type": "http.response.start", "status": reply.status, "headers": headers})
                await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Scope, receive: Receive) -> Reply | None:
        """What to say, or None if nobody is left to hear it."""
        loop, shop = asyncio.get_running_loop(), self.shop
        try:
            if self._endpoint.is_health(scope["method"], scope["path"]):
                return await loop.run_in_executor(shop.readers, self._endpoint.health)
            headers: Headers = list(scope["headers"])
            self._endpoint.check_head(scope["method"], headers)
            job: Job = self._endpoint.accept(scope["path"], headers, await self._read_body(receive))
            threads = shop.readers if job.kind == "read" else shop.writers
            return await loop.run_in_executor(threads, job.run, functools.partial(_finish, loop))
        except _ClientGone:
            return None
        except Exception as error:
            return reply_to(error)

    async def _read_body(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            body += message.get("body", b"")
            self._endpoint.check_length(len(body))
            if not message.get("more_body", False):
                return bytes(body)


def _finish(loop: asyncio.AbstractEventLoop, result: Any) -> Any:
    """The result itself, or that of a coroutine, which runs on its own loop while this thread waits."""
    if not inspect.iscoroutine(result):
        return result
    return asyncio.run_coroutine_threadsafe(result, loop).result()


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
