"""Over the merchant's endpoint: one purchase is one order, whichever call asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from merchant_sdk import Refused, Shop, SQLiteStore, issue_token, redeem, request_key
from merchant_sdk.request_key import Line

TOKENS = "whsec_" + "B" * 43 + "="
ORDER = {"item": "pizza"}


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
