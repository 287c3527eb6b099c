"""Answers and requests that are compressed, or larger than anybody should send."""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from collections.abc import Callable

import pytest
from flow_client import Api
from flow_merchant import Connection, RawMerchant, Request, reply
from flow_processes import GatewayProcess

from gateway.core.outcome import RESULT_CAP


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def _bomb(size: int) -> bytes:
    """Zeros. One block is packed, and said again as often as it takes: a full flush makes it stand by itself."""
    block = bytes(1 << 20)
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    checked = 0
    for _ in range(size >> 20):
        checked = zlib.crc32(block, checked)
    ends = packer.flush() + struct.pack("<II", checked, size & 0xFFFFFFFF)
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + packed * (size >> 20) + ends


ENCODED = {
    "gzip bomb": (lambda: _bomb(1 << 30), "gzip"),
    "gzip bomb below the cap": (lambda: _bomb(1 << 29), "gzip"),  # read whole, so nothing but the rule stops it
    "nested gzip": (lambda: _gzip(_bomb(1 << 26)), "gzip, gzip"),
    "honest gzip": (lambda: _gzip(b'{"order": 1}'), "gzip"),
    "deflate": (lambda: zlib.compress(b'{"order": 1}'), "deflate"),
    "br": (lambda: b"\x0b\x02\x80{}\x03", "br"),
}


async def usual_memory(shop: Api, gateway: GatewayProcess) -> float:
    """What is resident now. From here on `peak_bytes` shows a rise, be it freed by the time somebody looks."""
    gateway.peak_bytes()
    return await shop.metric("process_resident_memory_bytes")


def test_k6_13_the_bomb_is_one() -> None:
    """What the tests below send does expand, to what it says, and its check sum holds."""
    assert zlib.decompress(_bomb(1 << 24), wbits=31) == bytes(1 << 24)
    assert len(_bomb(1 << 29)) < RESULT_CAP < len(_bomb(1 << 30)) < 2 << 20


@pytest.mark.parametrize(("body", "encoding"), ENCODED.values(), ids=ENCODED.keys())
async def test_k6_13_compressed_answers_are_not_opened(
    shop: Api, merchant: RawMerchant, gateway: GatewayProcess, body: Callable[[], bytes], encoding: str
) -> None:
    """K6-13, 9.4: none is asked for; one that comes leaves the outcome unknown, memory flat at every moment, and is not
    sent again."""
    merchant.answers(reply(body(), "Content-Type: application/json", f"Content-Encoding: {encoding}"))
    before = await usual_memory(shop, gateway)
    assert (await shop.call("z1")).json["status"] == "indeterminate"
    assert gateway.peak_bytes() < before + 32 * 1024 * 1024
    assert (await shop.call("z1")).decision == "replay"
    assert merchant.requests[0].headers["accept-encoding"] == "identity"
    assert merchant.hits == 1


async def test_k6_13_p4_12_an_honest_giant_is_done_with_its_result_dropped(
    shop: Api, merchant: RawMerchant, gateway: GatewayProcess
) -> None:
    """K6-13, 4.12: read to the cap and no further; done, flagged, never run again."""

    async def giant(request: Request, connection: Connection) -> bytes | None:
        size = 50 * 1024 * 1024
        await connection.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n[".encode()
        )
        for _ in range(size >> 20):
            await connection.write(b"1," * (1 << 19))
        return None

    merchant.behave = giant
    before = await usual_memory(shop, gateway)
    for decision in ("proceed", "replay"):
        answer = await shop.call("z2")
        assert (answer.decision, answer.json["status"]) == (decision, "succeeded")
        assert answer.json["error"]["code"] == "result_dropped"
    assert gateway.peak_bytes() < before + 32 * 1024 * 1024
    assert merchant.hits == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip"])
async def test_k6_13_a_compressed_request_is_415(shop: Api, merchant: RawMerchant, encoding: str) -> None:
    """K6-13, 9.4: refused by its header alone."""
    refused = await shop.send("POST", "/v1/calls", _bomb(1 << 24), headers={"Content-Encoding": encoding})
    assert (refused.status, refused.code) == (415, "encoding_refused")
    assert merchant.hits == 0


def _send_all_then_read(port: int, head: bytes, body: bytes) -> bytes:
    """What the simplest of clients does: nothing is read before everything is sent."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        plain.sendall(head + body)
        answer = b""
        while part := plain.recv(65_536):
            answer += part
        return answer


@pytest.mark.parametrize("framing", ["stated", "chunked"])
@pytest.mark.parametrize("size", [(1 << 20) + 1, 2 << 20, 5 << 20])
async def test_p9_4_a_client_that_sends_first_and_reads_then_gets_its_413(
    shop: Api, gateway: GatewayProcess, merchant: RawMerchant, framing: str, size: int
) -> None:
    """9.4: the answer is not lost in a reset of the connection; nothing was done."""
    head = b"POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer dev\r\nContent-Type: application/json\r\n"
    body = b'{"company":"' + b"x" * size
    if framing == "stated":
        head += b"Content-Length: %d\r\n\r\n" % len(body)
    else:
        head += b"Transfer-Encoding: chunked\r\n\r\n"
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    answer = await asyncio.to_thread(_send_all_then_read, gateway.port, head, body)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nconnection: close\r\n" in answer.lower()
    assert b'"code":"too_large"' in answer
    assert merchant.hits == 0
