"""A head that never ends does not keep its connection (9.4)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from gateway.web import http_protocol
from gateway.web.http_protocol import BoundedHttp

PATIENCE = (0.05, 1.0, 20.0)
"""Bounds of a head, tried in turn: on a machine that stands still for one, not even the first request comes in time."""


class Served:
    """Where the application is served by the gateway's own protocol, and its connections."""

    def __init__(self) -> None:
        self.port = 0
        self.connections: list[BoundedHttp] = []

    def make(self, config: uvicorn.Config, state: Any) -> BoundedHttp:
        self.connections.append(BoundedHttp(config=config, server_state=state, app_state={}))
        return self.connections[-1]


@pytest.fixture
async def served(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(http_protocol, "HEAD_S", 1_000)
    config = uvicorn.Config(gateway.app, http=BoundedHttp, lifespan="off", log_config=None, access_log=False)
    config.load()
    state = uvicorn.Server(config).server_state
    served = Served()
    server = await asyncio.get_running_loop().create_server(lambda: served.make(config, state), "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    yield served
    server.close()
    await server.wait_closed()
    for connection in served.connections:
        connection.transport.abort()
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    "sent", [b"", b"POST /v1/calls HTTP/1.1\r\nhost: x\r\nx-slow: "], ids=["nothing", "half a head"]
)
async def test_p9_4_a_head_that_does_not_come_in_time_ends_its_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """9.4: also on a connection that has already served a request."""
    for head_s in PATIENCE:
        monkeypatch.setattr(http_protocol, "HEAD_S", head_s)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n" + sent)
        answer = b""
        async with asyncio.timeout(60):
            with contextlib.suppress(OSError):
                answer = await reader.read()  # until the server hangs up
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        if answer:
            break
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.count(b"HTTP/1.1") == 1


async def test_p9_4_a_call_that_takes_longer_than_a_head_may_is_answered(gateway: Any, served: Served) -> None:
    """9.4: the bound is the head's, not the call's, though the next request's head has begun to arrive."""
    gate = gateway.merchant.gates["place_order"] = asyncio.Event()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    body = b'{"company": "acme", "conversation": "c", "tool": "place_order", "arguments": {}, "tool_call_id": "a"}'
    head = b"POST /v1/calls HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k-runtime\r\ncontent-length: %d\r\n\r\n"
    writer.write(head % len(body) + body + b"GET /next HTTP/1.1\r\n")
    await gateway.merchant.reached.wait()
    (connection,) = served.connections
    connection._head_began -= 1_000
    connection._look()
    gate.set()
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    writer.close()
    await writer.wait_closed()
