"""What goes back over ASGI: a whole body at once, the same few headers on every answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.core.errors import GatewayError, TooLarge, Unauthenticated
from gateway.web.body import BodyLate
from gateway.web.head import Head
from gateway.web.problems import PROBLEM_TYPE, problem_bytes, wait_s

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON: Final = b"application/json"
_JSON_TYPE: Final = (b"content-type", JSON)
_NO_STORE: Final = (b"cache-control", b"no-store")
_NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")

_encode: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Reply:
    """`media` None: no body (204)."""

    status: int
    body: bytes
    media: bytes | None = JSON
    headers: tuple[Header, ...] = ()


@dataclass(slots=True)
class Streamed:
    """Server-sent events, one chunk at a time; status 200."""

    chunks: AsyncGenerator[bytes, None]
    status: int = 200


SLOW_S: Final = 10.0
"""How long one chunk may wait for a reader whose buffers are full."""
_EVENT_STREAM: Final = (b"content-type", b"text/event-stream")
_UNBUFFERED: Final = (b"x-accel-buffering", b"no")


def json_reply(value: Any, status: int = 200) -> Reply:
    """Of what msgspec can write; stored results go in as raw text, digit for digit."""
    return Reply(status, _encode(value))


NO_CONTENT: Final = Reply(204, b"", None)


def problem_reply(error: GatewayError, head: Head, allow: str | None = None) -> Reply:
    headers: list[Header] = []
    wait = wait_s(error)
    if wait is not None:
        headers.append((b"retry-after", str(wait).encode()))
    if isinstance(error, Unauthenticated):
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, TooLarge | BodyLate):
        # What is left of the body would have to be waited for and thrown away.
        headers.append((b"connection", b"close"))
    if allow is not None:
        headers.append((b"allow", allow.encode()))
    return Reply(error.status, problem_bytes(error, head.request_id), PROBLEM_TYPE.encode(), tuple(headers))


def header_list(head: Head, reply: Reply) -> list[Header]:
    """All headers of an answer but those that are the server's."""
    headers = [
        (b"request-id", head.request_id.encode()),
        _NO_STORE,
        _NO_SNIFF,
    ]
    if reply.media is not None:
        headers.append(_JSON_TYPE if reply.media is JSON else (b"content-type", reply.media))
        headers.append((b"content-length", str(len(reply.body)).encode()))
    headers.extend(reply.headers)
    return headers


async def send_reply(send: Send, head: Head, reply: Reply) -> None:
    head.answered = True
    await send({"type": "http.response.start", "status": reply.status, "headers": header_list(head, reply)})
    await send({"type": "http.response.body", "body": b"" if head.method == "HEAD" else reply.body})


async def send_stream(receive: Receive, send: Send, head: Head, streamed: Streamed) -> None:
    """Send chunk after chunk until there are no more, the client hangs up, or it takes none for SLOW_S: then the answer
    is left unfinished, which the server ends by closing the connection."""
    head.answered = True
    headers = [(b"request-id", head.request_id.encode()), _NO_STORE, _NO_SNIFF, _EVENT_STREAM, _UNBUFFERED]
    telling = asyncio.create_task(_tell(send, headers, head.method == "HEAD", streamed))
    leaving = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (telling, leaving):
            task.cancel()
        ends = await asyncio.gather(telling, leaving, return_exceptions=True)
        await streamed.chunks.aclose()
    if isinstance(ends[0], Exception) and not isinstance(ends[0], TimeoutError):
        raise ends[0]


async def _tell(send: Send, headers: list[Header], bare: bool, streamed: Streamed) -> None:
    await send({"type": "http.response.start", "status": streamed.status, "headers": headers})
    if not bare:
        async for chunk in streamed.chunks:
            async with asyncio.timeout(SLOW_S):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
