"""A small honest shop on SQLite: a menu, a cart per conversation, orders.

    uvicorn --factory gateway.demo.shop:app_from_environment

`place_order` is recognised twice: by the gateway's key (the same call) and by the purchase itself (the same
buyer and cart within twenty minutes, whichever conversation or call it comes from).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from os import PathLike
from typing import Annotated, Any

from merchant_sdk import Arg, CallWork, Line, Read, Refused, RequestKey, Shop, request_key

CURRENCY = "INR"
REPEAT_WINDOW_S = 20 * 60
MENU = {  # sku: (name, price in paise)
    "masala-dosa": ("Masala dosa", 12_000),
    "medu-vada": ("Medu vada", 6_000),
    "filter-coffee": ("Filter coffee", 4_000),
}
SCHEMA = """
CREATE TABLE IF NOT EXISTS carts (
    id INTEGER PRIMARY KEY,
    conversation TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'ordered'))
);
CREATE UNIQUE INDEX IF NOT EXISTS one_open_cart ON carts (conversation) WHERE state = 'open';
CREATE TABLE IF NOT EXISTS cart_lines (
    cart INTEGER NOT NULL REFERENCES carts (id),
    sku TEXT NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0)
);
CREATE TABLE IF NOT EXISTS orders (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    cart INTEGER NOT NULL REFERENCES carts (id),
    conversation TEXT NOT NULL,
    buyer TEXT NOT NULL,
    address TEXT NOT NULL,
    total INTEGER NOT NULL,
    placed_at REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'placed' CHECK (state IN ('placed', 'cancelled')),
    request_key TEXT NOT NULL
);
"""
ORDER_AGAIN = "To order the same again on purpose, call place_order with again_after set to this order_id."
Id = Annotated[str, Arg(min_length=1)]


def create_shop(
    database_path: str | PathLike[str], secrets: Sequence[str], *, now: Callable[[], float] = time.time
) -> Shop:
    """The whole of what makes it a merchant; the rest is dosas. `now` gives Unix seconds."""
    shop = Shop(database_path, secrets=secrets, schema=SCHEMA, now=now)
    shop.tool(side_effecting=False)(get_menu)
    shop.tool(on_repeat="run")(add_to_cart)
    shop.tool(key=purchase, order_again=ORDER_AGAIN, idempotency="safe_to_retry")(place_order)
    shop.tool()(cancel_order)
    return shop


def create_app(
    database_path: str | PathLike[str], secrets: Sequence[str], *, now: Callable[[], float] = time.time
) -> Any:
    """The shop as an ASGI application."""
    return create_shop(database_path, secrets, now=now).asgi()


def app_from_environment() -> Any:
    """SHOP_DATABASE (default shop.db) and SHOP_SECRET (`whsec_...`; several separated by spaces)."""
    return create_app(os.environ.get("SHOP_DATABASE", "shop.db"), os.environ["SHOP_SECRET"].split())


def count_orders(database_path: str | PathLike[str]) -> int:
    """How many orders really exist, read straight from the file."""
    with closing(sqlite3.connect(database_path)) as db:
        return int(db.execute("SELECT count(*) FROM orders").fetchone()[0])


def get_menu(read: Read) -> dict[str, Any]:
    """What the shop sells, with prices."""
    items = [{"item": sku, "name": name, "price": _money(price)} for sku, (name, price) in MENU.items()]
    return {"currency": CURRENCY, "items": items}


def add_to_cart(work: CallWork, item: Id, quantity: Annotated[int, Arg(minimum=1, maximum=50)] = 1) -> dict[str, Any]:
    """Put an item into the customer's cart."""
    if item not in MENU:
        raise Refused("unknown_item", f"We do not have that. We have: {', '.join(MENU)}.")
    conversation = work.call.context.conversation
    cart = _cart(work.db, conversation)
    if cart is None or cart[1] == "ordered":
        cart = _new_cart(work.db, conversation, "open"), "open"
    work.db.execute("INSERT INTO cart_lines (cart, sku, quantity) VALUES (?, ?, ?)", (cart[0], item, quantity))
    lines = _lines(work.db, cart[0])
    return {"cart": _items(lines), "total": _money(_total(lines)), "currency": CURRENCY}


def purchase(work: CallWork, address: str, phone: str = "", again_after: str = "") -> RequestKey:
    """Which purchase a place_order is: who buys what, once in twenty minutes.

    An ordered cart stays the conversation's cart until something is added, so a second "yes" still finds it.
    """
    cart = _cart(work.db, work.call.context.conversation)
    return request_key(
        "place_order",
        buyer=_buyer(work, phone),
        cart=[Line(sku, n, MENU[sku][1]) for sku, n in _lines(work.db, cart[0])] if cart else [],
        currency=CURRENCY,
        window_s=REPEAT_WINDOW_S,
        again_after=again_after or None,
        details={"address": address} if address else {},
    )


def place_order(work: CallWork, address: str, phone: str = "", again_after: Id = "") -> dict[str, Any]:
    """Order what is in the cart, once the customer has clearly confirmed it."""
    conversation, buyer = work.call.context.conversation, _buyer(work, phone)
    if again_after:
        # Made-up reasons to order again are how a careless model places two orders.
        _order(work.db, again_after, conversation)
    cart = _cart(work.db, conversation)
    if cart is None or (cart[1] == "ordered" and not again_after):
        raise Refused("cart_empty", "The cart is empty: what was in it has been ordered. Add something first.")
    lines = _lines(work.db, cart[0])
    if cart[1] == "ordered":
        cart = _new_cart(work.db, conversation, "ordered"), "ordered"
        rows = [(cart[0], sku, quantity) for sku, quantity in lines]
        work.db.executemany("INSERT INTO cart_lines (cart, sku, quantity) VALUES (?, ?, ?)", rows)
    work.db.execute("UPDATE carts SET state = 'ordered' WHERE id = ?", (cart[0],))
    key = work.request_key.text if work.request_key else ""
    number = work.db.execute(
        "INSERT INTO orders (cart, conversation, buyer, address, total, placed_at, request_key)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (cart[0], conversation, buyer, address, _total(lines), work.at, key),
    ).lastrowid
    answer = {"order_id": f"MO-{1000 + number}", "state": "placed", "items": _items(lines)}
    return answer | {"total": _money(_total(lines)), "currency": CURRENCY, "address": address}


def cancel_order(work: CallWork, order_id: Id) -> dict[str, Any]:
    """Cancel an order of this conversation."""
    number, state, key = _order(work.db, order_id, work.call.context.conversation)
    if state == "placed":
        work.db.execute("UPDATE orders SET state = 'cancelled' WHERE number = ?", (number,))
        # The same purchase after a cancellation is a new one.
        work.forget(key)
    return {"order_id": order_id, "state": "cancelled"}


def _buyer(work: CallWork, phone: str) -> str:
    context = work.call.context
    return f"phone {phone}" if phone else f"conversation {context.company}/{context.conversation}"


def _order(db: sqlite3.Connection, order_id: str, conversation: str) -> tuple[int, str, str]:
    row: tuple[int, str, str] | None = db.execute(
        "SELECT number, state, request_key FROM orders WHERE 'MO-' || (1000 + number) = ? AND conversation = ?",
        (order_id, conversation),
    ).fetchone()
    if row is None:
        raise Refused("unknown_order", "There is no such order in this conversation.", status=404)
    return row


def _cart(db: sqlite3.Connection, conversation: str) -> tuple[int, str] | None:
    """The conversation's latest cart and its state."""
    row: tuple[int, str] | None = db.execute(
        "SELECT id, state FROM carts WHERE conversation = ? ORDER BY id DESC LIMIT 1", (conversation,)
    ).fetchone()
    return row


def _new_cart(db: sqlite3.Connection, conversation: str, state: str) -> int:
    insert = db.execute("INSERT INTO carts (conversation, state) VALUES (?, ?)", (conversation, state))
    return insert.lastrowid or 0


def _lines(db: sqlite3.Connection, cart: int) -> list[tuple[str, int]]:
    return db.execute(
        "SELECT sku, sum(quantity) FROM cart_lines WHERE cart = ? GROUP BY sku ORDER BY sku", (cart,)
    ).fetchall()


def _items(lines: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"item": sku, "quantity": quantity} for sku, quantity in lines]


def _total(lines: list[tuple[str, int]]) -> int:
    return sum(MENU[sku][1] * quantity for sku, quantity in lines)


def _money(paise: int) -> str:
    return f"{paise // 100}.{paise % 100:02d}"
