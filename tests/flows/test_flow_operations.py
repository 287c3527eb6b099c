"""Stopping, measuring and logging, as whoever runs the gateway sees it."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import string
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from flow_client import Api, of_requests
from flow_merchant import RawMerchant
from flow_processes import GatewayProcess, RedisProcess

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]
Heard = Callable[[], Awaitable[list[str]]]
MIB = 1024 * 1024


async def test_k8_01_a_graceful_stop_answers_and_records_everything_it_was_given(
    api: Api,
    merchant: RawMerchant,
    redis_process: RedisProcess,
    start_gateway: Callable[..., GatewayProcess],
    eventually: Eventually,
) -> None:
    """K8-01: twenty calls in flight, five on connections that are accepted but not read; readiness turns at once,
    all are answered and recorded, exit status 0."""
    process = start_gateway(redis_process.url)
    shop = api.by(url=lambda: process.url)
    await shop.register("place_order", merchant.url, timeout_s=30)
    gate = asyncio.Event()
    merchant.waits_for(gate)
    calls = [asyncio.create_task(shop.call(f"g{n}", arguments={"n": n})) for n in range(20)]
    await eventually(lambda: merchant.hits == 20)
    assert (await shop.send("GET", "/readyz")).status == 200

    process.signal(signal.SIGSTOP)  # so that the connections wait in the kernel, unread, as the signal comes
    unread = [await asyncio.open_connection("127.0.0.1", process.port) for _ in range(5)]
    for n, (_, writer) in enumerate(unread, 20):
        writer.write(_plain_call(api.company, f"g{n}", {"n": n}))
        await writer.drain()
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGCONT)

    async def unready() -> bool:
        answer = await shop.send("GET", "/readyz")
        return (answer.status, answer.status == 503 and answer.code) == (503, "stopping")

    await eventually(unready)
    await eventually(lambda: merchant.hits == 25)
    await eventually(lambda: _refused(process))
    gate.set()
    answers = await asyncio.gather(*calls)
    assert {(answer.decision, answer.json["status"]) for answer in answers} == {("proceed", "succeeded")}
    for reader, writer in unread:
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await writer.wait_closed()
    assert await asyncio.to_thread(process.exit_status) == 0
    for n in range(25):  # asked at another gateway on the same ledger
        (stored,) = await api.stored(f"g{n}")
        assert stored["status"] == "succeeded"
    assert merchant.hits == 25


async def test_k8_05_metrics_and_memory_do_not_grow_with_what_callers_invent(shop: Api) -> None:
    """K8-05, 9.5: 25,000 calls with random tools, conversations, ids and paths; the number of series stands still."""
    chance = random.Random(5)

    def name() -> str:
        return "".join(chance.choices(string.ascii_letters + "/.%", k=12))

    async def some(batches: int) -> None:
        for _ in range(batches):
            place = {"company": shop.company, "arguments": {}}
            calls = [{**place, "conversation": name(), "tool_call_id": name(), "tool": name()} for _ in range(63)]
            known = {**place, "conversation": name(), "tool_call_id": name(), "tool": "place_order"}
            answered = await shop.send("POST", "/v1/calls/batch", {"calls": [*calls, known]})
            assert [entry.get("code") for entry in answered.json["answers"]] == ["unknown_tool"] * 63 + [None]
            await asyncio.gather(
                shop.send(chance.choice(["GET", "POST", "PURGE"]), "/" + name().replace("%", "%25")),
                shop.send("GET", f"/v1/companies/{shop.company}/tools/{name().replace('%', '').replace('/', '')}"),
                shop.call(name(), name().replace("/", "_"), conversation=name()),
                shop.by(name()).call(name()),
            )

    async def series() -> int:
        text = (await shop.send("GET", "/metrics")).raw.decode()
        return sum(not line.startswith("#") for line in text.splitlines())

    await some(10)
    for _ in range(2):
        await series()
    before, memory = await series(), await shop.metric("process_resident_memory_bytes")
    await some(400)
    assert await series() == before
    assert before < 400
    assert await shop.metric("process_resident_memory_bytes") < memory + 24 * MIB


FORWARDED = ["10.0.0.1", "203.0.113.7", "::1", "[2001:db8::1]:443", "unknown", "a" * 4_000, ", ".join(["1.2.3.4"] * 50)]


@pytest.mark.parametrize("address", FORWARDED)
async def test_k8_06_forwarding_headers_change_nothing(shop: Api, merchant: RawMerchant, address: str) -> None:
    """K8-06, 9.5: what was authenticated counts; an address that the caller wrote counts for nothing."""
    headers = {"X-Forwarded-For": address, "Forwarded": f"for={address}", "X-Real-IP": address}
    headers |= {"X-Forwarded-Host": address, "X-Forwarded-Proto": address, "X-Forwarded-Prefix": "/v2"}
    call = {"company": shop.company, "conversation": "c-1", "tool_call_id": "f1", "tool": "place_order"}
    answers = [await shop.send("POST", "/v1/calls", {**call, "arguments": {}}, headers=headers) for _ in range(3)]
    assert [answer.decision for answer in answers] == ["proceed", "replay", "replay"]
    assert merchant.hits == 1
    assert address.encode() not in merchant.requests[0].body


JUNK: list[tuple[bytes, bytes]] = [
    (b"POST /v1/calls HTTP/1.1", b"{"),
    (b"POST /v1/calls HTTP/1.1", b"\xff\xfe\x00junk"),
    (b"POST /v1/calls HTTP/1.1", b"[" * 5_000),
    (b"POST /v1/calls HTTP/1.1", b'{"company": 7, "surprise": "SECRETBODY"}'),
    (b"POST /v1/calls/batch HTTP/1.1", b'{"calls": 3}'),
    (b"GET /v1/calls?company=%ff&x=SECRETQUERY HTTP/1.1", b""),
    (b"GET /%00/../SECRETPATH HTTP/1.1", b""),
    (b"PURGE /v1/calls HTTP/1.1", b""),
    (b"PUT /v1/companies/%C3%28/tools/x HTTP/1.1", b"{}"),
    (b"DELETE /v1/events HTTP/1.1", b""),
]


@pytest.mark.parametrize("key", [b"dev", b"nobody", b"caf\xe9"])
async def test_k8_12_p9_4_junk_is_a_4xx_and_at_most_one_short_line(
    shop: Api, gateway: GatewayProcess, key: bytes, heard: Heard
) -> None:
    """K8-12, 9.4: malformed or anonymous, hundreds of times; no trace, and nothing of what was sent."""
    count = 0
    for _ in range(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        for first, body in JUNK:
            head = first + b"\r\nHost: x\r\nAuthorization: Bearer " + key
            writer.write(head + b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            answered = await reader.readuntil(b"\r\n\r\n")
            assert 400 <= int(answered.split(b" ")[1]) < 500, (first, answered)
            length = next(line for line in answered.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
            count += 1
        writer.close()
        await writer.wait_closed()
    assert (await shop.send("GET", "/livez")).status == 200
    lines = await heard()
    assert len(of_requests(lines)) <= count
    assert all(len(line) < 200 for line in of_requests(lines))
    assert not [line for line in lines if "SECRET" in line or "Traceback" in line]


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\x00" * 4_096, b"A" * 200_000])
async def test_k8_12_what_is_no_http_gets_one_short_line_at_most(
    shop: Api, gateway: GatewayProcess, junk: bytes, heard: Heard
) -> None:
    """K8-12, 9.4: a TLS greeting, a broken first line, an endless one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        writer.write(junk)
        writer.write_eof()
        answered = await reader.read()
    except OSError:  # it has hung up already
        answered = b""
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    assert answered == b"" or answered.startswith(b"HTTP/1.1 400 ")
    assert (await shop.send("GET", "/livez")).status == 200
    lines = await heard()
    assert len(of_requests(lines)) <= 1
    assert all(len(line) < 200 for line in of_requests(lines))


def _plain_call(company: str, tool_call_id: str, arguments: object) -> bytes:
    call = {"company": company, "conversation": "c-1", "tool_call_id": tool_call_id, "tool": "place_order"}
    body = json.dumps({**call, "arguments": arguments}).encode()
    head = b"POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer dev\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def _refused(process: GatewayProcess) -> bool:
    """It accepts no new connections."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", process.port)
    except OSError:
        return True
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    return False


async def test_k8_01_an_upload_that_never_ends_does_not_hold_up_a_stop(
    redis_process: RedisProcess, start_gateway: Callable[..., GatewayProcess]
) -> None:
    """K8-01, 9.4: nothing of it was acted on, so it is refused in a problem, without a trace, long before the grace."""
    process = start_gateway(redis_process.url)
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    writer.write(
        b"POST /v1/calls HTTP/1.1\r\nhost: x\r\nauthorization: Bearer dev\r\n"
        b"content-type: application/json\r\ncontent-length: 100\r\n\r\n" + b'{"company":'
    )
    await writer.drain()
    await asyncio.sleep(0)
    process.signal(signal.SIGTERM)
    answer = await reader.read()
    writer.close()
    assert await asyncio.to_thread(process.exit_status) == 0
    assert b"application/problem+json" in answer
    assert not any("Traceback" in line or "Exception in ASGI" in line for line in process.said)
