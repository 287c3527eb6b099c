"""The demo shop, and its faults."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.demo import kitchen
from gateway.demo.kitchen import count_orders

ANYWHERE = {"address": "Kochi"}


@pytest.fixture
def demo(example: Any) -> Any:
    return example("shop")


@pytest.fixture
def app(demo: Any, database: Path, secret: str, clock: Any) -> Any:
    return demo.create_app(database, [secret], now=clock)


@pytest.fixture
def count(demo: Any, database: Path) -> Any:
    return lambda: count_orders(database)


def test_what_makes_it_a_merchant_is_ten_lines(demo: Any) -> None:
    """The rest sells dosas, and knows nothing of keys, transactions or replies."""
    tree = ast.parse(inspect.getsource(demo.create_shop) + inspect.getsource(demo.purchase))
    lines = [line for function in tree.body for line in function.body[1:]]  # type: ignore[attr-defined]
    assert len(lines) <= 10
    assert all(line.end_lineno - line.lineno == 0 for line in lines)
    sells = inspect.getsource(kitchen)
    assert not re.search(r"merchant_sdk import (?!Line, Refused\n)|once|commit\(|CallKey|request_key\(", sells)


async def fill(gateway: Any, app: Any, key: str, conversation: str = "c-1") -> None:
    reply = await gateway.call(
        app, "add_to_cart", {"item": "masala-dosa", "quantity": 2}, key=key, conversation=conversation
    )
    assert reply.status == 200


async def test_a_customer_reads_the_menu_fills_a_cart_orders_and_cancels(gateway: Any, app: Any, count: Any) -> None:
    """The four tools, as an assistant uses them."""
    menu = (await gateway.call(app, "get_menu", {}, key=None)).json
    assert {"item": "masala-dosa", "name": "Masala dosa", "price": "120.00"} in menu["items"]
    await fill(gateway, app, "a1")
    cart = (await gateway.call(app, "add_to_cart", {"item": "filter-coffee"}, key="a2")).json
    assert cart["total"] == "280.00"
    order = (await gateway.call(app, "place_order", {"address": "Kochi"}, key="o1")).json
    assert (order["order_id"], order["total"], order["address"]) == ("MO-1001", "280.00", "Kochi")
    assert (await gateway.call(app, "cancel_order", {"order_id": "MO-1001"}, key="x1")).json["state"] == "cancelled"
    assert count() == 1


async def test_the_same_add_is_one_line_and_two_adds_are_two(gateway: Any, app: Any) -> None:
    """2.1: the gateway's key decides; a wanted second portion has a key of its own."""
    for key in ("a1", "a1", "a2"):
        reply = await gateway.call(app, "add_to_cart", {"item": "medu-vada"}, key=key)
    assert reply.json["cart"] == [{"item": "medu-vada", "quantity": 2}]


async def test_k1_13_a_lost_reply_and_a_brand_new_call_are_one_order(
    gateway: Any, app: Any, count: Any, example: Any
) -> None:
    """K1-13 with a derived key: the customer says yes again, the shop knows the purchase."""
    faulty = example("faulty")
    app = faulty.Faulty(app, faulty.scripted({"place_order": [faulty.DROP_REPLY, faulty.ERROR_AFTER_COMMIT]}))
    await fill(gateway, app, "a1")
    assert (await gateway.call(app, "place_order", {"address": "Kochi"}, key="o1")).body == b""
    assert (await gateway.call(app, "place_order", {"address": "Kochi"}, key="o2")).status == 500
    third = await gateway.call(app, "place_order", {"address": "Kochi"}, key="o3")
    assert third.json["order_id"] == "MO-1001"
    assert "again_after" in third.json["already_done"]["order_again"]
    assert count() == 1


async def test_two_conversations_of_one_buyer_are_one_order(gateway: Any, app: Any, count: Any) -> None:
    """K7-05 (c): the phone number is the buyer; another buyer's equal cart is another order."""
    for conversation, phone, expected in (
        ("c-1", "+91 1", "MO-1001"),
        ("c-2", "+91 1", "MO-1001"),
        ("c-3", "+91 2", "MO-1002"),
    ):
        await fill(gateway, app, f"a-{conversation}", conversation)
        reply = await gateway.call(
            app, "place_order", ANYWHERE | {"phone": phone}, key=f"o-{conversation}", conversation=conversation
        )
        assert reply.json["order_id"] == expected
    assert count() == 2


async def test_ordering_again_needs_the_first_order_and_happens_once(gateway: Any, app: Any, count: Any) -> None:
    """K7-05: `again_after` is a real order of this conversation, and good for one more."""
    await fill(gateway, app, "a1")
    await gateway.call(app, "place_order", ANYWHERE, key="o1")
    assert (await gateway.call(app, "place_order", ANYWHERE | {"again_after": "yes please"}, key="o2")).status == 404
    for key in ("o3", "o4"):
        reply = await gateway.call(app, "place_order", ANYWHERE | {"again_after": "MO-1001"}, key=key)
        assert reply.json["order_id"] == "MO-1002"
    assert count() == 2


async def test_after_a_cancellation_the_same_purchase_is_a_new_order(gateway: Any, app: Any, count: Any) -> None:
    """A cancelled order must not answer for the next one."""
    await fill(gateway, app, "a1")
    await gateway.call(app, "place_order", ANYWHERE, key="o1")
    await gateway.call(app, "cancel_order", {"order_id": "MO-1001"}, key="x1")
    await fill(gateway, app, "a2")
    assert (await gateway.call(app, "place_order", ANYWHERE, key="o2")).json["order_id"] == "MO-1002"
    assert (await gateway.call(app, "place_order", ANYWHERE, key="o1")).json["order_id"] == "MO-1001"
    assert count() == 2


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("add_to_cart", {"item": "plutonium"}, "unknown_item"),
        ("add_to_cart", {"item": "medu-vada", "quantity": -1}, "invalid_arguments"),
        ("add_to_cart", {"item": "medu-vada", "quantity": 10**18}, "invalid_arguments"),
        ("place_order", {}, "invalid_arguments"),
        ("place_order", ANYWHERE, "invalid_purchase"),
        ("place_order", ANYWHERE | {"again_after": "MO-1001"}, "invalid_purchase"),
        ("cancel_order", {"order_id": "MO-1001"}, "unknown_order"),
    ],
)
async def test_absurd_wishes_are_refused_in_words(
    gateway: Any, app: Any, count: Any, tool: str, arguments: Any, code: str
) -> None:
    """Bad input: a definite no, and nothing stored."""
    assert (await gateway.call(app, tool, arguments, key="k")).json["error"]["code"] == code
    assert count() == 0


async def test_another_conversation_cannot_touch_the_order(gateway: Any, app: Any) -> None:
    """9.1 at the shop: an order id is not an authorisation."""
    await fill(gateway, app, "a1")
    await gateway.call(app, "place_order", ANYWHERE, key="o1")
    reply = await gateway.call(app, "cancel_order", {"order_id": "MO-1001"}, key="x", conversation="c-2")
    assert reply.status == 404


async def test_faults_sleep_before_and_after_and_run_out(gateway: Any, app: Any, example: Any) -> None:
    """The script is per tool, and other requests pass untouched."""
    faulty = example("faulty")
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    slow = faulty.Fault(sleep_before_s=1, sleep_after_s=2)
    app = faulty.Faulty(app, faulty.scripted({"get_menu": [None, slow]}), sleep=sleep)
    for expected in ([], [1, 2], [1, 2]):
        assert (await gateway.call(app, "get_menu", {}, key=None)).status == 200
        assert slept == expected
    assert (await gateway.send(app, [], b"not json")).status == 401
