"""The merchant's endpoint: nobody unsigned gets in, and no reply leaves before its commit."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from merchant_sdk import Refused, Shop, SQLiteStore, issue_token, redeem, request_key
from merchant_sdk.request_key import Line

TOKENS = "whsec_" + "B" * 43 + "="
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
    for name, value in (
        (b"webhook-timestamp", b"%d" % (start + 1)),
        (b"idempotency-key", b"k2"),
        (b"webhook-id", b"k2"),
    ):
        altered = [(n, value if n == name else v) for n, v in headers]
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


async def test_k7_08_the_same_key_with_other_arguments_or_another_buyer_is_a_conflict(
    shop: Shop, gateway: Any, rows: Any
) -> None:
    """K7-08: 422 `key_reused`, with nothing of the other's order in it."""
    app = shop.asgi()
    await gateway.call(app, "place_order", ORDER, key="k1")
    for other in ({"arguments": {"item": "pasta"}}, {"arguments": ORDER, "conversation": "c-2"}):
        reply = await gateway.call(app, "place_order", key="k1", **other)
        assert (reply.status, reply.json["error"]["code"]) == (422, "key_reused")
        assert b"O-1" not in reply.body
    assert len(rows()) == 1


async def test_k7_05_c_the_same_purchase_by_another_call_is_flagged(
    shop: Shop, gateway: Any, clock: Any, rows: Any
) -> None:
    """K7-05 (c): inside the window the original, when it was placed and how to order again; then a new order."""
    app = shop.asgi()
    await gateway.call(app, "place_order", ORDER, key="k1")
    clock.at += 90
    repeat = await gateway.call(app, "place_order", ORDER, key="k2")
    assert repeat.json["order_id"] == "O-1"
    assert repeat.json["already_done"] == {
        "at": "2026-11-30T00:53:20.000Z",
        "message": "Already done at 2026-11-30T00:53:20.000Z; nothing new was done.",
        "order_again": "Ask for it again with a new session.",
    }
    assert repeat.headers[b"idempotent-replayed"] == b"true"
    clock.at += 3 * 3600
    assert (await gateway.call(app, "place_order", ORDER, key="k3")).json == {"order_id": "O-2"}
    assert (await gateway.call(app, "place_order", ORDER, key="k2")).body == repeat.body
    assert len(rows()) == 2


@pytest.fixture
def token_shop(store: SQLiteStore, secret: str, clock: Any) -> Shop:
    """`checkout` issues a token, `create_order` redeems it, and charges in the same transaction."""
    shop = Shop(store, secrets=[secret], now=clock)
    what: dict[str, Any] = {"purpose": "order", "cart": [Line("pizza", 1)]}

    @shop.tool(side_effecting=False)
    def checkout(read: Any) -> Any:
        buyer = read.call.context.conversation
        return {"token": issue_token(TOKENS, buyer=buyer, now=read.at, ttl_s=600, **what)}

    def purchase(work: Any, token: str) -> Any:
        return redeem(TOKENS, token, buyer=work.call.context.conversation, **what)

    @shop.tool(side_effecting=True, key=purchase)
    def create_order(work: Any, token: str) -> Any:
        row = work.db.execute("INSERT INTO orders (buyer, item) VALUES (?, 'pizza')", (work.call.context.conversation,))
        return {"order_id": f"O-{row.lastrowid}"}

    return shop


async def test_k1_13_a_second_post_with_a_new_gateway_key_and_the_same_token_is_one_order(
    token_shop: Shop, gateway: Any, rows: Any, example: Any
) -> None:
    """K1-13: the first reply is lost on the way; the second call returns O-1."""
    faulty = example("faulty")
    app = faulty.Faulty(token_shop.asgi(), faulty.scripted({"create_order": [faulty.DROP_REPLY]}))
    token = (await gateway.call(app, "checkout", {}, key=None)).json["token"]
    lost = await gateway.call(app, "create_order", {"token": token}, key="n1")
    assert lost.body == b""
    assert len(rows()) == 1
    second = await gateway.call(app, "create_order", {"token": token}, key="n2")
    assert second.json["order_id"] == "O-1"
    assert len(rows()) == 1


async def test_k7_03_an_error_after_the_commit_and_a_second_try_is_one_charge(
    token_shop: Shop, gateway: Any, rows: Any, example: Any
) -> None:
    """K7-03: the shopper sees a 500, tries again and gets the original; with a new token it is a new purchase."""
    faulty = example("faulty")
    app = faulty.Faulty(token_shop.asgi(), faulty.scripted({"create_order": [faulty.ERROR_AFTER_COMMIT]}))
    token, fresh = [(await gateway.call(app, "checkout", {}, key=None)).json["token"] for _ in range(2)]
    assert (await gateway.call(app, "create_order", {"token": token}, key="k1")).status == 500
    assert (await gateway.call(app, "create_order", {"token": token}, key="k2")).json["order_id"] == "O-1"
    assert len(rows()) == 1
    assert (await gateway.call(app, "create_order", {"token": fresh}, key="k3")).json == {"order_id": "O-2"}
    assert len(rows()) == 2


async def test_k7_08_another_buyer_cannot_redeem_the_token(token_shop: Shop, gateway: Any, rows: Any) -> None:
    """K7-08: told apart from "already done", and no order of the other's shown."""
    app = token_shop.asgi()
    token = (await gateway.call(app, "checkout", {}, key=None)).json["token"]
    await gateway.call(app, "create_order", {"token": token}, key="k1")
    reply = await gateway.call(app, "create_order", {"token": token}, key="k2", conversation="c-2")
    assert (reply.status, reply.json["error"]["code"]) == (422, "token_mismatch")
    assert b"O-1" not in reply.body
    assert len(rows()) == 1


INSERT = "INSERT INTO orders (buyer, item) VALUES ('b-1', 'pizza')"


async def test_k7_11_the_order_is_visible_when_the_reply_leaves(shop: Shop, gateway: Any, rows: Any) -> None:
    """K7-11: at the first byte of the reply, a stranger finds the order in the file."""
    seen: list[int] = []
    inner = shop.asgi()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def spy(message: Any) -> None:
            seen.append(len(rows()))
            await send(message)

        await inner(scope, receive, spy)

    await gateway.call(app, "place_order", ORDER, key="k1")
    assert seen == [1, 1]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    "fault", ["commit fails", "reads the answer", "raises", "finds nothing", "bad reply", "commits itself"]
)
async def test_k7_11_what_goes_wrong_before_the_commit_is_a_500_with_nothing_stored(
    database: Path, secret: str, gateway: Any, clock: Any, rows: Any, kind: str, fault: str
) -> None:
    """K7-11: no success before the commit, whether the tool is sync or async."""
    schema = "CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT REFERENCES buyers (id) DEFERRABLE INITIALLY DEFERRED, item TEXT); CREATE TABLE buyers (id TEXT PRIMARY KEY); INSERT INTO buyers VALUES ('b-1');"  # fmt: skip
    store = SQLiteStore(database, schema=schema, on_connect=lambda db: db.execute("PRAGMA foreign_keys = ON"))
    shop = Shop(store, secrets=[secret], now=clock)
    broken = [True]

    def work_on(work: Any) -> Any:
        work.db.execute(INSERT)
        if not broken:
            return "placed"
        if fault == "commit fails":
            work.db.execute("INSERT INTO orders (buyer, item) VALUES ('nobody', 'pizza')")
        elif fault == "reads the answer":
            return work.answer.body
        elif fault == "raises":
            raise OSError("the printer is on fire")
        elif fault == "finds nothing":
            return next(iter(()))
        elif fault == "bad reply":
            return {"order": object()}
        else:
            work.db.execute("COMMIT")
        return "placed"

    async def work_on_async(work: Any) -> Any:
        await asyncio.to_thread(len, "elsewhere")
        return work_on(work)

    shop.tool(side_effecting=True, name="place_order")(work_on if kind == "sync" else work_on_async)
    app = shop.asgi()
    async with asyncio.timeout(30):
        reply = await gateway.call(app, "place_order", {}, key="k1")
    assert (reply.status, reply.json["error"]["code"]) == (500, "merchant_error")
    assert b"fire" not in reply.body
    assert rows() == rows("SELECT * FROM oncegate_once") == []
    broken.clear()
    assert (await gateway.call(app, "place_order", {}, key="k1")).json == "placed"
    assert len(rows()) == 1


async def test_a_read_tool_that_finds_nothing_is_a_500_and_no_endless_wait(
    store: SQLiteStore, secret: str, gateway: Any, clock: Any
) -> None:
    """No future takes the StopIteration of a bare `next`: the gateway would wait for an answer until its deadline."""
    shop = Shop(store, secrets=[secret], now=clock)

    @shop.tool(side_effecting=False)
    def get_order(work: Any, id: str) -> Any:  # noqa: A002
        return next(row for row in work.db.execute("SELECT id FROM orders WHERE id = ?", (id,)))

    async with asyncio.timeout(30):
        reply = await gateway.call(shop.asgi(), "get_order", {"id": "O-1"}, key="k1")
    assert (reply.status, reply.json["error"]["code"]) == (500, "merchant_error")


async def test_a_decline_is_told_and_the_next_attempt_goes_through(
    store: SQLiteStore, secret: str, gateway: Any, clock: Any, rows: Any
) -> None:
    """A definite refusal stores none of the work, is kept for its own call, and blocks no other."""
    shop = Shop(store, secrets=[secret], now=clock)
    funds = [False]

    def key(work: Any) -> Any:
        return request_key("order", buyer="b-1", cart=[Line("pizza", 1)], session="s-1")

    @shop.tool(side_effecting=True, key=key)
    def place_order(work: Any) -> Any:
        work.db.execute(INSERT)
        if not funds[0]:
            raise Refused("card_declined", "Your card was declined.", status=402)
        return "placed"

    app = shop.asgi()
    declined = await gateway.call(app, "place_order", {}, key="k1")
    assert (declined.status, declined.json) == (
        402,
        {"error": {"code": "card_declined", "message": "Your card was declined."}},
    )
    assert rows() == []
    funds[0] = True
    twin = await gateway.call(app, "place_order", {}, key="k1")
    assert (twin.status, twin.body) == (402, declined.body)
    assert (await gateway.call(app, "place_order", {}, key="k2")).json == "placed"
    assert len(rows()) == 1


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_twenty_at_once_over_asgi_are_one_order(
    store: SQLiteStore, secret: str, gateway: Any, clock: Any, rows: Any, kind: str
) -> None:
    """K7-02: async tools wait for one another without holding up the loop that has to finish them."""
    shop = Shop(store, secrets=[secret], now=clock)

    def key(work: Any) -> Any:
        return request_key("order", buyer="b-1", cart=[Line("pizza", 1)], session="s-1")

    def place(work: Any) -> Any:
        return {"order_id": work.db.execute(INSERT).lastrowid}

    async def place_async(work: Any) -> Any:
        await asyncio.to_thread(len, "elsewhere")
        return place(work)

    shop.tool(side_effecting=True, key=key, name="place_order")(place if kind == "sync" else place_async)
    app = shop.asgi()
    calls = [gateway.call(app, "place_order", {}, key=f"k{n % 5}") for n in range(20)]
    replies = await asyncio.gather(*calls)
    assert {(reply.status, reply.json["order_id"]) for reply in replies} == {(200, 1)}
    assert len(rows()) == 1


async def test_a_busy_database_is_a_429_that_promises_nothing_was_done(
    database: Path, secret: str, gateway: Any, clock: Any, rows: Any
) -> None:
    """Semantics 5: 429 is "not executed", and that is true: the work never began."""
    shop = Shop(SQLiteStore(database, busy_timeout_s=0), secrets=[secret], now=clock)
    shop.tool(side_effecting=True, name="place_order")(lambda work: "placed")
    other = sqlite3.connect(database)
    other.execute("BEGIN IMMEDIATE")
    reply = await gateway.call(shop.asgi(), "place_order", {}, key="k1")
    other.close()
    assert (reply.status, reply.headers[b"retry-after"]) == (429, b"1")
    assert (await gateway.call(shop.asgi(), "place_order", {}, key="k1")).json == "placed"


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_read_runs_without_once_and_without_a_key(
    store: SQLiteStore, secret: str, gateway: Any, clock: Any, rows: Any, kind: str
) -> None:
    """3.6: reads are not recorded, and cannot write."""
    shop = Shop(store, secrets=[secret], now=clock)

    def count(read: Any) -> Any:
        return {"orders": read.db.execute("SELECT count(*) FROM orders").fetchone()[0], "at": read.at}

    async def count_async(read: Any) -> Any:
        return count(read)

    shop.tool(side_effecting=False, name="count_orders")(count if kind == "sync" else count_async)
    shop.tool(side_effecting=False, name="sneak")(lambda read: read.db.execute(INSERT))
    shop.tool(side_effecting=False, name="refuse")(lambda read: (_ for _ in ()).throw(Refused("no", "No.")))
    app = shop.asgi()
    for _ in range(2):
        assert (await gateway.call(app, "count_orders", {}, key=None)).json == {"orders": 0, "at": clock.at}
    assert (await gateway.call(app, "sneak", {}, key=None)).status == 500
    assert (await gateway.call(app, "refuse", {}, key=None)).status == 422
    assert rows() == rows("SELECT * FROM oncegate_once") == []


async def test_a_call_that_was_answered_replays_when_its_tool_is_gone(
    shop: Shop, gateway: Any, rows: Any, store: SQLiteStore, secret: str, clock: Any
) -> None:
    """4.10 at the merchant: a deploy between two tries must not turn an order into a refusal."""
    first = await gateway.call(shop.asgi(), "place_order", ORDER, key="k1")
    after_deploy = Shop(store, secrets=[secret], now=clock)
    assert (await gateway.call(after_deploy.asgi(), "place_order", ORDER, key="k1")).body == first.body
    after_deploy.tool(side_effecting=True, name="place_order")(lambda work, sku: sku)
    assert (await gateway.call(after_deploy.asgi(), "place_order", ORDER, key="k1")).body == first.body


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
