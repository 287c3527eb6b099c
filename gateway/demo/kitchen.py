"""What the demo's shop sells and keeps: a menu, a cart per conversation, orders.

SQL; of the SDK, the lines of a cart and how to say no. Every function takes the connection inside the transaction; none
begins, commits or replies.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from os import PathLike
from typing import Any

from merchant_sdk import Line, Refused

CURRENCY = "INR"
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


def menu() -> dict[str, Any]:
    """What there is, with prices."""
    items = [{"item": sku, "name": name, "price": _money(price)} for sku, (name, price) in MENU.items()]
    return {"currency": CURRENCY, "items": items}


def add(db: sqlite3.Connection, conversation: str, item: str, quantity: int) -> dict[str, Any]:
    """Into the conversation's open cart, or a new one. Raises Refused."""
    if item not in MENU:
        raise Refused("unknown_item", f"We do not have that. We have: {', '.join(MENU)}.")
    cart = _cart(db, conversation)
    if cart is None or cart[1] == "ordered":
        cart = _new_cart(db, conversation, "open"), "open"
    db.execute("INSERT INTO cart_lines (cart, sku, quantity) VALUES (?, ?, ?)", (cart[0], item, quantity))
    lines = _lines(db, cart[0])
    return {"cart": _items(lines), "total": _money(_total(lines)), "currency": CURRENCY}


def cart_of(db: sqlite3.Connection, conversation: str) -> list[Line]:
    """What the conversation would order. An ordered cart stays its cart until something is added, so a second "yes"
    still finds it."""
    cart = _cart(db, conversation)
    return [Line(sku, quantity, MENU[sku][1]) for sku, quantity in _lines(db, cart[0])] if cart else []


def order(
    db: sqlite3.Connection, conversation: str, buyer: str, address: str, again_after: str, *, at: float, key: str
) -> dict[str, Any]:
    """Order the cart. `key` is kept with it, for `cancel`. Raises Refused."""
    if again_after:
        # Made-up reasons to order again are how a careless model places two orders.
        _order(db, again_after, conversation)
    cart = _cart(db, conversation)
    if cart is None or (cart[1] == "ordered" and not again_after):
        raise Refused("cart_empty", "The cart is empty: what was in it has been ordered. Add something first.")
    lines = _lines(db, cart[0])
    if cart[1] == "ordered":
        cart = _new_cart(db, conversation, "ordered"), "ordered"
        rows = [(cart[0], sku, quantity) for sku, quantity in lines]
        db.executemany("INSERT INTO cart_lines (cart, sku, quantity) VALUES (?, ?, ?)", rows)
    db.execute("UPDATE carts SET state = 'ordered' WHERE id = ?", (cart[0],))
    number = db.execute(
        "INSERT INTO orders (cart, conversation, buyer, address, total, placed_at, request_key)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (cart[0], conversation, buyer, address, _total(lines), at, key),
    ).lastrowid
    answer = {"order_id": f"MO-{1000 + (number or 0)}", "state": "placed", "items": _items(lines)}
    return answer | {"total": _money(_total(lines)), "currency": CURRENCY, "address": address}


def cancel(db: sqlite3.Connection, conversation: str, order_id: str) -> str | None:
    """The key of the order that is now cancelled; None if it was before. Raises Refused."""
    number, state, key = _order(db, order_id, conversation)
    db.execute("UPDATE orders SET state = 'cancelled' WHERE number = ?", (number,))
    return key if state == "placed" else None


def count_orders(database_path: str | PathLike[str]) -> int:
    """How many orders really exist, read straight from the file."""
    with closing(sqlite3.connect(database_path)) as db:
        return int(db.execute("SELECT count(*) FROM orders").fetchone()[0])


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
