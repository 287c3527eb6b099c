"""A small honest shop on SQLite. What makes it a merchant is `create_shop`; what it sells is `kitchen`.

    uvicorn --factory gateway.demo.shop:app_from_environment

`place_order` is recognised twice: by the gateway's key (the same call) and by the purchase itself (the same
buyer and cart within twenty minutes, whichever conversation or call it comes from).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Annotated, Any

from gateway.demo import kitchen
from gateway.demo.kitchen import CURRENCY, SCHEMA
from merchant_sdk import Arg, CallWork, Read, RequestKey, Shop, request_key

REPEAT_WINDOW_S = 20 * 60
ORDER_AGAIN = "To order the same again on purpose, call place_order with again_after set to this order_id."
Id = Annotated[str, Arg(min_length=1)]
Quantity = Annotated[int, Arg(minimum=1, maximum=50)]


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


def purchase(work: CallWork, address: str, phone: str = "", again_after: str = "") -> RequestKey:
    """Which purchase a place_order is: who buys what, once in twenty minutes."""
    buyer, cart = buyer_of(work, phone), kitchen.cart_of(work.db, conversation_of(work))
    scope: dict[str, Any] = {"window_s": REPEAT_WINDOW_S, "again_after": again_after or None}
    where = {"address": address} if address else {}
    return request_key("place_order", buyer=buyer, cart=cart, currency=CURRENCY, **scope, details=where)


def get_menu(read: Read) -> dict[str, Any]:
    """What the shop sells, with prices."""
    return kitchen.menu()


def add_to_cart(work: CallWork, item: Id, quantity: Quantity = 1) -> dict[str, Any]:
    """Put an item into the customer's cart."""
    return kitchen.add(work.db, conversation_of(work), item, quantity)


def place_order(work: CallWork, address: str, phone: str = "", again_after: Id = "") -> dict[str, Any]:
    """Order what is in the cart, once the customer has clearly confirmed it."""
    who, key = (conversation_of(work), buyer_of(work, phone)), work.request_key.text if work.request_key else ""
    return kitchen.order(work.db, *who, address, again_after, at=work.at, key=key)


def cancel_order(work: CallWork, order_id: Id) -> dict[str, Any]:
    """Cancel an order of this conversation."""
    if key := kitchen.cancel(work.db, conversation_of(work), order_id):
        work.forget(key)  # the same purchase after a cancellation is a new one
    return {"order_id": order_id, "state": "cancelled"}


def conversation_of(work: CallWork) -> str:
    return work.call.context.conversation


def buyer_of(work: CallWork, phone: str) -> str:
    """A telephone number is a buyer wherever it is said; without one, a conversation is."""
    return f"phone {phone}" if phone else f"conversation {work.call.context.company}/{conversation_of(work)}"


def create_app(
    database_path: str | PathLike[str], secrets: Sequence[str], *, now: Callable[[], float] = time.time
) -> Any:
    """The shop as an ASGI application."""
    return create_shop(database_path, secrets, now=now).asgi()


def app_from_environment() -> Any:
    """SHOP_DATABASE (default shop.db) and SHOP_SECRET (`whsec_...`; several separated by spaces)."""
    return create_app(os.environ.get("SHOP_DATABASE", "shop.db"), os.environ["SHOP_SECRET"].split())
