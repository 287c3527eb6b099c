"""A call that comes whole is answered without ASGI, and as it would be with it (5.3, 9.4, K8-01)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn

from gateway.core.answer import Answer
from gateway.web.http_protocol import BoundedHttp
from gateway.web.services import Limits

CALL = {"company": "acme", "conversation": "c", "tool": "place_order", "arguments": {}, "tool_call_id": "a"}


class Counted(BoundedHttp):
    """Counts the requests that went the long way."""

    long = 0

    def _begin_the_long_way(self) -> None:
        self.long += 1
        super()._begin_the_long_way()


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 (what it waits for sets no event)
            await asyncio.sleep(0)


class Served:
    """An application on a socket."""

    def __init__(self, gateway: Any, **config: Any) -> None:
        self.gateway = gateway
        self.connections: list[Counted] = []
        self._config = uvicorn.Config(
            gateway.app,
            http=Counted,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            **config,
        )
        self._config.load()
        self.state = uvicorn.Server(self._config).server_state
        self.state.default_headers = [(b"date", b"today")]
        self._server: asyncio.Server | None = None
        self._clients: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.get_running_loop().create_server(self._make, "127.0.0.1", 0)

    def _make(self) -> Counted:
        self.connections.append(Counted(config=self._config, server_state=self.state, app_state={}))
        return self.connections[-1]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self._server is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.sockets[0].getsockname()[1])
        self._clients.append(writer)
        await until(lambda: len(self.connections) == len(self._clients))
        return reader, writer

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        for writer in self._clients:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        await until(lambda: not self.state.connections)

    @property
    def long(self) -> int:
        return sum(connection.long for connection in self.connections)


Serve = Callable[..., Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    opened: list[Served] = []

    async def make(gateway: Any, **config: Any) -> Served:
        opened.append(Served(gateway, **config))
        await opened[-1].start()
        return opened[-1]

    yield make
    for each in opened:
        await each.close()


def request(body: bytes | None = None, *headers: str, key: str | None = "k-runtime", **fields: Any) -> bytes:
    body = json.dumps({**CALL, **fields}).encode() if body is None else body
    lines = ["POST /v1/calls HTTP/1.1", "host: x", f"content-length: {len(body)}", "request-id: r-1", *headers]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def one_answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body."""
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
        return head, await reader.readexactly(length)


SAME: dict[str, tuple[bytes, bool]] = {
    "a new call": (request(), True),
    "ids and a trace": (request(None, "traceparent: 00-" + "a" * 32 + "-" + "b" * 16 + "-01", turn="t", step=1), True),
    "a problem found while it runs": (request(tool="unknown"), True),
    "arguments that are no object": (request(arguments="[1]"), True),
    "a foreign company": (request(company="globex"), True),
    "a fault of ours": (request(tool="place_order", conversation="boom"), True),
    "no key": (request(key=None), False),
    "an unknown key": (request(key="k-nobody"), False),
    "two keys": (request(None, "authorization: Bearer k-runtime"), False),
    "no JSON": (request(b"{"), False),
    "no body": (request(b""), False),
    "an unknown field": (request(colour="red"), False),
    "another type": (request(None, "content-type: text/plain"), False),
    "an encoding": (request(None, "content-encoding: gzip"), False),
    "too large": (request(arguments={"a": "x" * 2_000}), False),
    "too deep": (request(b'{"arguments":' + b"[" * 90 + b"]" * 90 + b"}"), False),
}


@pytest.mark.parametrize(("sent", "taken"), SAME.values(), ids=SAME)
async def test_p9_4_both_ways_give_the_same_answer(make_gateway: Any, serve: Serve, sent: bytes, taken: bool) -> None:
    """9.4, 8: byte for byte; what is wrong with a request is said by the long way."""
    answers, ways, counts = [], [], []
    for short in (True, False):
        gateway = make_gateway(Limits(body_bytes=1_000))
        await gateway.register("place_order")
        if b"boom" in sent:
            gateway.merchant.faults["place_order"] = RuntimeError("whsec_secret")
        served = await serve(gateway)
        reader, writer = await served.connect()
        if not short:
            served.connections[0]._short = None
        writer.write(sent)
        answers.append(await one_answer(reader))
        ways.append(served.long)
        counted = gateway.metrics.exposition().split(b"\n")
        counts.append([line for line in counted if line.startswith((b"oncegate_requests", b"oncegate_calls_total"))])
    assert answers[0] == answers[1]
    assert [line for line in counts[0] if b"created" not in line] == [
        line for line in counts[1] if b"created" not in line
    ]
    assert ways == [0 if taken else 1, 1]


async def test_p4_10_what_is_at_hand_needs_no_task(make_gateway: Any, serve: Serve) -> None:
    """4.10: many on one connection, in order; those that are pipelined go the long way."""
    gateway = make_gateway()
    await gateway.register("place_order")

    class AtHand:
        def begin(self, principal: Any, asked: Any, trace: Any) -> Answer:
            return Answer(
                effect_id=None,
                company=asked.company,
                conversation=asked.conversation,
                tool_call_id=asked.tool_call_id,
                tool=asked.tool,
                decision="replay",
                status="succeeded",
                side_effecting=True,
                replay={"matched": "tool_call_id"},
            )

    served = await serve(gateway.with_services(handle_call=AtHand()))
    reader, writer = await served.connect()
    writer.write(b"".join(request(tool_call_id=f"{n}") for n in range(20)))
    for n in range(20):
        head, body = await one_answer(reader)
        assert b"idempotent-replayed: true\r\n" in head
        assert json.loads(body)["tool_call_id"] == f"{n}"
    assert served.long == 19
    for n in range(5):
        writer.write(request(tool_call_id=f"{n}"))
        assert json.loads((await one_answer(reader))[1])["tool_call_id"] == f"{n}"
    assert served.long == 19
    assert served.state.total_requests == 25


async def test_p9_4_an_answer_that_cannot_be_written_holds_up_no_other(gateway: Any, serve: Serve) -> None:
    """9.4: answers of one turn leave together; a fault at one of them is told to the loop, and the rest leave."""
    gate = gateway.merchant.gates["place_order"] = asyncio.Event()
    served = await serve(gateway)
    clients = [await served.connect() for _ in range(3)]
    gateway.merchant.crowd = 3
    for n, (_, writer) in enumerate(clients):
        writer.write(request(tool_call_id=f"{n}"))
    await gateway.merchant.crowded.wait()
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    broken = next(each for each in served.connections if each.client == clients[0][1].get_extra_info("sockname"))
    broken.flow = None  # type: ignore[assignment]
    gate.set()
    for n in (1, 2):
        assert json.loads((await one_answer(clients[n][0]))[1])["tool_call_id"] == f"{n}"
    assert [type(each) for each in told] == [AttributeError]
    broken.transport.abort()


async def test_p9_4_answers_leave_in_the_order_of_their_requests(gateway: Any, serve: Serve) -> None:
    """9.4: what is pipelined behind a call that runs waits for its answer."""
    gate = gateway.merchant.gates["place_order"] = asyncio.Event()
    served = await serve(gateway)
    reader, writer = await served.connect()
    writer.write(request() + b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n" + request(tool_call_id="b"))
    await gateway.merchant.reached.wait()
    assert len(gateway.merchant.hits) == 1
    gate.set()
    bodies = [json.loads((await one_answer(reader))[1]) for _ in range(3)]
    assert [body.get("tool_call_id", body.get("status")) for body in bodies] == ["a", "ok", "b"]
    writer.write(request(tool_call_id="c"))
    assert json.loads((await one_answer(reader))[1])["tool_call_id"] == "c"
    assert served.long == 2


@pytest.mark.parametrize("extra", ["expect: 100-continue", "connection: close"])
async def test_p9_4_what_is_unusual_goes_the_long_way(gateway: Any, serve: Serve, extra: str) -> None:
    """9.4: asked to go on, or to close."""
    served = await serve(gateway)
    reader, writer = await served.connect()
    writer.write(request(None, extra))
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 100"))
    assert served.long == 1


@pytest.mark.parametrize("value", ["100-continue", "100-Continue", "100-continue ", "\t100-continue \t"])
async def test_p9_4_a_client_that_waits_to_be_asked_for_its_body_is_asked(
    gateway: Any, serve: Serve, value: str
) -> None:
    """9.4; RFC 9110, 10.1.1 and 5.5: else it waits in vain, or as long as it is patient."""
    served = await serve(gateway)
    reader, writer = await served.connect()
    head, _, body = request(None, f"expect:{value}").partition(b"\r\n\r\n")
    writer.write(head + b"\r\n\r\n")
    async with asyncio.timeout(60):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    writer.write(body)
    assert (await one_answer(reader))[0].startswith(b"HTTP/1.1 200 OK")


async def test_p9_4_a_body_in_pieces_goes_the_long_way(gateway: Any, serve: Serve) -> None:
    """9.4: nothing is kept back behind the end of a read."""
    served = await serve(gateway)
    reader, writer = await served.connect()
    sent = request()
    writer.write(sent[:-10])
    await until(lambda: served.long)
    assert not gateway.merchant.hits
    writer.write(sent[-10:])
    assert (await one_answer(reader))[0].startswith(b"HTTP/1.1 200 OK")


async def test_k8_04_a_client_that_hangs_up_changes_nothing_on_the_short_way(gateway: Any, serve: Serve) -> None:
    """K8-04, 5.3."""
    gate = gateway.merchant.gates["place_order"] = asyncio.Event()
    served = await serve(gateway)
    _, writer = await served.connect()
    writer.write(request())
    await gateway.merchant.reached.wait()
    writer.transport.abort()
    await until(lambda: not served.state.connections)
    gate.set()
    assert await gateway.app.calls.drain(60)
    assert not served.state.tasks
    reader, writer = await served.connect()
    writer.write(request())
    assert json.loads((await one_answer(reader))[1])["decision"] == "replay"
    assert (served.long, len(gateway.merchant.hits)) == (0, 1)


async def test_k8_01_a_stop_cuts_the_short_way_off_with_an_answer_and_the_call_runs_on(
    gateway: Any, serve: Serve
) -> None:
    """K8-01, 5.3, 8: as on the long way; the answer closes its connection, and comes once."""
    gate = gateway.merchant.gates["place_order"] = asyncio.Event()
    served = await serve(gateway)
    reader, writer = await served.connect()
    writer.write(request())
    await gateway.merchant.reached.wait()
    served.connections[0].shutdown()
    gateway.stopping.begin()
    for task in served.state.tasks:
        task.cancel(msg="grace is over")
    head, body = await one_answer(reader)
    assert head.startswith(b"HTTP/1.1 409")
    assert b"connection: close\r\n" in head
    assert json.loads(body)["code"] == "call_in_flight"
    assert gateway.app.calls.in_flight == 1
    gate.set()
    assert await gateway.app.calls.drain(60)
    assert await reader.read() == b""
    assert not served.state.tasks
    assert (await gateway.call(conversation="c")).json()["decision"] == "replay"
    counted = gateway.metrics.exposition()
    assert b'oncegate_requests_total{method="POST",route="/v1/calls",status="409"} 1.0' in counted


async def test_k8_01_a_call_that_ends_within_the_grace_closes_its_connection(gateway: Any, serve: Serve) -> None:
    """K8-01."""
    gate = gateway.merchant.gates["place_order"] = asyncio.Event()
    served = await serve(gateway)
    reader, writer = await served.connect()
    writer.write(request())
    await gateway.merchant.reached.wait()
    served.connections[0].shutdown()
    gate.set()
    head, _ = await one_answer(reader)
    assert head.startswith(b"HTTP/1.1 200")
    assert b"connection: close\r\n" in head
    assert await reader.read() == b""


async def test_p9_4_an_answer_waits_until_its_client_reads(gateway: Any, serve: Serve) -> None:
    """9.4: what a client does not take is not piled up."""
    gate = gateway.merchant.gates["place_order"] = asyncio.Event()
    served = await serve(gateway)
    reader, writer = await served.connect()
    writer.write(request())
    await gateway.merchant.reached.wait()
    (connection,) = served.connections
    connection.pause_writing()
    gate.set()
    assert await gateway.app.calls.drain(60)
    assert not connection.cycle.response_complete
    connection.resume_writing()
    assert (await one_answer(reader))[0].startswith(b"HTTP/1.1 200")


async def test_p9_4_an_idle_connection_is_closed_and_one_whose_call_runs_is_not(gateway: Any, serve: Serve) -> None:
    """9.4: the timer is the connection's; what it measures is the time since the last answer."""
    served = await serve(gateway, timeout_keep_alive=1_000)
    reader, writer = await served.connect()
    writer.write(request())
    await one_answer(reader)
    (connection,) = served.connections
    connection.timeout_keep_alive = 0
    gate = gateway.merchant.gates["place_order"] = asyncio.Event()
    gateway.merchant.reached.clear()
    writer.write(request(tool_call_id="b"))
    await gateway.merchant.reached.wait()
    connection.timeout_keep_alive_handler()
    assert not connection.transport.is_closing()
    gate.set()
    await one_answer(reader)
    async with asyncio.timeout(60):
        assert await reader.read() == b""
