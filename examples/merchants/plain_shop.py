"""No framework: WSGI and SQLite, any WSGI server.

SHOP_SECRET='whsec_…' python examples/merchants/plain_shop.py 8081
oncegate tools register --from plain_shop:shop --app-dir examples/merchants --company acme --endpoint http://127.0.0.1:8081/
"""

import os
import sys
from typing import Annotated
from wsgiref.simple_server import make_server

from merchant_sdk import Arg, Line, Refused, Shop, request_key

SCHEMA = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, quantity INTEGER)"
STOCK = {"dosa": 40, "vada": 0}
shop = Shop(os.environ.get("SHOP_DATABASE", "orders.db"), secrets=os.environ["SHOP_SECRET"].split(), schema=SCHEMA)


def purchase(work, item, quantity):
    return request_key("order", buyer=work.call.context.conversation, cart=[Line(item, quantity)], window_s=1200)


def in_stock(work, item, quantity):
    if STOCK.get(item, 0) < quantity:
        raise Refused("sold_out", f"Sorry, we do not have {quantity} of {item} left.")


@shop.tool(key=purchase, accept=in_stock)
def place_order(work, item: str, quantity: Annotated[int, Arg("How many", minimum=1, maximum=50)]):
    """Order an item."""
    return {"order_id": work.db.execute("INSERT INTO orders VALUES (NULL, ?, ?)", (item, quantity)).lastrowid}


@shop.tool(side_effecting=False)
def count_orders(read):
    """How many orders there are."""
    return {"orders": read.db.execute("SELECT count(*) FROM orders").fetchone()[0]}


app = shop.wsgi()

if __name__ == "__main__":
    server = make_server("127.0.0.1", int(sys.argv[1]), app)
    print(f"The shop takes calls at http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
