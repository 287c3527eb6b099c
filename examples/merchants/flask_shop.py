"""Flask and plain sqlite3: a website's own views, and the shop for assistants mounted beside them.

SHOP_SECRET='whsec_…' waitress-serve --listen 127.0.0.1:8081 --call examples.merchants.flask_shop:create_app
"""

import os
import sqlite3
from contextlib import closing
from typing import Annotated, TypedDict

from flask import Flask, request

from merchant_sdk import Arg, Line, Shop, request_key, transaction
from merchant_sdk.integrations.flask import install

DATABASE = os.environ.get("SHOP_DATABASE", "orders.db")
SCHEMA = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, quantity INTEGER)"
INSERT = "INSERT INTO orders VALUES (NULL, ?, ?)"
shop = Shop(DATABASE, secrets=os.environ["SHOP_SECRET"].split(), schema=SCHEMA)


class Item(TypedDict):
    item: Annotated[str, Arg("What to order", min_length=1)]
    quantity: Annotated[int, Arg(minimum=1)]


def purchase(work, wanted):
    cart = [Line(wanted["item"], wanted["quantity"])]
    return request_key("order", buyer=work.call.context.conversation, cart=cart, window_s=1200)


@shop.tool(key=purchase)
def place_order(work, wanted: Item):
    """Order an item."""
    return {"order_id": work.db.execute(INSERT, (wanted["item"], wanted["quantity"])).lastrowid}


@shop.tool(side_effecting=False)
def count_orders(read):
    """How many orders there are."""
    return {"orders": read.db.execute("SELECT count(*) FROM orders").fetchone()[0]}


app = Flask(__name__)


@app.post("/checkout")
def checkout():
    """The website's own way to order."""
    with closing(sqlite3.connect(DATABASE)) as connection, transaction(connection) as db:
        number = db.execute(INSERT, (request.get_json()["item"], 1)).lastrowid
    return {"order_id": number}


install(app, shop, path="/tools")


def create_app() -> Flask:
    return app
