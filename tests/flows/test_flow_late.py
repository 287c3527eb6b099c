"""A gateway that stands still beyond its lease and wakes, and one whose word comes late (K4-14)."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from flow_client import Api
from flow_merchant import RawMerchant, reply
from flow_processes import GatewayProcess, RedisProcess

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]


async def test_k4_14_a_gateway_that_wakes_after_an_operator_overwrites_nothing_and_history_keeps_both(
    api: Api,
    merchant: RawMerchant,
    redis_process: RedisProcess,
    start_gateway: Callable[..., GatewayProcess],
    eventually: Eventually,
) -> None:
    """K4-14, 4.4: stopped during the merchant's work, swept by another, resolved as O-1, woken with O-2 in hand."""
    process = start_gateway(redis_process.url)
    asleep = api.by(url=lambda: process.url)
    await asleep.register("place_order", merchant.url, timeout_s=2)
    gate = asyncio.Event()
    merchant.waits_for(gate, lambda request, connection: _answer("O-2"))
    calling = asyncio.create_task(asleep.call("w1"))
    await eventually(lambda: merchant.hits == 1)
    process.signal(signal.SIGSTOP)
    gate.set()
    await eventually(api.unknown)
    effect = merchant.requests[0].headers["idempotency-key"]
    said = {"company": api.company, "conversation": "c-1", "outcome": "succeeded", "result": {"order": "O-1"}}
    resolved = await api.send("POST", f"/v1/effects/{effect}/resolve", {**said, "note": "seen in the shop"})
    assert resolved.status == 200, resolved.raw
    process.signal(signal.SIGCONT)
    await calling

    repeat = await api.call("w1")
    assert (repeat.decision, repeat.json["result"]) == ("replay", {"order": "O-1"})
    (stored,) = await api.stored("w1")
    assert stored["result"] == {"order": "O-1"}
    by_type = {event["type"]: event for event in stored["events"]}
    assert by_type["effect.resolved"]["outcome"] == "succeeded"
    if "effect.conflict" in by_type:  # it read the answer before it saw that its time was over
        assert by_type["effect.conflict"]["seen"] == '{"order": "O-2"}'
        assert any("CRITICAL" in line and effect in line for line in process.said)
    assert merchant.hits == 1


async def _answer(order: str) -> bytes:
    return reply({"order": order})


class HeldBack:
    """Stands between one gateway and its Redis: while it is shut, what that gateway writes waits here."""

    def __init__(self, redis_socket: Path, socket: Path) -> None:
        self.url = f"unix://{socket}"
        self.open = asyncio.Event()
        self.open.set()
        self._redis_socket, self._socket = redis_socket, socket

    async def __aenter__(self) -> HeldBack:
        self._server = await asyncio.start_unix_server(self._between, self._socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _between(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_unix_connection(self._redis_socket)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pass(reader, to, self.open))
            both.create_task(self._pass(there, writer, None))

    async def _pass(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, gate: asyncio.Event | None) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                if gate is not None:
                    await gate.wait()
                to.write(data)
                await to.drain()
        to.close()


async def test_k4_14_an_outcome_that_reaches_the_ledger_after_an_operators_word_overwrites_nothing(
    api: Api,
    merchant: RawMerchant,
    redis_process: RedisProcess,
    start_gateway: Callable[..., GatewayProcess],
    eventually: Eventually,
) -> None:
    """K4-14, 4.3, 4.4: the merchant has said O-2, and what its gateway writes of it is on the way until the call was
    swept by another and resolved as O-1. What stands stays, the log keeps both, and the alarm is raised."""
    with tempfile.TemporaryDirectory() as folder:  # a socket's path has to be short
        async with HeldBack(redis_process.socket, Path(folder) / "s") as between:
            process = await asyncio.to_thread(start_gateway, between.url)
            late = api.by(url=lambda: process.url)
            await late.register("place_order", merchant.url, timeout_s=2)
            gate = asyncio.Event()
            merchant.waits_for(gate, lambda request, connection: _answer("O-2"))
            calling = asyncio.create_task(late.call("w2"))
            await eventually(lambda: merchant.hits == 1)
            between.open.clear()
            gate.set()
            await eventually(api.unknown)
            effect = merchant.requests[0].headers["idempotency-key"]
            said = {"company": api.company, "conversation": "c-1", "outcome": "succeeded", "result": {"order": "O-1"}}
            resolved = await api.send("POST", f"/v1/effects/{effect}/resolve", {**said, "note": "seen in the shop"})
            assert resolved.status == 200, resolved.raw
            between.open.set()
            await calling

            async def both() -> dict[str, Any]:
                (stored,) = await api.stored("w2")
                by_type = {event["type"]: event for event in stored["events"]}
                return by_type if "effect.conflict" in by_type else {}

            by_type = await eventually(both)
            assert by_type["effect.resolved"]["outcome"] == "succeeded"
            assert by_type["effect.conflict"]["seen"] == '{"order": "O-2"}'
            await eventually(lambda: any("CRITICAL" in line and effect in line for line in process.said))
            repeat = await api.call("w2")
            assert (repeat.decision, repeat.json["result"]) == ("replay", {"order": "O-1"})
            assert merchant.hits == 1
            process.kill()
