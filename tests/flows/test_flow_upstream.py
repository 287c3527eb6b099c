"""What a merchant's server and the network do to one exchange (section 5), seen from the runtime."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

import pytest
import trustme
from flow_client import Api, Reply
from flow_merchant import Behaviour, Connection, RawMerchant, Request, reply
from flow_processes import GatewayProcess

NewMerchant = Callable[..., Awaitable[RawMerchant]]
JSON = "Content-Type: application/json"


async def unknown_once(shop: Api, merchant: RawMerchant, tool_call_id: str = "u1") -> Reply:
    """The first answer says "unknown", three repeats say the same, and the merchant was asked once."""
    first = await shop.call(tool_call_id)
    assert first.decision == "proceed"
    assert first.json["status"] == "indeterminate"
    assert first.json["error"]["code"] == "outcome_unknown"
    assert first.json["effect_id"] == merchant.requests[-1].headers["idempotency-key"]
    for _ in range(3):
        again = await shop.call(tool_call_id)
        assert again.decision == "replay"
        assert again.shown == first.shown
    assert merchant.hits == 1
    assert [row["tool_call_id"] for row in await shop.unknown()] == [tool_call_id]
    return first


async def test_k3_01_a_reply_that_misses_the_deadline_is_unknown_and_not_sent_again(
    api: Api, merchant: RawMerchant
) -> None:
    """K3-01, 4.6, 5: committed, then silent past the tool's deadline."""
    await api.register("place_order", merchant.url, timeout_s=2)
    merchant.waits_for(asyncio.Event())
    await unknown_once(api, merchant)


async def _before_status(request: Request, connection: Connection) -> bytes | None:
    connection.reset()
    return None


async def _after_headers(request: Request, connection: Connection) -> bytes | None:
    await connection.write(f"HTTP/1.1 200 OK\r\n{JSON}\r\nContent-Length: 20\r\n\r\n".encode())
    connection.reset()
    return None


async def _mid_body(request: Request, connection: Connection) -> bytes | None:
    await connection.write(reply({"order": "O-1"})[:-4])
    connection.reset()
    return None


@pytest.mark.parametrize("behave", [_before_status, _after_headers, _mid_body])
async def test_k3_02_a_reset_after_the_work_is_unknown_and_one_post(
    shop: Api, merchant: RawMerchant, behave: Behaviour
) -> None:
    """K3-02 a, b, c, 5.2: no library below the gateway sends again."""
    merchant.behave = behave
    await unknown_once(shop, merchant)


async def test_k3_02_a_reset_on_a_connection_that_was_kept_alive_is_one_post(shop: Api, merchant: RawMerchant) -> None:
    """K3-02, 5.2: clients like to retry by themselves on a connection that served before."""
    assert (await shop.call("warm", arguments={"n": 1})).decision == "proceed"
    assert merchant.connections == 1
    merchant.behave = _before_status
    assert (await shop.call("u1", arguments={"n": 2})).json["status"] == "indeterminate"
    assert (merchant.hits, merchant.connections) == (2, 1)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 409, 302])
async def test_k3_04_an_answer_that_does_not_tell_is_unknown_and_one_post(
    shop: Api, merchant: RawMerchant, status: int
) -> None:
    """K3-04, 5: `Retry-After` or not, the same id never triggers a second POST by itself."""
    merchant.answers(reply({"error": "busy"}, "Retry-After: 1", "Location: /elsewhere", status=status))
    await unknown_once(shop, merchant)


RETRY_AFTER = {
    "a date ahead": ([formatdate(4_102_444_800, usegmt=True)], 3600),
    "a date gone by": (["Sun, 06 Nov 1994 08:49:37 GMT"], 0),
    "negative": (["-5"], None),
    "a fraction": (["0.493"], 1),
    "junk": (["120junk"], None),
    "huge": (["99999999999"], 3600),
    "empty": ([""], None),
    "two": (["7", "3"], 7),
}


@pytest.mark.parametrize(("values", "wait"), RETRY_AFTER.values(), ids=RETRY_AFTER.keys())
async def test_k3_05_retry_after_in_any_form_is_a_bounded_hint_and_the_id_stays_usable(
    shop: Api, merchant: RawMerchant, values: list[str], wait: int | None
) -> None:
    """K3-05, 5: 429 is "not sent": released, and the same id runs later."""
    headers = [f"Retry-After: {value}" for value in values]
    merchant.answers(reply({"error": "slow down"}, *headers, status=429), reply({"order": "O-1"}))
    refused = await shop.call("w1")
    assert (refused.status, refused.code) == (502, "merchant_not_ready")
    assert refused.json["retryable"] is True
    hint = refused.headers.get("retry-after")
    assert hint == (None if wait is None else str(wait))
    assert await shop.stored("w1") == []
    assert (await shop.call("w1")).decision == "proceed"


@pytest.mark.parametrize(
    "answer",
    [
        reply(status=204, length=False),
        reply(),
        reply(b"null", JSON),
        reply(b" \n", JSON),
        reply(b"", "Location: /orders/1", status=201),
    ],
    ids=["204", "empty", "null", "blank", "201 with Location only"],
)
async def test_k3_06_an_empty_success_is_a_success_and_is_stored(
    shop: Api, merchant: RawMerchant, answer: bytes
) -> None:
    """K3-06, 5: empty and `null` are the same empty result."""
    merchant.answers(answer)
    first, again = await shop.call("e1"), await shop.call("e1")
    assert first.shown == again.shown == ("succeeded", None, None)
    assert (first.decision, again.decision) == ("proceed", "replay")
    assert merchant.hits == 1


async def test_k3_07_html_is_no_success_and_reaches_only_the_log_cleaned(shop: Api, merchant: RawMerchant) -> None:
    """K3-07, 5: a front proxy's page with status 200."""
    page = b"<html><script>alert(1)</script><b>down for maintenance</b>" + b"<p>x</p>" * 9_000
    merchant.answers(reply(page, "Content-Type: text/html"))
    first = await unknown_once(shop, merchant)
    assert b"maintenance" not in first.raw
    (lost,) = [event for event in await shop.events() if event["type"] == "effect.indeterminate"]
    assert "down for maintenance" in str(lost)
    assert "<" not in str(lost)
    assert "alert" not in str(lost)
    assert len(str(lost)) < 4_096


async def test_k3_07_a_refusal_reaches_the_assistant_with_its_reason(shop: Api, merchant: RawMerchant) -> None:
    """K3-07, 5: 422 means that the merchant refused; its body is the reason."""
    merchant.answers(reply({"error": "out_of_stock"}, status=422))
    for decision in ("proceed", "replay"):
        answer = await shop.call("f1")
        assert answer.decision == decision
        assert answer.json["status"] == "failed"
        assert answer.json["error"]["code"] == "merchant_refused"
        assert answer.json["error"]["details"] == {"status": 422, "body": {"error": "out_of_stock"}}
        assert "out_of_stock" in answer.json["message"]
    assert merchant.hits == 1


async def test_k3_07_the_body_of_a_500_is_kept_in_the_log_bounded(shop: Api, merchant: RawMerchant) -> None:
    """K3-07, 5: unknown, and what the merchant said is there for who looks into it."""
    merchant.answers(reply({"trace": "deadlock detected " + "x" * 100_000}, status=500))
    await unknown_once(shop, merchant)
    (lost,) = [event for event in await shop.events() if event["type"] == "effect.indeterminate"]
    assert "deadlock detected" in str(lost)
    assert len(str(lost)) < 4_096
    assert lost["http_status"] == 500


async def test_p5_an_unknown_outcome_is_one_line_with_the_effect_and_why(
    shop: Api, merchant: RawMerchant, gateway: GatewayProcess, eventually: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> None:
    """5, 9.3: whoever watches the log can look the effect up; what the merchant said is not in it."""
    merchant.answers(reply({"trace": "deadlock"}, status=500))
    first = await unknown_once(shop, merchant)
    effect = first.json["effect_id"]
    warned = (
        f"WARNING oncegate.calls the outcome of a call is not known effect_id={effect} reason=replied http_status=500"
    )
    await eventually(lambda: any(line.endswith(warned) for line in gateway.said))
    assert sum(effect in line and " WARNING " in line for line in gateway.said) == 1
    assert not any("deadlock" in line for line in gateway.said)


async def test_k3_09_dripping_replies_are_cut_at_the_deadline_beside_normal_calls(
    api: Api, new_merchant: NewMerchant
) -> None:
    """K3-09, 5.2: the deadline is of the whole exchange, however often a byte comes."""
    slow, normal = await new_merchant(), await new_merchant()

    async def drip(request: Request, connection: Connection) -> bytes | None:
        await connection.write(f"HTTP/1.1 200 OK\r\n{JSON}\r\nContent-Length: 1000000\r\n\r\n".encode())
        while True:  # only the other side ends this
            await connection.write(b" ")
            await asyncio.sleep(0.02)

    slow.behave = drip
    await api.register("place_order", slow.url, timeout_s=3)
    await api.register("book_table", normal.url)
    dripping = [asyncio.create_task(api.call(f"d{n}", arguments={"n": n})) for n in range(8)]
    usual = [await api.call(f"n{n}", "book_table", {"n": n}) for n in range(20)]
    assert [answer.decision for answer in usual] == ["proceed"] * 20
    async with asyncio.timeout(60):  # far beyond the deadline: were it not kept, nothing else would end them
        cut = await asyncio.gather(*dripping)
    assert {answer.json["status"] for answer in cut} == {"indeterminate"}
    assert slow.hits == 8


NAME = '{"name": "José"}'
TEXTS: dict[str, tuple[bytes, str, str | None]] = {
    "a byte-order mark": (b"\xef\xbb\xbf" + NAME.encode(), "application/json", "José"),
    "declared Latin-1": (NAME.encode("latin-1"), "application/json; charset=ISO-8859-1", "José"),
    "undeclared Latin-1": (NAME.encode("latin-1"), "application/json", None),
    "charset=utf8": (NAME.encode(), "application/json; charset=utf8", "José"),
    "charset=bogus": (NAME.encode(), "application/json; charset=bogus", "José"),
    "a bogus charset and no UTF-8": (NAME.encode("latin-1"), "application/json; charset=bogus", None),
    "half a surrogate pair": (b'{"name": "Jos\\udcb2"}', "application/json", "Jos�"),
}


@pytest.mark.parametrize(("body", "kind", "name"), TEXTS.values(), ids=TEXTS.keys())
async def test_k3_11_text_is_decoded_properly_or_not_at_all(
    shop: Api, merchant: RawMerchant, body: bytes, kind: str, name: str | None
) -> None:
    """K3-11, K2-15, 5: never mojibake, never a 500."""
    merchant.answers(reply(body, f"Content-Type: {kind}"))
    if name is None:
        await unknown_once(shop, merchant)
    else:
        assert (await shop.call("t1")).json["result"] == {"name": name}
        assert (await shop.call("t1")).json["result"] == {"name": name}


async def test_k3_13_a_refused_connection_is_not_sent_and_the_same_id_runs_once_it_is_mended(
    api: Api, new_merchant: NewMerchant
) -> None:
    """K3-13, 5: nothing is left behind, and the repeat does execute."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        await api.register("place_order", f"http://127.0.0.1:{port}/tools")
        refused = await api.call("p1")
        assert (refused.status, refused.code) == (502, "merchant_unreachable")
        assert refused.json["outcome"] == "not_sent"
        assert await api.stored("p1") == []
        assert await api.unknown() == []
        merchant = await new_merchant(listens_on=taken)
    assert (await api.call("p1")).decision == "proceed"
    assert (await api.call("p1")).decision == "replay"
    assert merchant.hits == 1


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    Connection(writer).reset()


async def _no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(reply({"order": "O-1"}))
    writer.close()


async def _bad_certificate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize(
    ("fault", "said"),
    [(_bad_certificate, "certificate is not valid"), (_no_tls, "secure connection"), (_reset, "secure connection")],
)
async def test_k3_13_tls_faults_are_not_sent_and_never_bypassed(
    api: Api, merchant: RawMerchant, fault: Callable[..., Awaitable[None]], said: str
) -> None:
    """K3-13, 5, 9.2: a clear category, no record, and the same id runs at the mended endpoint."""
    context: ssl.SSLContext | None = None
    if fault is _bad_certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with await asyncio.start_server(fault, "127.0.0.1", 0, ssl=context) as server:
        await api.register("place_order", f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/tools")
        refused = await api.call("p2")
    assert (refused.status, refused.code) == (502, "merchant_unreachable")
    assert said in refused.json["message"]
    assert await api.stored("p2") == []
    await api.register("place_order", merchant.url)
    assert (await api.call("p2")).decision == "proceed"
    assert merchant.hits == 1


async def test_p6_the_request_is_the_documented_one_and_its_key_is_the_effect_id(
    shop: Api, merchant: RawMerchant
) -> None:
    """6: body and headers as promised, trace headers passed on."""
    trace = {"Request-Id": "req-7", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    call: dict[str, Any] = {"company": shop.company, "conversation": "c-1", "tool_call_id": "w9", "turn": "t"}
    call |= {"attempt": 2, "tool": "place_order", "arguments": '{"sku": "A"}'}
    answer = await shop.send("POST", "/v1/calls", call, headers=trace)
    (request,) = merchant.requests
    assert answer.headers["request-id"] == "req-7"
    context = {"company": shop.company, "conversation": "c-1", "turn": "t", "tool_call_id": "w9", "attempt": 2}
    assert request.json == {"tool": "place_order", "arguments": {"sku": "A"}, "context": context}
    key = answer.json["effect_id"]
    assert (request.headers["idempotency-key"], request.headers["webhook-id"]) == (key, key)
    assert request.headers["webhook-signature"].startswith("v1,")
    assert (request.headers["request-id"], request.headers["traceparent"]) == ("req-7", trace["traceparent"])
    assert "accept-encoding" not in request.headers or request.headers["accept-encoding"] == "identity"
