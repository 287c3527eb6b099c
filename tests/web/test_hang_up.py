"""A client that hangs up changes nothing (5.3)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
import uvicorn
from starlette.middleware.base import BaseHTTPMiddleware


async def _hang_up(gateway: Any, task: asyncio.Task[Any]) -> None:
    await gateway.merchant.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _finished(gateway: Any) -> None:
    assert await gateway.app.calls.drain(60)


async def test_k8_04_a_call_runs_to_its_end_and_is_recorded_though_its_client_is_gone(gateway: Any) -> None:
    """K8-04, 5.3: cancelled with its client meanwhile; 'in progress' before the end, the stored result after."""
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    await _hang_up(gateway, asyncio.create_task(gateway.call()))
    during = await gateway.call()
    gate.set()
    await _finished(gateway)
    after = await gateway.call()
    assert (during.status, during.problem["outcome"]) == (409, "in_flight")
    assert (after.status, after.json()["decision"]) == (200, "replay")
    assert len(gateway.merchant.hits) == 1


async def test_k8_04_holds_with_middleware_around_the_application(gateway: Any) -> None:
    """K8-04: middleware that cancels what it wraps does not reach the call."""

    async def passing(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    inner = gateway.app
    gateway.app = BaseHTTPMiddleware(inner, passing)
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    task = asyncio.create_task(gateway.call())
    await _hang_up(gateway, task)
    gateway.app = inner
    gate.set()
    await _finished(gateway)
    assert (await gateway.call()).json()["decision"] == "replay"
    assert len(gateway.merchant.hits) == 1


async def test_k8_04_a_whole_batch_runs_on_its_waiting_calls_too(make_gateway: Any) -> None:
    """K8-04: calls of a batch that had not begun when the client hung up are made as well."""
    from gateway.web.services import Limits

    gateway = make_gateway(Limits(batch_at_once=2))
    await gateway.register("place_order")
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    calls = [
        {"company": "acme", "conversation": "c", "tool": "place_order", "arguments": {}, "tool_call_id": f"{n}"}
        for n in range(6)
    ]
    await _hang_up(gateway, asyncio.create_task(gateway.post("/v1/calls/batch", {"calls": calls})))
    gate.set()
    await _finished(gateway)
    again = await gateway.post("/v1/calls/batch", {"calls": calls})
    assert [entry["decision"] for entry in again.json()["answers"]] == ["replay"] * 6
    assert len(gateway.merchant.hits) == 6


async def test_k8_04_a_fault_that_nobody_is_there_to_hear_of_is_one_log_line(gateway: Any, caplog: Any) -> None:
    """K8-04, K8-12: no trace from the loop about an exception nobody fetched."""
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    gateway.merchant.faults["place_order"] = RuntimeError("whsec_secret")
    with caplog.at_level("INFO"):
        await _hang_up(gateway, asyncio.create_task(gateway.call()))
        gate.set()
        await _finished(gateway)
        await asyncio.sleep(0)
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "RuntimeError" in line.getMessage()
    assert "secret" not in caplog.text


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_k8_04_holds_under_both_servers_over_a_real_socket(gateway: Any, http: str) -> None:
    """K8-04: the connection is cut while the merchant works, under each HTTP server that may carry the gateway."""
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    config = uvicorn.Config(gateway.app, http=http, lifespan="on", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.lifespan.startup()
    cut = asyncio.Event()

    class Watched(config.http_protocol_class):  # type: ignore[name-defined,misc]
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            cut.set()

    loop, state = asyncio.get_running_loop(), server.server_state
    listening = await loop.create_server(
        lambda: Watched(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    port = listening.sockets[0].getsockname()[1]
    body = json.dumps(
        {"company": "acme", "conversation": "c-1", "tool": "place_order", "arguments": {}, "tool_call_id": "a"}
    ).encode()
    head = b"POST /v1/calls HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k-runtime\r\ncontent-length: %d\r\n\r\n"
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head % len(body) + body)
        await gateway.merchant.reached.wait()
        writer.transport.abort()
        await cut.wait()
        gate.set()
        await _finished(gateway)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.replace(b"host: x", b"host: x\r\nconnection: close") % len(body) + body)
        answer = await reader.read()
        writer.close()
        assert b'"decision":"replay"' in answer
        assert b"idempotent-replayed: true" in answer.lower()
        assert len(gateway.merchant.hits) == 1
    finally:
        listening.close()
        await listening.wait_closed()
        await server.lifespan.shutdown()


async def test_k8_04_a_stop_can_wait_for_calls_whose_clients_are_gone(gateway: Any) -> None:
    """5.3: the server's own tasks end with the connection; these do not, and a graceful stop waits for them."""
    assert await gateway.app.calls.drain(0)
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    await _hang_up(gateway, asyncio.create_task(gateway.call()))
    assert not await gateway.app.calls.drain(0)
    waiting = asyncio.create_task(gateway.app.calls.drain(60))
    gate.set()
    assert await waiting
    assert (await gateway.call()).json()["decision"] == "replay"
