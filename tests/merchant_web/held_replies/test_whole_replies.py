"""What an application sends leaves whole and within its cap, or as a 500."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from merchant_sdk import CommitBeforeReply, CommitBeforeReplyWSGI


async def test_p9_4_a_reply_without_an_end_is_a_500_and_not_a_full_memory(ask: Any, starlette: Any, wsgi: Any) -> None:
    """9.4: capped as it comes, in both kinds of server."""

    async def handler(request: Any) -> StreamingResponse:
        async def stream() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0)

        return StreamingResponse(stream())

    def endless(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        while True:
            yield b"x" * 1000

    assert (await ask(starlette(handler, max_reply=5000)))[0] == 500
    assert wsgi(CommitBeforeReplyWSGI(endless, max_reply=5000))[0] == 500


@pytest.mark.parametrize(("size", "status"), [(5000, 200), (5001, 500)])
async def test_p9_4_a_reply_is_capped_at_the_byte(ask: Any, starlette: Any, wsgi: Any, size: int, status: int) -> None:
    """9.4: one byte more, and nothing of it leaves."""

    async def handler(request: Any) -> StreamingResponse:
        return StreamingResponse(iter([b"x" * 4000, b"x" * (size - 4000)]))

    def whole(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"x" * size]

    for said, body in (
        (await ask(starlette(handler, max_reply=5000)))[:2],
        wsgi(CommitBeforeReplyWSGI(whole, max_reply=5000)),
    ):
        assert (said, b"xx" in body) == (status, status == 200)


OK: list[dict[str, Any]] = [
    {"type": "http.response.start", "status": 200, "headers": []},
    {"type": "http.response.body", "body": b"placed"},
]
HINT = {"type": "http.response.early_hint", "links": [b"</style.css>"]}
DEBUG = {"type": "http.response.debug", "info": {}}
SORRY = [{"type": "http.response.start", "status": 500, "headers": []}, {"type": "http.response.body", "body": b"no"}]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([HINT, *OK], [HINT, *OK]),
        ([DEBUG, *OK], [DEBUG, *OK]),
        ([OK[0], {**OK[1], "more_body": True}, *SORRY], 500),
        ([*OK, *SORRY], 500),
        ([OK[1]], 500),
        ([OK[0]], 500),
    ],
)
async def test_k7_11_whatever_an_application_sends_one_whole_reply_leaves_or_a_500(
    messages: list[dict[str, Any]], expected: Any
) -> None:
    """K7-11: a hint before the reply is none, and of two replies the first must not have left."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["extensions"] == {"http.response.early_hint": {}}
        for message in messages:
            await send(message)

    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    offered: Any = {"http.response.early_hint": {}, "http.response.pathsend": {}, "http.response.zerocopysend": {}}
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "extensions": offered}
    await CommitBeforeReply(app)(scope, receive, send)
    if expected == 500:
        assert [message.get("status") for message in said] == [500, None]
        assert b"placed" not in said[1]["body"]
    else:
        assert said == expected


def test_k7_11_a_wsgi_application_that_begins_two_replies_gets_a_500(wsgi: Any) -> None:
    """K7-11: unless it takes the first one back, which `exc_info` says."""

    def twice(again: Any) -> Any:
        def app(environ: Any, start_response: Any) -> list[bytes]:
            start_response("200 OK", [])
            start_response("404 Not Found", [], *again)
            return [b"gone"]

        return CommitBeforeReplyWSGI(app)

    assert wsgi(twice(()))[0] == 500
    assert wsgi(twice([(ValueError, ValueError(), None)])) == (404, b"gone")
