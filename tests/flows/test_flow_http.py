"""Bytes on a connection, as clients and attackers send them: heads, upgrades, pipelines (9.4)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from flow_client import Api, of_requests
from flow_merchant import RawMerchant
from flow_processes import GatewayProcess

BOUND_S = 120.0
ENDLESS = 65_537
"""Bytes of a head: one above its bound. Whoever has read enough to refuse it has read all that is sent: a close with more
on its way would be a reset, which may take the answer along."""
Connect = Callable[[], Awaitable["Wire"]]


class Wire:
    """One connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, *parts: bytes) -> None:
        """Each part in a write of its own."""
        for part in parts:
            self._writer.write(part)
            await self._writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """The next answer's status and body."""
        async with asyncio.timeout(BOUND_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
            return int(head.split(b" ")[1]), await self._reader.readexactly(int(length.split(b":")[1]))

    async def rest(self) -> bytes:
        """All that still comes until the gateway closes."""
        async with asyncio.timeout(BOUND_S):
            return await self._reader.read()

    async def close(self) -> None:
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


@pytest.fixture
async def wire(gateway: GatewayProcess) -> AsyncIterator[Wire]:
    async with connected(gateway) as made:
        yield made


@asynccontextmanager
async def connected(gateway: GatewayProcess) -> AsyncIterator[Wire]:
    made = Wire(*await asyncio.open_connection("127.0.0.1", gateway.port))
    try:
        yield made
    finally:
        await made.close()


def head_of(*more: bytes, length: int) -> bytes:
    lines = (
        b"POST /v1/calls HTTP/1.1",
        b"Host: x",
        b"Authorization: Bearer dev",
        b"Content-Type: application/json",
        *more,
        b"Content-Length: %d" % length,
    )
    return b"\r\n".join(lines) + b"\r\n\r\n"


def call_of(shop: Api, tool_call_id: str, arguments: object = None, tool: str = "place_order") -> bytes:
    call = {"company": shop.company, "conversation": "c-1", "tool_call_id": tool_call_id, "tool": tool}
    return json.dumps({**call, "arguments": arguments or {}}).encode()


def request_of(shop: Api, tool_call_id: str, arguments: object = None, *more: bytes) -> bytes:
    body = call_of(shop, tool_call_id, arguments)
    return head_of(*more, length=len(body)) + body


HEADS = {
    name: (begins + goes_on * ENDLESS)[:ENDLESS]
    for name, begins, goes_on in (
        ("an endless header", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ", b"a"),
        ("an endless row of headers", b"GET /livez HTTP/1.1\r\nHost: x\r\n", b"X-More: b\r\n"),
        ("an endless name of a header", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-", b"n"),
        ("an endless URL", b"GET /livez?", b"u"),
    )
}


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
async def test_p9_4_an_endless_head_is_a_431_and_the_end_of_its_connection(
    api: Api, wire: Wire, head: bytes, pieces: int, heard: Callable[[], Awaitable[list[str]]]
) -> None:
    """9.4: in one piece or several, before anybody's key is looked at; others are served meanwhile."""
    size = len(head) // pieces
    await wire.send(*(head[n * size : (n + 1) * size] for n in range(pieces - 1)), head[(pieces - 1) * size :])
    answered = await wire.rest()
    assert answered.startswith(b"HTTP/1.1 431 "), answered[:100]
    assert answered.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answered
    assert (await api.send("GET", "/livez")).status == 200
    lines = await heard()
    assert not [line for line in lines if "Traceback" in line]
    assert all(len(line) <= 200 for line in of_requests(lines))


async def test_p9_4_a_head_is_bounded_on_a_connection_that_served_before(
    shop: Api, wire: Wire, merchant: RawMerchant
) -> None:
    """9.4: the bound is of each head, and what came before does not count towards it."""
    for n in range(3):
        await wire.send(request_of(shop, f"h{n}", {"note": "x" * 30_000, "n": n}))
        assert (await wire.answer())[0] == 200
    await wire.send(HEADS["an endless header"])
    assert (await wire.rest()).startswith(b"HTTP/1.1 431 ")
    assert merchant.hits == 3


@pytest.mark.parametrize("apart", [False, True], ids=["in one write", "head and body apart"])
async def test_p9_4_a_body_far_above_the_bound_of_heads_is_fine(shop: Api, wire: Wire, merchant: RawMerchant, apart: bool) -> None:  # fmt: skip
    """9.4: a body has a bound of its own, whatever it comes in one piece with."""
    note = "x" * 700_000
    whole = request_of(shop, "b1", {"note": note})
    head, end, body = whole.partition(b"\r\n\r\n")
    await wire.send(*((head + end, body) if apart else (whole,)))
    status, answered = await wire.answer()
    assert (status, json.loads(answered)["decision"]) == (200, "proceed")
    assert merchant.requests[0].json["arguments"] == {"note": note}


UPGRADES = {
    "h2c": (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
    "in small letters": (b"connection: upgrade", b"upgrade: h2c"),
    "in capitals": (b"CONNECTION: UPGRADE", b"UPGRADE: h2c"),
    "in odd letters": (b"Connection: Upgrade", b"uPgRaDe: h2c"),
    "a websocket": (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", b"Sec-WebSocket-Version: 13"),
    "two of them": (b"Connection: Upgrade", b"Upgrade: h2c", b"Upgrade: websocket"),
    "TLS": (b"Connection: Upgrade", b"Upgrade: TLS/1.0"),
}  # fmt: skip


@pytest.mark.parametrize("offer", UPGRADES.values(), ids=UPGRADES)
async def test_p9_4_an_upgrade_that_is_offered_is_not_heard_and_the_body_kept(
    shop: Api, wire: Wire, merchant: RawMerchant, offer: tuple[bytes, ...]
) -> None:
    """9.4: answered as if there were no offer (RFC 9110, 7.8, lets a server ignore it), and so is the next request."""
    for n, more in enumerate((offer, (), offer)):
        await wire.send(request_of(shop, f"u{n}", {"n": n}, *more))
        status, answered = await wire.answer()
        assert (status, json.loads(answered)["decision"]) == (200, "proceed")
    assert [request.json["arguments"] for request in merchant.requests] == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    "after", [b"\r\n", b"\r\nUpg", b"\r\nUpgrade", b"\r\nUpgrade: ", b"\r", b"Upgrade: h2c\r\n\r\n"]
)
async def test_p9_4_an_upgrade_is_not_heard_wherever_its_head_is_cut_in_two(
    shop: Api, wire: Wire, merchant: RawMerchant, after: bytes, eventually: Callable[..., Awaitable[object]]
) -> None:
    """9.4: networks cut where they like."""
    whole = request_of(shop, "u1", {"n": 1}, b"Connection: Upgrade", b"Upgrade: h2c")
    place = whole.index(b"\r\nUpgrade") + len(after) if after[0:1] == b"\r" else whole.index(b"\r\n\r\n") + 4
    first = whole[:place]
    async with asyncio.timeout(BOUND_S):
        await wire.send(first)
        # A round trip on another connection: the gateway has read the first piece by then.
        for _ in range(3):
            assert (await shop.send("GET", "/livez")).status == 200
        await wire.send(whole[place:])
    status, answered = await wire.answer()
    assert (status, json.loads(answered)["decision"]) == (200, "proceed")
    assert merchant.hits == 1


@pytest.mark.parametrize("target", [b"/v1/calls", b"shop.example:443", b"*"])
@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"], ids=["plain", "with an upgrade"])
async def test_p9_4_nothing_is_tunnelled(api: Api, wire: Wire, target: bytes, offer: bytes) -> None:
    """9.4: CONNECT is refused once, in whatever form, and what is sent behind it reaches nobody."""
    await wire.send(
        b"CONNECT " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + offer + b"\r\nGET / tunnelled"
    )
    answered = await wire.rest()
    assert answered.count(b"HTTP/1.1 ") == 1
    assert 400 <= int(answered.split(b" ")[1]) < 500
    assert (await api.send("GET", "/livez")).status == 200


async def test_p9_4_the_word_itself_is_no_upgrade(shop: Api, wire: Wire, merchant: RawMerchant) -> None:
    """9.4, 2.10: in arguments, values and other headers' names it stays what it is."""
    arguments = {"text": "\r\nUpgrade: h2c\r\n\r\nUpgrade: x", "upgrade": "Upgrade"}
    await wire.send(request_of(shop, "w1", arguments, b"X-Upgrade: Upgrade: h2c", b"Upgrade-Insecure-Requests: 1"))
    assert (await wire.answer())[0] == 200
    assert merchant.requests[0].json["arguments"] == arguments


@pytest.mark.parametrize("pieces", [1, 2, 11])
@pytest.mark.parametrize("offer", [(), UPGRADES["h2c"]], ids=["plain", "each with an upgrade"])
async def test_p9_4_pipelined_requests_are_answered_in_their_order(
    shop: Api, gateway: GatewayProcess, merchant: RawMerchant, pieces: int, offer: tuple[bytes, ...]
) -> None:
    """9.4: several requests in one write, or cut anywhere; each gets its own answer."""
    whole = b"".join(request_of(shop, f"p{n}", {"n": n}, *offer) for n in range(5))
    size = len(whole) // pieces + 1
    async with connected(gateway) as wire:
        await wire.send(*(whole[at : at + size] for at in range(0, len(whole), size)))
        answers = [await wire.answer() for _ in range(5)]
    assert [status for status, _ in answers] == [200] * 5
    assert [json.loads(body)["tool_call_id"] for _, body in answers] == [f"p{n}" for n in range(5)]
    assert [request.json["arguments"]["n"] for request in merchant.requests] == [0, 1, 2, 3, 4]


async def test_p9_4_a_slow_call_keeps_its_connection_and_those_behind_it_wait(
    shop: Api, wire: Wire, merchant: RawMerchant, eventually: Callable[..., Awaitable[object]]
) -> None:
    """9.4, 5.3: a request that came before the answer to the one ahead of it."""
    gate = asyncio.Event()
    merchant.waits_for(gate)
    await wire.send(request_of(shop, "s1", {"n": 1}), request_of(shop, "s2", {"n": 2}))
    await eventually(lambda: merchant.hits == 1)
    gate.set()
    answers = [await wire.answer() for _ in range(2)]
    assert [json.loads(body)["tool_call_id"] for _, body in answers] == ["s1", "s2"]


def _chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


HEAD = b"POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer dev\r\nContent-Type: application/json\r\n"
AMBIGUOUS: dict[str, Callable[[bytes], bytes]] = {
    "length and chunks": lambda b: HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + _chunked(b),
    "chunks and length": lambda b: HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + _chunked(b),
    "two lengths": lambda b: HEAD + b"Content-Length: %d\r\nContent-Length: 0\r\n\r\n%b" % (len(b), b),
    "a coding before chunked": lambda b: HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + _chunked(b),
    "a coding after chunked": lambda b: HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n" + _chunked(b),
    "two codings": lambda b: HEAD + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + _chunked(b),
    "an unknown coding": lambda b: HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + _chunked(b),
    "chunks in 1.0": lambda b: HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + _chunked(b),
    "no host": lambda b: HEAD.replace(b"Host: x\r\n", b"") + b"Content-Length: %d\r\n\r\n%b" % (len(b), b),
    "two hosts": lambda b: HEAD + b"Host: y\r\nContent-Length: %d\r\n\r\n%b" % (len(b), b),
    "a blank before the colon": lambda b: HEAD + b"Content-Length : %d\r\n\r\n%b" % (len(b), b),
    "a folded line": lambda b: HEAD + b"X: y\r\n Z: 3\r\nContent-Length: %d\r\n\r\n%b" % (len(b), b),
    "bare line feeds": lambda b: (HEAD + b"Content-Length: %d\r\n\r\n" % len(b)).replace(b"\r\n", b"\n") + b,
}


@pytest.mark.parametrize("written", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
async def test_p9_4_what_two_readers_may_read_differently_is_refused_and_its_connection_ends(
    shop: Api, wire: Wire, merchant: RawMerchant, written: Callable[[bytes], bytes]
) -> None:
    """9.4, RFC 9112: a proxy in front must not see one request where the gateway sees two; nothing is carried out, and
    nothing of what follows is read."""
    call = {"company": shop.company, "conversation": "c-1", "tool": "place_order", "arguments": {}}
    body, hidden = (json.dumps({**call, "tool_call_id": id_}).encode() for id_ in ("s1", "s2"))
    await wire.send(written(body) + HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(hidden), hidden))
    answered = await wire.rest()
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert answered.count(b"HTTP/1.1") == 1
    assert merchant.hits == 0


async def test_p9_4_trailers_say_nothing(shop: Api, wire: Wire, merchant: RawMerchant) -> None:
    """9.4: what stands behind a body neither adds to its head nor overrules it: no key, no id, no encoding."""
    call = {
        "company": shop.company,
        "conversation": "c-1",
        "tool_call_id": "t1",
        "tool": "place_order",
        "arguments": {},
    }
    body = _chunked(json.dumps(call).encode())[:-2]
    trailers = b"Authorization: Bearer nobody\r\nContent-Encoding: gzip\r\nRequest-Id: from-behind\r\n\r\n"
    await wire.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + trailers)
    status, answered = await wire.answer()
    assert (status, json.loads(answered)["decision"]) == (200, "proceed")
    assert merchant.requests[0].headers["request-id"] != "from-behind"
    keyless = HEAD.replace(b"Authorization: Bearer dev\r\n", b"")
    await wire.send(keyless + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"Authorization: Bearer dev\r\n\r\n")
    assert (await wire.answer())[0] == 401


@pytest.mark.parametrize("line", [b"A: b\r\n", b"A: " + b"b" * 60_000, b"b" * 60_000], ids=["many", "one", "a name"])
async def test_p9_4_trailers_without_end_are_cut_off(shop: Api, wire: Wire, line: bytes) -> None:
    """9.4: they have the bound of a head, also of somebody without a key whose request was answered long ago."""
    before = await shop.metric("process_resident_memory_bytes")
    keyless = HEAD.replace(b"Authorization: Bearer dev\r\n", b"")
    with contextlib.suppress(OSError):  # it hangs up in the middle of them
        await wire.send(keyless + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
        if line.endswith(b"\n"):
            line *= 10_000
        for _ in range(1_000):
            await wire.send(line)
        raise AssertionError("sixty megabytes of trailers were read")
    assert await shop.metric("process_resident_memory_bytes") < before + 16 * 1024 * 1024
