"""The client towards merchants, against real loopback sockets (promises 5, 5.2, 9.2, 9.3, 9.4)."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import logging
import select
import socket
import ssl
import threading
from ipaddress import ip_address, ip_network

import pytest

from gateway.adapters import http_reply, merchant_dial, merchant_pool
from gateway.adapters.merchant_http import HttpLimits, MerchantHttp
from gateway.core.outcome import OutcomeKind, Reason, SeenKind, outcome_of

DEADLINE = 0.3  # the deadline under test
PATIENCE = (DEADLINE, 10 * DEADLINE, 100 * DEADLINE)  # tried in turn where a slow machine needs more to get that far
AMPLE = 60.0  # never reached by a passing test


async def answering(peer):
    while True:
        await peer.request()
        await peer.answer(b'{"order":"O-1"}')


async def silent(peer):
    await peer.request()
    await peer.gone()


async def cut_off(client, request):
    """What is seen of a request that was sent, and then cut off at its deadline; where the machine was too slow to send
    it in time, that is what is seen, and a longer one is tried."""
    for deadline in PATIENCE:
        async with asyncio.timeout(AMPLE):  # a deadline that is never kept fails the test and does not hang it
            seen = await client.send(request, deadline_s=deadline)
        if seen.sent:
            break
    return seen


def outcome(seen):
    return outcome_of(seen).kind


async def test_p5_a_reply_is_seen_whole_and_means_success(street, call):
    """5: status, type, charset and body reach the judge as sent."""

    async def script(peer):
        await peer.request()
        await peer.answer(b'{"n":1}', "201 Created", "Retry-After: 1", kind="Application/JSON; Charset=UTF-8")

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert (seen.kind, seen.sent, seen.status, seen.body) == (SeenKind.REPLY, True, 201, b'{"n":1}')
    assert (seen.content_type, seen.charset, seen.retry_after) == ("application/json", "utf-8", ("1",))
    assert outcome(seen) is OutcomeKind.SUCCEEDED


async def test_p6_the_request_on_the_wire_is_one_post_with_the_given_headers_and_bytes(street, call):
    """6: body bytes and signed headers leave unchanged, compression is not offered (9.4)."""
    merchant = await street.merchant(answering)
    body = b'{"arguments":{"id":2512292042121000001,"z":1,"a":1.0}}'
    await street.client().send(call(merchant.url(path="/t?x=1"), body, ("webhook-id", "abc")), deadline_s=AMPLE)
    head, _, sent = merchant.requests[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert sent == body
    assert lines[0] == b"post /t?x=1 http/1.1"
    assert f"host: 127.0.0.1:{merchant.port}".encode() in lines
    assert b"webhook-id: abc" in lines
    assert b"accept-encoding: identity" in lines
    assert not any(
        line.startswith((b"cookie:", b"authorization:", b"expect:", b"transfer-encoding:")) for line in lines
    )


async def test_k3_01_a_timeout_after_the_commit_is_an_unknown_outcome(street, call):
    """K3-01, 5: the merchant has the request and stays silent; the bytes left, so nobody can know."""
    merchant = await street.merchant(silent)
    seen = await cut_off(street.client(), call(merchant.url()))
    assert (seen.kind, seen.reason, seen.sent) == (SeenKind.TIMEOUT, Reason.TIMED_OUT, True)
    assert outcome(seen) is OutcomeKind.UNKNOWN
    async with asyncio.timeout(AMPLE):
        await merchant.left.wait()
    assert len(merchant.requests) == 1


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n"


@pytest.mark.parametrize("before_reset", [b"", HEAD, HEAD + b'{"order":'], ids=["a_no_status", "b_headers", "c_body"])
@pytest.mark.parametrize("end", ["reset", "close"])
async def test_k3_02_a_connection_lost_after_the_request_gives_one_post_and_unknown(street, call, before_reset, end):
    """K3-02, 5.2: RST, or a plain close, before the status line, after the headers, in mid-body; one POST."""

    async def script(peer):
        await peer.request()
        if before_reset:
            await peer.write(before_reset)
        if end == "reset":
            peer.reset()

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert (seen.kind, seen.sent) == (SeenKind.BROKEN, True)
    assert outcome(seen) is OutcomeKind.UNKNOWN
    assert (len(merchant.requests), merchant.connections) == (1, 1)


async def test_k3_02_a_reset_on_a_reused_connection_is_unknown_and_not_posted_again(street, call):
    """K3-02, 5.2: also where the connection had served before, the one case where clients like to repeat."""

    async def script(peer):
        await peer.request()
        await peer.answer()
        await peer.request()
        peer.reset()

    merchant = await street.merchant(script)
    client = street.client()
    first = await client.send(call(merchant.url()), deadline_s=AMPLE)
    second = await client.send(call(merchant.url()), deadline_s=AMPLE)
    assert (first.kind, second.kind, second.sent) == (SeenKind.REPLY, SeenKind.BROKEN, True)
    assert (len(merchant.requests), merchant.connections) == (2, 1)


@pytest.mark.parametrize(
    "chunk", [b"5\r\nhello\r\n", b"zz\r\n", b"5\r\nhel"], ids=["no_last_chunk", "bad_size", "cut_chunk"]
)
async def test_p5_a_chunked_reply_without_its_end_is_broken(street, call, chunk):
    """5: a truncated body is no answer, even if what came would parse."""

    async def script(peer):
        await peer.request()
        await peer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert (seen.kind, seen.sent) == (SeenKind.BROKEN, True)
    assert outcome(seen) is OutcomeKind.UNKNOWN


@pytest.mark.parametrize("status", ["503 Service Unavailable", "502 Bad Gateway", "504 Gateway Timeout"])
async def test_k3_04_a_failing_status_is_handed_up_after_one_post(street, call, status):
    """K3-04, 5.2: no library below the gateway repeats on 502, 503, 504."""

    async def script(peer):
        await peer.request()
        await peer.answer(b"", status, "Retry-After: 1")

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert (seen.kind, str(seen.status), seen.retry_after) == (SeenKind.REPLY, status[:3], ("1",))
    assert outcome(seen) is OutcomeKind.UNKNOWN
    assert len(merchant.requests) == 1


async def test_k3_05_repeated_retry_after_headers_are_all_handed_up(street, call):
    """K3-05: two such headers; the judge chooses, the adapter only reports."""

    async def script(peer):
        await peer.request()
        await peer.answer(b"", "429 Too Many Requests", "Retry-After: -5", "Retry-After: 0.493")

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert seen.retry_after == ("-5", "0.493")
    assert outcome(seen) is OutcomeKind.NOT_SENT


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nnull",
        b"HTTP/1.1 201 Created\r\nLocation: /orders/1\r\n\r\n",
        b"HTTP/1.0 201 Created\r\nLocation: /orders/1\r\n\r\n",
    ],
)
async def test_k3_06_an_empty_success_is_success_with_a_null_result(street, call, reply):
    """K3-06, 5: 204, length 0, a body of null, and 201 with a Location only."""

    async def script(peer):
        await peer.request()
        await peer.write(reply)

    merchant = await street.merchant(script)
    judged = outcome_of(await street.client().send(call(merchant.url()), deadline_s=AMPLE))
    assert (judged.kind, judged.result) == (OutcomeKind.SUCCEEDED, b"null")


@pytest.mark.parametrize(
    ("beginning", "drop"),
    [
        (b"HTTP/1.1 200 ", b"K"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
        (HEAD, b" "),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    ],
    ids=["status_line", "header", "body", "interim_replies"],
)
async def test_k3_09_a_dripping_merchant_is_cut_at_the_deadline(street, call, beginning, drop):
    """K3-09, 5.2: the deadline bounds the whole exchange, whatever keeps arriving."""

    async def dripping(peer):
        await peer.request()
        await peer.write(beginning)
        await peer.drip(drop)

    merchant = await street.merchant(dripping)
    seen = await cut_off(street.client(), call(merchant.url()))
    assert (seen.kind, seen.sent) == (SeenKind.TIMEOUT, True)
    async with asyncio.timeout(AMPLE):
        await merchant.left.wait()


async def test_k3_09_fifty_dripping_calls_delay_no_other_merchant(street, call):
    """K3-09: normal calls through the same client end while all fifty still drip."""

    async def dripping(peer):
        await peer.request()
        await peer.write(HEAD.replace(b"400", b"999999"))
        await peer.drip(b" ")

    slow, quick = await street.merchant(dripping), await street.merchant(answering)
    client = street.client()
    drips = [asyncio.ensure_future(client.send(call(slow.url()), deadline_s=AMPLE)) for _ in range(50)]
    async with asyncio.timeout(AMPLE / 2):
        while len(slow.requests) < 50:
            await client.send(call(quick.url()), deadline_s=AMPLE)
        normal = [await client.send(call(quick.url()), deadline_s=AMPLE) for _ in range(5)]
    assert not any(drip.done() for drip in drips)
    assert {seen.kind for seen in normal} == {SeenKind.REPLY}
    for drip in drips:
        drip.cancel()
    await asyncio.gather(*drips, return_exceptions=True)


async def test_k3_09_the_deadline_covers_the_tls_handshake(street, call, trusting):
    """K3-09: a peer that accepts and never finishes the handshake; nothing was sent."""
    merchant = await street.merchant(lambda peer: peer.gone())
    client = street.client(ssl_context=trusting())
    seen = await client.send(call(merchant.url().replace("http:", "https:")), deadline_s=DEADLINE)
    assert (seen.kind, seen.sent) == (SeenKind.TIMEOUT, False)
    judged = outcome_of(seen)
    assert (judged.kind, judged.code) == (OutcomeKind.NOT_SENT, "merchant_unreachable")


async def test_k3_09_the_deadline_covers_the_look_up_and_the_wait_for_a_connection(street, call):
    """K3-09: a resolver that never answers, and a full pool."""
    stuck = asyncio.Event()

    async def resolve(host, port):
        await stuck.wait()

    seen = await street.client(resolve=resolve).send(call("https://shop.example/"), deadline_s=DEADLINE)
    assert (seen.kind, seen.sent) == (SeenKind.TIMEOUT, False)
    merchant = await street.merchant(silent)
    client = street.client(limits=HttpLimits(per_merchant=1))
    first = asyncio.ensure_future(client.send(call(merchant.url()), deadline_s=AMPLE))
    async with asyncio.timeout(AMPLE):
        await merchant.asked.wait()
    waiting = await client.send(call(merchant.url()), deadline_s=DEADLINE)
    assert (waiting.kind, waiting.sent) == (SeenKind.TIMEOUT, False)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert len(merchant.requests) == 1


async def test_p5_a_call_whose_turn_comes_too_late_is_not_sent_rather_than_cut_off(street, call):
    """5, 5.2: begun with little of its deadline left, its outcome would most likely be unknown to everybody."""
    gate = asyncio.Event()

    async def script(peer):
        await peer.request()
        await gate.wait()
        await peer.answer()

    for deadline in PATIENCE:  # its turn has to come between its latest start and its deadline
        gate.clear()
        merchant = await street.merchant(script)
        client = street.client(limits=HttpLimits(per_merchant=1))
        first = asyncio.ensure_future(client.send(call(merchant.url()), deadline_s=AMPLE))
        async with asyncio.timeout(AMPLE):
            await merchant.asked.wait()
        asyncio.get_running_loop().call_later(deadline * 0.85, gate.set)
        second = await client.send(call(merchant.url()), deadline_s=deadline)
        assert (await first).kind is SeenKind.REPLY
        assert (second.sent, len(merchant.requests)) == (False, 1)
        if second.kind is SeenKind.NOT_CONNECTED:
            break
    assert (second.kind, second.reason) == (SeenKind.NOT_CONNECTED, Reason.TOO_LATE)
    judged = outcome_of(second)
    assert (judged.kind, judged.code) == (OutcomeKind.NOT_SENT, "merchant_unreachable")


@pytest.mark.parametrize("deadline", [0, -1.0])
async def test_p5_2_no_time_left_sends_nothing(street, call, deadline):
    """5.2: a deadline gone by."""
    merchant = await street.merchant(answering)
    seen = await street.client().send(call(merchant.url()), deadline_s=deadline)
    assert (seen.kind, seen.sent, merchant.requests) == (SeenKind.TIMEOUT, False, [])


async def test_k3_11_a_latin_1_reply_reaches_the_buyer_as_written(street, call):
    """K3-11: the declared charset travels with the bytes."""

    async def script(peer):
        await peer.request()
        await peer.answer('{"name":"José"}'.encode("latin-1"), kind='application/json; charset="ISO-8859-1"')

    merchant = await street.merchant(script)
    judged = outcome_of(await street.client().send(call(merchant.url()), deadline_s=AMPLE))
    assert judged.result == '{"name":"José"}'.encode()


def _resolve_to(*answers):
    """A resolver giving each answer once, the last for ever."""
    left = list(answers)

    async def resolve(host, port):
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return [ip_address(text) for text in answer]

    return resolve


async def _sent_after_repair(client, request, merchant):
    seen = await client.send(request, deadline_s=AMPLE)
    assert (seen.kind, seen.status) == (SeenKind.REPLY, 200)
    assert len(merchant.requests) == 1


async def test_k3_13_a_name_that_does_not_resolve_is_not_sent(street, call):
    """K3-13: then the name is repaired and the same request goes."""
    merchant = await street.merchant(answering)
    client = street.client(resolve=_resolve_to(socket.gaierror(-2, "unknown"), [], ["127.0.0.1"]))
    request = call(merchant.url("shop.example"))
    for _ in range(2):
        seen = await client.send(request, deadline_s=AMPLE)
        assert (seen.kind, seen.reason, seen.sent) == (SeenKind.NOT_CONNECTED, Reason.NAME_NOT_RESOLVED, False)
        assert outcome(seen) is OutcomeKind.NOT_SENT
    await _sent_after_repair(client, request, merchant)


async def test_k3_13_a_refused_port_is_not_sent(street, call):
    """K3-13: nobody listens; then somebody does."""
    closed = street.bound()
    client = street.client()
    request = call(f"http://127.0.0.1:{closed.getsockname()[1]}/")
    seen = await client.send(request, deadline_s=AMPLE)
    assert (seen.kind, seen.reason, seen.sent) == (SeenKind.NOT_CONNECTED, Reason.CONNECT_FAILED, False)
    await _sent_after_repair(client, request, await street.merchant(answering, listener=closed))


YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


@pytest.mark.parametrize(
    ("names", "options"),
    [(["shop.example"], {"not_after": YESTERDAY}), (["other.example"], {})],
    ids=["expired", "another_name"],
)
async def test_k3_13_a_bad_certificate_is_not_sent_and_never_bypassed(
    street, call, certified, trusting, names, options
):
    """K3-13: expired, or for another name; repaired, the same request goes."""
    listener = street.bound()
    bad = await street.merchant(answering, tls=certified(*names, **options), listener=listener)
    client = street.client(ssl_context=trusting(), resolve=_resolve_to(["127.0.0.1"]))
    request = call(bad.url("shop.example"))
    seen = await client.send(request, deadline_s=AMPLE)
    assert (seen.kind, seen.reason, seen.sent) == (SeenKind.NOT_CONNECTED, Reason.CERTIFICATE_INVALID, False)
    assert bad.requests == []
    await bad.close()
    good = await street.merchant(answering, tls=certified("shop.example"), listener=listener)
    await _sent_after_repair(client, request, good)


@pytest.mark.parametrize("end", ["reset", "close", "noise"])
async def test_k3_13_a_broken_tls_handshake_is_not_sent(street, call, trusting, end):
    """K3-13: RST, close, or something that is not TLS in the handshake."""

    async def script(peer):
        await peer.reader.read(5)
        if end == "reset":
            peer.reset()
        elif end == "noise":
            await peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    merchant = await street.merchant(script)
    client = street.client(ssl_context=trusting())
    seen = await client.send(call(merchant.url().replace("http:", "https:")), deadline_s=AMPLE)
    assert (seen.kind, seen.reason, seen.sent) == (SeenKind.NOT_CONNECTED, Reason.TLS_FAILED, False)


@pytest.mark.parametrize("change", ["verify", "name"])
def test_k3_13_a_context_that_does_not_verify_is_refused(change):
    """K3-13: there is no way to switch the check off."""
    context = ssl.create_default_context()
    context.check_hostname = False
    if change == "verify":
        context.verify_mode = ssl.CERT_NONE
    with pytest.raises(ValueError, match="verify"):
        MerchantHttp(ssl_context=context)


@pytest.mark.parametrize("kept", [False, True], ids=["new", "idle"])
async def test_p5_a_connection_closed_before_the_first_byte_is_certainly_not_used(street, call, monkeypatch, kept):
    """5: "no byte sent" is claimed only where the transport takes nothing, and then nothing was tried twice."""
    merchant = await street.merchant(answering)
    client = street.client()
    if kept:
        await client.send(call(merchant.url()), deadline_s=AMPLE)
    took = merchant_pool.MerchantPool._is_usable

    def closed_first(self, connection):
        connection._transport.abort()
        return took(self, connection)

    monkeypatch.setattr(merchant_pool.MerchantPool, "_is_usable", closed_first)
    dialled = 0
    connect = merchant_dial.Dialler.connect

    async def counted(self, *args, **named):
        nonlocal dialled
        dialled += 1
        monkeypatch.setattr(merchant_pool.MerchantPool, "_is_usable", took)
        return await connect(self, *args, **named)

    if kept:
        monkeypatch.setattr(merchant_dial.Dialler, "connect", counted)
        seen = await client.send(call(merchant.url()), deadline_s=AMPLE)
        assert (seen.kind, dialled, len(merchant.requests)) == (SeenKind.REPLY, 1, 2)
        return
    seen = await client.send(call(merchant.url()), deadline_s=DEADLINE)
    # It dials until it is too late; the deadline may pass in the last of these dials.
    assert seen.kind in (SeenKind.NOT_CONNECTED, SeenKind.TIMEOUT)
    assert (seen.sent, merchant.requests) == (False, [])
    assert outcome(seen) is OutcomeKind.NOT_SENT


@pytest.mark.parametrize("header", [("Request-Id", "a\r\nX: y"), ("X\r\n", "a")])
async def test_p9_4_a_header_that_would_split_the_request_is_never_written(street, call, header):
    """9.4: not sent, and no byte of it on the wire."""
    merchant = await street.merchant(answering)
    seen = await street.client().send(call(merchant.url(), b"{}", header), deadline_s=AMPLE)
    assert (seen.kind, seen.reason, seen.sent) == (SeenKind.NOT_CONNECTED, Reason.REQUEST_REFUSED, False)
    assert merchant.requests == []


async def test_p5_a_request_without_a_body_counts_as_sent_too(street, call):
    """5: its head is all there is to send."""

    async def script(peer):
        await peer.reader.readuntil(b"\r\n\r\n")

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url(), b""), deadline_s=AMPLE)
    assert (seen.kind, seen.sent) == (SeenKind.BROKEN, True)


async def test_p5_2_large_bodies_are_sent_whole_and_once(street, call):
    """5.2: above what is written as one piece."""
    merchant = await street.merchant(answering)
    body = b'"' + b"x" * 3_000_000 + b'"'
    seen = await street.client().send(call(merchant.url(), body), deadline_s=AMPLE)
    assert seen.kind is SeenKind.REPLY
    assert merchant.requests[0].endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_p5_2_redirects_are_not_followed(street, call, status):
    """5.2: a redirect is an unknown outcome, and its target hears nothing."""
    target = await street.merchant(answering)

    async def script(peer):
        await peer.request()
        await peer.answer(b"", status, f"Location: {target.url()}")

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert outcome(seen) is OutcomeKind.UNKNOWN
    assert (len(merchant.requests), target.connections) == (1, 0)


async def test_p5_2_proxy_variables_and_netrc_are_not_read(street, call, monkeypatch, tmp_path):
    """5.2: the environment cannot reroute a call or add credentials."""
    proxy, merchant = await street.merchant(answering), await street.merchant(answering)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url())
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login u password NETRC-SECRET\n")
    monkeypatch.setenv("NETRC", str(netrc))
    await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert (proxy.connections, len(merchant.requests)) == (0, 1)
    assert b"authorization" not in merchant.requests[0].lower()


async def test_p9_1_cookies_of_one_call_never_reach_the_next(street, call):
    """9.1: calls of different companies share this client."""

    async def script(peer):
        for _ in range(2):
            await peer.request()
            await peer.answer(b"{}", "200 OK", "Set-Cookie: session=1; Path=/")

    merchant = await street.merchant(script)
    client = street.client()
    for _ in range(2):
        await client.send(call(merchant.url()), deadline_s=AMPLE)
    assert b"cookie" not in merchant.requests[1].lower()


async def test_p5_2_connections_are_kept_and_live_shorter_idle_than_common_servers_allow(street, call):
    """5.2: five seconds is the shortest common limit."""
    merchant = await street.merchant(answering)
    client = street.client()
    for _ in range(3):
        await client.send(call(merchant.url()), deadline_s=AMPLE)
    assert (merchant.connections, len(merchant.requests)) == (1, 3)
    assert HttpLimits().idle_s < 5


class ThreadedMerchant:
    """One that acts while the gateway's loop stands still, so that its act is not yet noticed."""

    def __init__(self, after_first: bytes | None) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/"
        self.act, self.acted = threading.Event(), threading.Event()
        self.after_first = after_first
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        with self.listener:
            first, _ = self.listener.accept()
            first.recv(65_536)
            first.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Type: application/json\r\n\r\n1")
            self.act.wait(AMPLE)
            if self.after_first is None:
                first.close()
            else:
                first.sendall(self.after_first)
            self.acted.set()
            self.listener.settimeout(AMPLE)
            second, _ = self.listener.accept()
            second.recv(65_536)
            second.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Type: application/json\r\n\r\n2")
            second.close()
            first.close()


STRAY = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Type: application/json\r\n\r\n"stray"'


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("after_first", [None, STRAY], ids=["closed", "stray_reply"])
async def test_p5_2_an_idle_connection_that_was_closed_or_spoke_unasked_is_not_used(street, call, after_first, noticed):
    """5.2: a close under way would make the outcome unknown; a stray reply would answer the wrong call."""
    merchant = ThreadedMerchant(after_first)
    client = street.client()
    first = await client.send(call(merchant.url), deadline_s=AMPLE)
    (idle,) = client._pool._connections
    merchant.act.set()
    assert merchant.acted.wait(AMPLE)
    looking = select.poll()  # with the loop standing still, until what it did is here
    looking.register(idle._transport.get_extra_info("socket").fileno(), select.POLLIN)
    assert looking.poll(AMPLE * 1000)
    if noticed:
        for _ in range(5):
            await asyncio.sleep(0)
    second = await client.send(call(merchant.url), deadline_s=AMPLE)
    assert (first.body, second.body) == (b"1", b"2")
    merchant.thread.join(AMPLE)


async def test_p5_2_a_reply_followed_by_another_ends_the_connection(street, call):
    """5.2: both in one piece; the second is nobody's."""

    async def script(peer):
        await peer.request()
        await peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Type: application/json\r\n\r\n1" + STRAY)
        await peer.gone()

    merchant = await street.merchant(script)
    client = street.client()
    for _ in range(2):
        assert (await client.send(call(merchant.url()), deadline_s=AMPLE)).body == b"1"
    assert merchant.connections == 2


async def test_p5_3_a_cancelled_send_closes_its_connection(street, call):
    """5.2, 5.3: nothing of an abandoned exchange is used again."""
    merchant = await street.merchant(silent)
    client = street.client()
    sending = asyncio.ensure_future(client.send(call(merchant.url()), deadline_s=AMPLE))
    async with asyncio.timeout(AMPLE):
        await merchant.asked.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await merchant.left.wait()


async def test_p5_2_a_closed_client_refuses_to_send(street, call):
    """5.2: close is final."""
    client = street.client()
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.send(call("https://shop.example/"), deadline_s=AMPLE)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://2130706433:{port}/",
        "http://127.1:{port}/",
        "http://0x7f000001:{port}/",
        "http://0177.0.0.1:{port}/",
        "http://0.0.0.0:{port}/",
        "http://localhost:{port}/",
        "http://localhost.:{port}/",
        "https://127.0.0.1:{port}/",
    ],
)
@pytest.mark.parametrize("allow_http", [True, False])
async def test_k6_01_k6_05_a_call_to_an_inside_address_makes_no_connection(street, call, url, allow_http):
    """K6-01, K6-05, 9.2: refused again at call time, with one text for all, whether or not somebody listens."""
    merchant = await street.merchant(answering)
    client = street.client(allow=(), allow_http=allow_http)
    seen = [await client.send(call(url.format(port=port)), deadline_s=AMPLE) for port in (merchant.port, 1)]
    assert {(one.kind, one.reason, one.sent) for one in seen} == {
        (SeenKind.NOT_CONNECTED, Reason.ADDRESS_REFUSED, False)
    }
    assert merchant.connections == 0


async def test_k6_02_a_name_that_changes_its_answer_leads_nowhere_new(street, call):
    """K6-02, 9.2: the address judged is the address dialled; the inside gets no connection, Host stays right."""

    async def once(peer):
        await peer.request()
        await peer.answer(b"{}", "200 OK", "Connection: close")

    there, beside = street.bound_twice()
    shop = await street.merchant(once, listener=there)
    inside = await street.merchant(answering, listener=beside)
    resolve = _resolve_to(["127.0.0.1"], ["127.0.0.2"])
    client = street.client(resolve=resolve, allow_http=True)
    request = call(shop.url("shop.example"))
    first = await client.send(request, deadline_s=AMPLE)
    second = await client.send(request, deadline_s=AMPLE)
    assert (first.kind, second.reason, second.sent) == (SeenKind.REPLY, Reason.ADDRESS_REFUSED, False)
    assert f"Host: shop.example:{shop.port}\r\n".encode() in shop.requests[0]
    assert (shop.connections, inside.connections) == (1, 0)


async def test_k6_02_a_kept_connection_goes_on_to_the_address_that_was_judged(street, call):
    """K6-02: keep-alive, and the name now answers loopback."""
    there, beside = street.bound_twice()
    shop = await street.merchant(answering, listener=there)
    inside = await street.merchant(answering, listener=beside)
    client = street.client(resolve=_resolve_to(["127.0.0.1"], ["127.0.0.2"]))
    for _ in range(3):
        assert (await client.send(call(shop.url("shop.example")), deadline_s=AMPLE)).kind is SeenKind.REPLY
    assert (shop.connections, inside.connections) == (1, 0)


async def test_p9_2_one_bad_answer_among_good_ones_refuses_the_name(street, call):
    """9.2: every answer is judged."""
    merchant = await street.merchant(answering)
    client = street.client(resolve=_resolve_to(["127.0.0.1", "10.0.0.1"]))
    seen = await client.send(call(merchant.url("shop.example")), deadline_s=AMPLE)
    assert (seen.reason, merchant.connections) == (Reason.ADDRESS_REFUSED, 0)


async def test_p9_2_the_name_and_not_the_address_is_asked_for_in_tls(street, call, certified, trusting):
    """9.2: the dialled address carries the right TLS server name, verified against the certificate."""
    asked = []
    context = certified("shop.example")
    context.sni_callback = lambda sock, name, ctx: asked.append(name)
    merchant = await street.merchant(answering, tls=context)
    client = street.client(ssl_context=trusting(), resolve=_resolve_to(["127.0.0.1"]))
    seen = await client.send(call(merchant.url("shop.example.")), deadline_s=AMPLE)
    assert (seen.kind, asked) == (SeenKind.REPLY, ["shop.example"])


async def test_p9_2_plain_http_reaches_allowed_addresses_only(street, call):
    """9.2: outside development, http to a public address is refused at the connect too."""
    merchant = await street.merchant(answering)
    client = street.client(resolve=_resolve_to(["93.184.216.34"], ["127.0.0.1"]))
    request = call(merchant.url("shop.example"))
    assert (await client.send(request, deadline_s=AMPLE)).reason is Reason.ADDRESS_REFUSED
    assert (await client.send(request, deadline_s=AMPLE)).kind is SeenKind.REPLY


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip, gzip", "zstd"])
async def test_k6_13_a_compressed_reply_stays_compressed_and_is_unknown(street, call, coding):
    """K6-13, 9.4: never expanded, so a bomb is just its own few bytes."""
    bomb = gzip.compress(b"\0" * 10_000_000)

    async def script(peer):
        await peer.request()
        await peer.answer(bomb, "200 OK", f"Content-Encoding: {coding}")

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert (seen.body, seen.content_encoding) == (bomb, coding)
    assert outcome(seen) is OutcomeKind.UNKNOWN


async def test_k6_13_a_compressed_transfer_coding_is_unknown_too(street, call):
    """K6-13, 9.4: Transfer-Encoding is the other way to say it."""
    body = gzip.compress(b"{}", mtime=0)

    async def script(peer):
        await peer.request()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
        await peer.write(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert "gzip" in seen.content_encoding
    assert outcome(seen) is OutcomeKind.UNKNOWN


@pytest.mark.parametrize(
    ("framing", "piece"),
    [
        (b"Content-Length: 50000000", b"1" * 65_536),
        (b"Transfer-Encoding: chunked", b"10000\r\n" + b"1" * 65_536 + b"\r\n"),
        (b"Connection: close", b"1" * 65_536),
    ],
    ids=["length", "endless_chunks", "endless_stream"],
)
async def test_k6_13_reading_stops_above_the_cap_and_the_connection_ends(street, call, framing, piece):
    """K6-13, 4.12, 9.4: an honest 50 MB, or no end at all: succeeded, dropped, and little of it ever read."""
    written = 0

    async def script(peer):
        nonlocal written
        await peer.request()
        await peer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + framing + b"\r\n\r\n")
        try:
            while written < 50_000_000:
                await peer.write(piece)
                written += 65_536
        finally:
            peer.writer.transport.abort()

    merchant = await street.merchant(script)
    client = street.client(limits=HttpLimits(reply_bytes=65_536))
    seen = await client.send(call(merchant.url()), deadline_s=AMPLE)
    assert (seen.kind, seen.too_large, len(seen.body)) == (SeenKind.REPLY, True, http_reply.EXCERPT_BYTES)
    judged = outcome_of(seen)
    assert (judged.kind, judged.dropped, judged.result) == (OutcomeKind.SUCCEEDED, True, None)
    assert written < 50_000_000
    assert (await client.send(call(merchant.url()), deadline_s=AMPLE)).too_large
    assert merchant.connections == 2


async def test_k6_13_a_reply_of_exactly_the_cap_is_read_whole(street, call):
    """4.12: up to the cap is whole, one more is dropped."""
    body = b'"' + b"x" * 65_534 + b'"'

    async def script(peer):
        for extra in (b"", b" "):
            await peer.request()
            await peer.answer(body + extra)

    merchant = await street.merchant(script)
    client = street.client(limits=HttpLimits(reply_bytes=65_536))
    whole = await client.send(call(merchant.url()), deadline_s=AMPLE)
    over = await client.send(call(merchant.url()), deadline_s=AMPLE)
    assert (whole.body, whole.too_large, over.too_large) == (body, False, True)


async def test_k6_13_a_reply_that_breaks_off_below_the_cap_is_unknown(street, call):
    """K6-13: 50 MB announced, a few bytes came: that is truncated and not over the cap."""

    async def script(peer):
        await peer.request()
        await peer.write(HEAD.replace(b"400", b"50000000") + b"[1,")

    merchant = await street.merchant(script)
    assert outcome(await street.client().send(call(merchant.url()), deadline_s=AMPLE)) is OutcomeKind.UNKNOWN


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 " + b"y" * 20_000 + b"\r\n\r\n",
        b"\x16\x03\x01 not HTTP at all\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
    ids=["many_fields", "long_field", "long_line", "not_http", "bad_status", "two_lengths", "bad_length", "upgrade"],
)
async def test_p9_4_a_reply_that_is_not_bounded_http_is_unknown(street, call, reply):
    """9.4: header sections are bounded, and nonsense is not an answer."""

    async def script(peer):
        await peer.request()
        await peer.write(reply)

    merchant = await street.merchant(script)
    seen = await street.client().send(call(merchant.url()), deadline_s=AMPLE)
    assert seen.sent
    assert outcome(seen) is OutcomeKind.UNKNOWN
    assert len(merchant.requests) == 1


SECRETS = ("SECRET1", "SECRET2", "SECRET3", "4111111111111111", "pw-in-url")


@pytest.mark.parametrize(
    "fault", ["dns", "refused", "tls", "timeout", "500", "invalid_json", "header", "inside", "userinfo"]
)
async def test_k6_10_no_failure_shows_credentials_anywhere(street, call, trusting, caplog, fault):
    """K6-10, 9.3: URL, headers and arguments appear in no log at debug level, no repr and no error text."""
    asyncio.get_running_loop().set_debug(True)
    caplog.set_level(logging.DEBUG)

    async def script(peer):
        if fault == "tls":
            await peer.write(b"not TLS")
        await peer.request()
        if fault == "timeout":
            await peer.gone()
        await peer.answer(b"{" if fault == "invalid_json" else b"{}", "500 Oops" if fault == "500" else "200 OK")

    merchant = await street.merchant(script)
    resolve = _resolve_to(socket.gaierror(-2, "unknown") if fault == "dns" else ["127.0.0.1"])
    client = street.client(
        resolve=resolve, ssl_context=trusting(), allow=() if fault == "inside" else (ip_network("127.0.0.1/32"),)
    )
    scheme = "https" if fault == "tls" else "http"
    port = 1 if fault == "refused" else merchant.port
    userinfo = "u:pw-in-url@" if fault == "userinfo" else ""  # never registered, and refused here as well
    request = call(
        f"{scheme}://{userinfo}shop.example:{port}/x?key=SECRET1",
        b'{"card":"4111111111111111"}',
        ("webhook-signature", "v1,SECRET2"),
        ("X-Key", "SECRET3\n" if fault == "header" else "SECRET3"),
    )
    seen = await client.send(request, deadline_s=DEADLINE)
    judged = outcome_of(seen)
    assert judged.kind is not OutcomeKind.SUCCEEDED
    shown = f"{caplog.text} {request!r} {seen!r} {judged!r}"
    assert not [secret for secret in SECRETS if secret in shown]
