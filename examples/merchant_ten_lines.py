import os

from merchant_sdk import Line, Shop, request_key

SCHEMA = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, quantity INTEGER)"
shop = Shop("orders.db", secrets=[os.environ["SHOP_SECRET"]], schema=SCHEMA)


def purchase(work, item, quantity):
    return request_key("order", buyer=work.call.context.conversation, cart=[Line(item, quantity)], window_s=1200)


@shop.tool(key=purchase, description="Order an item.")
def place_order(work, item: str, quantity: int):
    return {"order_id": work.db.execute("INSERT INTO orders VALUES (NULL, ?, ?)", (item, quantity)).lastrowid}


app = shop.asgi()
