"""A shop as a plain ASGI application. Bodies in and out are buffered whole."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Executor
from typing import Any

from merchant_sdk.endpoint import MOST_DISCARDED, Endpoint, Headers, Job, Rejected, Reply, reply_headers, reply_to
from merchant_sdk.errors import BodyTooLarge
from merchant_sdk.shop import Shop
from merchant_sdk.store import AsyncStore

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
        shop = self.shop
        try:
            if self._endpoint.is_health(scope["method"], scope["path"]):
                return await self._run(shop.readers, self._endpoint.health)
            headers: Headers = list(scope["headers"])
            try:
                self._endpoint.check_head(scope["method"], headers)
            except (Rejected, BodyTooLarge):
                await _discard_body(headers, receive)
                raise
            job: Job = self._endpoint.accept(scope["path"], headers, await self._read_body(receive))
            threads = shop.readers if job.kind == "read" else shop.writers
            return await self._run(
                threads, job.run, functools.partial(_finish, asyncio.get_running_loop(), shop.on_loop)
            )
        except _ClientGone:
            return None
        except Exception as error:
            return reply_to(error)

    async def _run(self, threads: Executor, work: Callable[..., Reply], *arguments: Any) -> Reply:
        """In a thread, so that the loop goes on; or on the loop, where the store lives there."""
        if self.shop.on_loop is None:
            return await asyncio.get_running_loop().run_in_executor(threads, _replied, work, *arguments)
        reply: Reply = await self.shop.on_loop.run(work, *arguments)
        return reply

    async def _read_body(self, receive: Receive) -> bytes:
        body, length, more = bytearray(), 0, True
        while more and length <= MOST_DISCARDED:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            chunk = message.get("body", b"")
            length += len(chunk)
            if length <= self._endpoint.max_body:
                body += chunk
            more = message.get("more_body", False)
        self._endpoint.check_length(length)
        return bytes(body)


def _replied(work: Callable[..., Reply], *arguments: Any) -> Reply:
    # Judged in the thread: no future takes the StopIteration of a bare `next`, and the request would never be answered.
    try:
        return work(*arguments)
    except Exception as error:
        return reply_to(error)


async def _discard_body(headers: Headers, receive: Receive) -> None:
    """Read a body that nobody wants, so that its sender lives to see the answer (MOST_DISCARDED)."""
    names = {name.lower() for name, _ in headers}
    if b"expect" in names or not names & {b"content-length", b"transfer-encoding"}:
        return  # its sender waits to be asked for it, and reading asks; or there is none
    left, more = MOST_DISCARDED, True
    while more and left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        more = message.get("more_body", False)


def _finish(loop: asyncio.AbstractEventLoop, on_loop: AsyncStore | None, result: Any) -> Any:
    """The result itself, or that of a coroutine, which runs on its own loop while this thread waits."""
    if not inspect.iscoroutine(result):
        return result
    if on_loop is not None:
        return on_loop.wait(result)
    return asyncio.run_coroutine_threadsafe(result, loop).result()


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
