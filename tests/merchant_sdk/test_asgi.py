"""The merchant's endpoint: nobody unsigned gets in, and what cannot be done is a definite no."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from merchant_sdk import Shop

ORDER = {"item": "pizza"}


async def test_a_call_is_done_once_and_its_replay_is_marked(shop: Shop, gateway: Any, rows: Any) -> None:
    """Section 6: the same key gets the same bytes, and one order exists."""
    app = shop.asgi()
    first = await gateway.call(app, "place_order", ORDER, key="k1")
    again = await gateway.call(app, "place_order", ORDER, key="k1")
    assert (first.status, first.json) == (200, {"order_id": "O-1"})
    assert (again.status, again.body) == (200, first.body)
    assert again.headers[b"idempotent-replayed"] == b"true"
    assert b"idempotent-replayed" not in first.headers
    assert len(rows()) == 1


async def test_k6_06_a_captured_request_is_harmless_inside_five_minutes_and_refused_after(
    shop: Shop, gateway: Any, clock: Any, rows: Any
) -> None:
    """K6-06: replayed after 1 s, 4 min, 6 min and 1 day, and with the time or the key altered."""
    app = shop.asgi()
    first = await gateway.call(app, "place_order", ORDER, key="k1")
    headers, body = gateway.sent[-1]
    start = clock.at
    for age_s, status in ((1, 200), (240, 200), (360, 401), (86_400, 401)):
        clock.at = start + age_s
        replay = await gateway.send(app, headers, body)
        assert replay.status == status
        assert replay.body == first.body or status == 401
    clock.at = start
    for changed in (
        {b"webhook-timestamp": b"%d" % (start + 1)},
        {b"idempotency-key": b"k2"},
        {b"webhook-id": b"k2"},
        {b"webhook-id": b"k2", b"idempotency-key": b"k2"},
    ):
        altered = [(name, changed.get(name, value)) for name, value in headers]
        assert (await gateway.send(app, altered, body)).status == 401
    assert (await gateway.send(app, [*headers, (b"idempotency-key", b"k2")], body)).status == 401
    assert len(rows()) == 1


@pytest.mark.parametrize("sign", [1, -1])
async def test_k8_11_clocks_within_the_tolerance_do_and_one_beyond_it_is_named_in_the_shops_log(
    shop: Shop, gateway: Any, clock: Any, rows: Any, caplog: pytest.LogCaptureFixture, sign: int
) -> None:
    """K8-11: five minutes of skew do no harm. Beyond, nothing is done (401: not sent, the same id runs once the clock is
    set), and whoever runs the shop reads that it may be a clock."""
    await gateway.call(shop.asgi(), "place_order", ORDER, key="k1")
    headers, body = gateway.sent[-1]
    start = clock.at
    clock.at = start + sign * 299
    assert (await gateway.send(shop.asgi(), headers, body)).status == 200
    clock.at = start + sign * 600
    with caplog.at_level(logging.WARNING, "merchant_sdk"):
        assert (await gateway.send(shop.asgi(), headers, body)).status == 401
    assert "a clock is wrong" in caplog.text
    assert len(rows()) == 1


@pytest.mark.parametrize(
    "signature",
    [b"v1=\xff", b"", b"v1=", b"v1,", b"v1," + b"A" * 1_000_000, b"v2,AAAA", b"caf\xe9", None, "twice"],
)
async def test_k6_07_a_bad_signature_is_a_401_and_one_short_log_line(
    shop: Shop, gateway: Any, rows: Any, caplog: pytest.LogCaptureFixture, signature: Any, secret: str
) -> None:
    """K6-07: the same short answer each time, no trace, no bytes of the sender in the log."""
    await gateway.call(shop.asgi(), "place_order", ORDER, key="k1")
    headers, body = gateway.sent[-1]
    good = [header for header in headers if header[0] != b"webhook-signature"]
    bad = headers * 2 if signature == "twice" else good + [(b"webhook-signature", signature)] * (signature is not None)
    with caplog.at_level(logging.DEBUG, "merchant_sdk"):
        reply = await gateway.send(shop.asgi(), bad, body)
    assert reply.status == 401
    assert reply.json == {"error": {"code": "signature_invalid", "message": "The signature is missing or wrong."}}
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is None
    assert len(caplog.text) < 160
    assert secret not in caplog.text
    assert len(rows()) == 1


async def test_nothing_is_read_from_an_unsigned_body(shop: Shop, gateway: Any) -> None:
    """K6-07: whether a body parses is not told to strangers."""
    assert (await gateway.send(shop.asgi(), [], b"not json")).status == 401


@pytest.mark.parametrize(("extra", "status"), [(0, 200), (1, 413)])
async def test_a_body_is_capped_at_the_byte(shop: Shop, gateway: Any, extra: int, status: int) -> None:
    """9.4: counted as it comes, whatever the headers promise."""
    await gateway.call(shop.asgi(), "place_order", ORDER, key="k1")
    size = len(gateway.sent[-1][1])
    reply = await gateway.call(shop.asgi(max_body=size - extra), "place_order", ORDER, key="k1")
    assert reply.status == status


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", [(b"content-length", b"1048577")], 413),
        *[("POST", [(b"content-length", value)], 400) for value in (b"", b"x", b"-1", b"+1", b"1_0", b"\xd9\xa1")],
        ("POST", [(b"Content-Length", b"9" * 5000)], 413),
        ("POST", [(b"content-encoding", b"gzip")], 415),
        ("GET", [], 405),
        ("DELETE", [], 405),
    ],
)
async def test_what_is_refused_before_reading(shop: Shop, gateway: Any, method: str, headers: Any, status: int) -> None:
    """9.4: a promise of too much, an encoding, another method."""
    reply = await gateway.send(shop.asgi(), headers, b"", method=method)
    assert reply.status == status
    assert set(reply.json["error"]) == {"code", "message"}


async def test_a_body_cut_in_half_is_answered_with_nothing(shop: Shop, rows: Any) -> None:
    """Bad input: the sender went away before the end; nothing ran."""
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        raise AssertionError("there is nobody to answer")

    await shop.asgi()({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send)
    assert rows() == []


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"tool": "place_order"}', b'{"a":1,"a":2}'])
async def test_signed_nonsense_is_a_400(shop: Shop, gateway: Any, data: bytes) -> None:
    """Section 6: signed, but not a call."""
    reply = await gateway.send(shop.asgi(), gateway.headers(data, "k1"), data)
    assert (reply.status, reply.json["error"]["code"]) == (400, "malformed_call")


async def test_a_side_effecting_call_without_a_key_does_nothing(shop: Shop, gateway: Any, rows: Any) -> None:
    """Section 6: side-effecting calls carry an Idempotency-Key."""
    assert (await gateway.call(shop.asgi(), "place_order", ORDER, key=None)).status == 400
    assert rows() == []


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "code"),
    [
        ("fly_to_moon", {}, 404, "unknown_tool"),
        ("place_order", {}, 422, "invalid_arguments"),
        ("place_order", {"item": 7}, 422, "invalid_arguments"),
        ("place_order", {"item": None}, 422, "invalid_arguments"),
        ("place_order", {"item": "pizza", "extra": 1}, 422, "invalid_arguments"),
        ("place_order", {"item": ""}, 422, "invalid_purchase"),
        ("place_order", {"item": "x" * 10_240}, 422, "invalid_purchase"),
    ],
)
async def test_what_cannot_be_called_is_a_definite_no(
    shop: Shop, gateway: Any, rows: Any, tool: str, arguments: Any, status: int, code: str
) -> None:
    """Semantics 5: these are read as "the merchant refused", not as "unknown"."""
    reply = await gateway.call(shop.asgi(), tool, arguments, key="k1")
    assert (reply.status, reply.json["error"]["code"]) == (status, code)
    assert rows() == []


async def test_why_no_key_could_be_made_is_in_the_shops_log(
    shop: Shop, gateway: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be the shop's own slip (a price that is a float), and the customer is not who can mend it."""
    await gateway.call(shop.asgi(), "place_order", {"item": ""}, key="k1")
    assert [record.getMessage() for record in caplog.records] == ["invalid_purchase: sku is a text that is not empty"]


async def test_lifespan_and_websockets_are_answered_by_the_book(shop: Shop) -> None:
    """A server starts and stops the application without a complaint."""
    incoming = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[str] = []

    async def receive() -> Any:
        return next(incoming)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await shop.asgi()({"type": "lifespan"}, receive, send)
    await shop.asgi()({"type": "websocket"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete", "websocket.close"]
