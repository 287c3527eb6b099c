"""Starlette and SQLAlchemy: a website's own routes, and the shop for assistants mounted beside them.

SHOP_SECRET='whsec_…' uvicorn --app-dir examples/merchants --port 8081 starlette_shop:app
"""

import os
from dataclasses import dataclass

from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from merchant_sdk import Line, Shop, request_key
from merchant_sdk.integrations.sqlalchemy import track
from merchant_sdk.integrations.starlette import install
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    quantity: Mapped[int]


@dataclass
class Item:
    sku: str
    quantity: int = 1


engine = track(create_engine(f"sqlite:///{os.environ.get('SHOP_DATABASE', 'orders.db')}"))
sessions = sessionmaker(engine)
store = SQLAlchemyStore(sessions)
store.create_table()
Base.metadata.create_all(engine)
shop = Shop(store, secrets=os.environ["SHOP_SECRET"].split())


def purchase(work, items):
    cart = [Line(item.sku, item.quantity) for item in items]
    return request_key("order", buyer=work.call.context.conversation, cart=cart, window_s=1200)


@shop.tool(key=purchase)
def place_order(work, items: list[Item]):
    """Order the items of a cart."""
    orders = [Order(item=item.sku, quantity=item.quantity) for item in items]
    work.db.add_all(orders)
    work.db.flush()
    return {"order_ids": [order.id for order in orders]}


@shop.tool(side_effecting=False)
def count_orders(read):
    """How many orders there are."""
    return {"orders": read.db.scalar(select(func.count()).select_from(Order))}


async def checkout(request: Request) -> JSONResponse:
    """The website's own way to order."""
    with Session(engine) as session:
        session.add(order := Order(item=(await request.json())["item"], quantity=1))
        session.commit()
        return JSONResponse({"order_id": order.id})


app = Starlette(routes=[Route("/checkout", checkout, methods=["POST"])])
install(app, shop, path="/tools")
