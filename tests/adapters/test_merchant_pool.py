"""Connections to merchants: which may be used, how many there are, whose turn it is (promises 5, 5.2, 9.2, 9.4)."""

from __future__ import annotations

import asyncio
import random
import select
import socket
from ipaddress import ip_address, ip_network

import pytest

from gateway.adapters import merchant_dial
from gateway.adapters.merchant_http import HttpLimits
from gateway.core.outcome import Reason, SeenKind

DEADLINE = 0.3  # the deadline under test
PATIENCE = (DEADLINE, 10 * DEADLINE, 100 * DEADLINE)  # tried in turn where a slow machine needs more to get that far
AMPLE = 60.0  # never reached by a passing test


async def answering(peer):
    while True:
        await peer.request()
        await peer.answer()


class Gate:
    """A merchant's script that answers each request only when told to, and notes the order."""

    def __init__(self) -> None:
        self.held: list[bytes] = []
        self.more = asyncio.Condition()
        self.open = 0

    async def __call__(self, peer):
        while True:
            whole = await peer.request()
            async with self.more:
                self.held.append(whole.partition(b"\r\n\r\n")[2])
                self.more.notify_all()
                await self.more.wait_for(lambda: self.open > 0)
                self.open -= 1
            await peer.answer()

    async def holds(self, count):
        async with asyncio.timeout(AMPLE), self.more:
            await self.more.wait_for(lambda: len(self.held) >= count)

    async def let(self, count):
        async with self.more:
            self.open += count
            self.more.notify_all()


def is_at_rest(client, limits):
    """Whether every place and turn has come back."""
    pool = client._pool
    idle = 0
    for lane in list(pool._lanes.values()):
        assert (lane.busy, [turn for turn in lane.waiting if not turn.done()]) == (0, [])
        assert all(connection.open and connection.counted for connection in lane.idle)
        idle += len(lane.idle)
    assert pool._places == limits.connections - idle
    return True


def arrived(connection):
    """Wait, with the loop standing still, until what the other end did is here."""
    looking = select.poll()
    looking.register(connection._transport.get_extra_info("socket").fileno(), select.POLLIN)
    assert looking.poll(AMPLE * 1000)


async def test_p5_2_a_merchants_calls_take_turns_in_the_order_they_came(street, call):
    """5.2: no more than `per_merchant` at once, and whoever waits longest is next."""
    gate = Gate()
    merchant = await street.merchant(gate)
    limits = HttpLimits(per_merchant=2)
    client = street.client(limits=limits)
    bodies = [b"%d" % number for number in range(8)]
    sending = [asyncio.ensure_future(client.send(call(merchant.url(), body), deadline_s=AMPLE)) for body in bodies]
    await gate.holds(2)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(gate.held) == 2
    for held in range(3, 9):
        await gate.let(1)  # one is answered, so one place comes free, for one
        await gate.holds(held)
        assert len(gate.held) == held
    await gate.let(2)
    assert {seen.kind for seen in await asyncio.gather(*sending)} == {SeenKind.REPLY}
    assert sorted(gate.held[:2]) == bodies[:2]
    assert gate.held[2:] == bodies[2:]
    assert merchant.connections == 2
    assert is_at_rest(client, limits)


async def test_p9_4_an_idle_connection_makes_room_for_another_merchant(street, call):
    """9.4: the limit over all counts open connections, and idleness yields."""
    first, second = await street.merchant(answering), await street.merchant(answering)
    limits = HttpLimits(connections=1, idle_s=AMPLE * 2)
    client = street.client(limits=limits)
    for merchant in (first, second, first):
        assert (await client.send(call(merchant.url()), deadline_s=AMPLE)).kind is SeenKind.REPLY
    assert (first.connections, second.connections) == (2, 1)
    assert is_at_rest(client, limits)


async def test_p9_4_a_busy_merchant_does_not_keep_the_last_place_for_ever(street, call):
    """9.4: who waits for a place gets it before the merchant that holds it is called again."""
    gate = Gate()
    busy, other = await street.merchant(gate), await street.merchant(answering)
    limits = HttpLimits(connections=1, per_merchant=1)
    client = street.client(limits=limits)
    many = [asyncio.ensure_future(client.send(call(busy.url()), deadline_s=AMPLE)) for _ in range(3)]
    await gate.holds(1)
    one = asyncio.ensure_future(client.send(call(other.url()), deadline_s=AMPLE))
    await asyncio.sleep(0)
    await gate.let(1)
    assert (await one).kind is SeenKind.REPLY
    assert sum(each.done() for each in many) < 3
    await gate.let(2)
    await asyncio.gather(*many)
    assert is_at_rest(client, limits)


@pytest.mark.parametrize("limits", [HttpLimits(connections=1), HttpLimits(per_merchant=1)], ids=["place", "turn"])
@pytest.mark.parametrize("passes", ["ended", "free"])
async def test_p5_2_a_call_cancelled_in_the_moment_its_turn_comes_passes_it_on(street, call, limits, passes):
    """5.2: to the next in the queue, with the connection that came with it."""
    gate = Gate()
    merchant, other = await street.merchant(gate), await street.merchant(answering)
    client = street.client(limits=limits)
    first = asyncio.ensure_future(client.send(call(merchant.url()), deadline_s=AMPLE))
    await gate.holds(1)
    (busy,) = client._pool._connections
    next_url = other.url() if limits.connections == 1 else merchant.url()
    second, third = (asyncio.ensure_future(client.send(call(next_url), deadline_s=AMPLE)) for _ in range(2))
    for _ in range(3):
        await asyncio.sleep(0)
    if passes == "ended":
        busy.drop()
    else:
        busy.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    second.cancel()
    await gate.let(2)
    assert (await first).sent
    assert (await third).kind is SeenKind.REPLY
    assert second.cancelled()
    assert is_at_rest(client, limits)


@pytest.mark.parametrize("seed", range(4))
async def test_p5_2_no_turn_and_no_place_is_ever_lost(street, call, seed):
    """5.2, 9.4: through cancellations at any moment, deadlines, resets, refusals and full queues."""
    rng = random.Random(seed)

    async def moody(peer):
        while True:
            await peer.request()
            mood = rng.random()
            if mood < 0.2:
                return peer.reset()
            if mood < 0.3:
                return await peer.write(b"garbage\r\n\r\n")
            await peer.answer(b"{}", "200 OK", *(["Connection: close"] if mood < 0.4 else []))

    merchants = [await street.merchant(moody) for _ in range(3)]
    urls = [merchant.url() for merchant in merchants] + ["http://127.0.0.1:1/", "http://10.0.0.1/"]
    limits = HttpLimits(connections=3, per_merchant=2)
    client = street.client(limits=limits)
    ends = []

    async def one():
        sending = asyncio.ensure_future(client.send(call(rng.choice(urls)), deadline_s=rng.choice([AMPLE, 0.001])))
        for _ in range(rng.randrange(12)):
            await asyncio.sleep(0)
        if rng.random() < 0.4:
            sending.cancel()
        ends.extend(await asyncio.gather(sending, return_exceptions=True))

    async with asyncio.timeout(AMPLE):
        await asyncio.gather(*(one() for _ in range(150)))
    assert len(ends) == 150
    assert not [end for end in ends if isinstance(end, Exception)]
    assert is_at_rest(client, limits)
    await client.close()
    assert not client._pool._connections


async def test_p5_2_an_idle_connection_is_closed_when_its_time_is_over(street, call):
    """5.2: by itself, without another call."""

    async def script(peer):
        await peer.request()
        await peer.answer()
        await peer.gone()

    merchant = await street.merchant(script)
    limits = HttpLimits(idle_s=0.05)
    client = street.client(limits=limits)
    await client.send(call(merchant.url()), deadline_s=AMPLE)
    async with asyncio.timeout(AMPLE):
        await merchant.left.wait()
    assert client._pool._places == limits.connections


async def test_p5_2_a_connection_past_its_idle_time_is_not_used_even_if_it_is_open_still(street, call, monkeypatch):
    """5.2: the round that closes it may be late, the rule is not."""
    merchant = await street.merchant(answering)
    client = street.client()
    await client.send(call(merchant.url()), deadline_s=AMPLE)
    (idle,) = client._pool._connections
    idle.idle_since -= HttpLimits().idle_s
    await client.send(call(merchant.url()), deadline_s=AMPLE)
    assert merchant.connections == 2


async def test_p5_2_closing_ends_what_runs_and_what_waits(street, call):
    """5.2: what was sent is unknown, what waited was not sent, and nobody is left waiting."""

    async def silent(peer):
        await peer.request()
        await peer.gone()

    merchant = await street.merchant(silent)
    client = street.client(limits=HttpLimits(per_merchant=1))
    sending = [asyncio.ensure_future(client.send(call(merchant.url()), deadline_s=AMPLE)) for _ in range(2)]
    async with asyncio.timeout(AMPLE):
        await merchant.asked.wait()
        await client.close()
        first, second = await asyncio.gather(*sending)
    assert (first.kind, first.reason, first.sent) == (SeenKind.BROKEN, Reason.CONNECTION_LOST, True)
    assert (second.kind, second.reason, second.sent) == (SeenKind.NOT_CONNECTED, Reason.CONNECT_FAILED, False)


@pytest.mark.parametrize("banner", [b"", b"220 mail.example ESMTP\r\n"], ids=["closes", "speaks"])
async def test_p5_a_server_that_hangs_up_or_speaks_first_is_not_sent_anything(street, call, monkeypatch, banner):
    """5: known before the first byte, it is certainly not sent; here both have happened before the loop looks."""
    listener = socket.create_server(("127.0.0.1", 0))
    connect = merchant_dial.Dialler.connect

    async def then(self, *args, **named):
        connection = await connect(self, *args, **named)
        accepted, _ = listener.accept()
        accepted.sendall(banner)
        if not banner:
            accepted.close()
        held.append(accepted)
        arrived(connection)
        return connection

    held = []
    monkeypatch.setattr(merchant_dial.Dialler, "connect", then)
    limits = HttpLimits()
    client = street.client(limits=limits)
    with listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        seen = await client.send(call(url), deadline_s=AMPLE)
        assert (seen.kind, seen.reason, seen.sent) == (SeenKind.NOT_CONNECTED, Reason.CONNECT_FAILED, False)
        for accepted in held:
            accepted.close()
    assert is_at_rest(client, limits)


@pytest.mark.parametrize("first", ["refuses", "is_silent", "breaks_tls"])
async def test_p9_2_the_addresses_of_a_name_are_tried_in_turn(street, call, certified, trusting, monkeypatch, first):
    """9.2, 5.2: a dead or silent address leaves time for the next one, within the one deadline."""
    dead = ip_address("127.0.0.2")

    async def resolve(host, port):
        return [dead, ip_address("127.0.0.1")]

    there, at_the_dead = street.bound_twice()
    merchant = await street.merchant(answering, tls=certified("shop.example"), listener=there)
    if first != "refuses":

        async def bad(peer):
            if first == "is_silent":
                await peer.gone()
            await peer.write(b"not TLS at all\r\n")

        await street.merchant(bad, listener=at_the_dead)
    client = street.client(resolve=resolve, ssl_context=trusting(), allow=(ip_network("127.0.0.0/8"),))
    for deadline in (2.0, 20.0, 60.0) if first == "is_silent" else (AMPLE,):
        seen = await client.send(call(merchant.url("shop.example")), deadline_s=deadline)
        if seen.sent:
            break
    assert (seen.kind, len(merchant.requests)) == (SeenKind.REPLY, 1)


async def test_p9_2_an_ipv6_literal_is_dialled_with_its_host_in_brackets(street, call):
    """9.2: judged and dialled as itself."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        merchant = await street.merchant(answering, listener=street.bound("::1"))
    except OSError:
        pytest.skip("no IPv6 loopback here")
    client = street.client(allow=(ip_network("::1/128"),))
    seen = await client.send(call(f"http://[::1]:{merchant.port}/x"), deadline_s=AMPLE)
    assert seen.kind is SeenKind.REPLY
    assert f"\r\nHost: [::1]:{merchant.port}\r\n".encode() in merchant.requests[0]


async def test_p9_2_a_certificate_may_name_an_address(street, call, certified, trusting):
    """9.2: verified as an address, without a TLS name."""
    merchant = await street.merchant(answering, tls=certified("127.0.0.1"))
    client = street.client(ssl_context=trusting())
    assert (await client.send(call(merchant.url()), deadline_s=AMPLE)).kind is SeenKind.REPLY


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
async def test_p5_2_a_reply_before_the_request_was_out_counts_and_ends_the_connection(
    street, call, certified, trusting, tls, keeps
):
    """5.2: a merchant refuses a large body unread; the rest of it must not follow, nor be followed by another."""
    body = b"x" * 8_000_000

    async def script(peer):
        merchant.requests.append(await peer.reader.readuntil(b"\r\n\r\n"))
        await peer.answer(b"{}", "413 Too Large")
        if keeps:
            await peer.gone()

    merchant = await street.merchant(script, tls=certified("shop.example") if tls else None)

    async def resolve(host, port):
        return [ip_address("127.0.0.1")]

    limits = HttpLimits()
    client = street.client(ssl_context=trusting(), resolve=resolve, limits=limits)
    seen = await client.send(call(merchant.url("shop.example"), body), deadline_s=AMPLE)
    assert seen.sent
    if keeps:
        assert (seen.kind, seen.status) == (SeenKind.REPLY, 413)
    else:  # its close may reach us as a reset that takes the reply along
        assert (seen.kind, seen.status) in {(SeenKind.REPLY, 413), (SeenKind.BROKEN, None)}
    assert client._pool._places == limits.connections
    assert not [lane.idle for lane in client._pool._lanes.values() if lane.idle]


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("end", ["length", "chunked", "close"])
async def test_p5_2_a_kept_connection_serves_call_after_call(street, call, certified, trusting, tls, end):
    """5.2: as long as each reply says where it ends; a connection over TLS as well."""
    framed = {
        "length": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "close": b"HTTP/1.1 200 OK\r\n\r\nabc",
    }[end]

    async def script(peer):
        while True:
            await peer.request()
            await peer.write(framed)
            if end == "close":
                return

    merchant = await street.merchant(script, tls=certified("shop.example") if tls else None)

    async def resolve(host, port):
        return [ip_address("127.0.0.1")]

    client = street.client(ssl_context=trusting(), resolve=resolve)
    for _ in range(5):
        seen = await client.send(call(merchant.url("shop.example")), deadline_s=AMPLE)
        assert (seen.kind, seen.body) == (SeenKind.REPLY, b"abc")
    assert merchant.connections == (5 if end == "close" else 1)


async def test_p5_2_a_nearer_deadline_on_a_kept_connection_is_kept(street, call):
    """5.2: the timer of an earlier call with more time does not stand in for it."""

    async def script(peer):
        await peer.request()
        await peer.answer()
        await peer.request()
        await peer.gone()

    merchant = await street.merchant(script)
    client = street.client()
    async with asyncio.timeout(AMPLE / 2):
        first = await client.send(call(merchant.url()), deadline_s=AMPLE)
        second = await client.send(call(merchant.url()), deadline_s=DEADLINE)
    assert (first.kind, second.kind, second.sent) == (SeenKind.REPLY, SeenKind.TIMEOUT, True)


async def test_p5_2_a_later_deadline_on_a_kept_connection_is_waited_for(street, call):
    """5.2: the timer of an earlier call with less time does not end it."""
    fired = asyncio.Event()

    async def script(peer):
        await peer.request()
        await peer.answer()
        await peer.request()
        await fired.wait()
        await peer.answer(b"2")

    merchant = await street.merchant(script)
    client = street.client()
    for deadline in PATIENCE:
        first = await client.send(call(merchant.url()), deadline_s=deadline)
        if first.kind is SeenKind.REPLY:
            break
    assert first.kind is SeenKind.REPLY
    connections = merchant.connections
    asyncio.get_running_loop().call_later(deadline * 1.2, fired.set)
    second = await client.send(call(merchant.url()), deadline_s=AMPLE)
    assert (second.kind, second.body) == (SeenKind.REPLY, b"2")
    assert merchant.connections == connections
