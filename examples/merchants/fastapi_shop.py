"""FastAPI, pydantic and SQLAlchemy, with a session dependency as they are usually written.

SHOP_SECRET='whsec_…' uvicorn --app-dir examples/merchants --port 8081 fastapi_shop:app
"""

import os
from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel, Field
from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from merchant_sdk import Line, Refused, Shop, request_key
from merchant_sdk.integrations.fastapi import install
from merchant_sdk.integrations.sqlalchemy import track
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    quantity: Mapped[int]


class Wanted(BaseModel):
    item: str = Field(min_length=1, description="What to order")
    quantity: int = Field(ge=1, le=50)


engine = track(create_engine(f"sqlite:///{os.environ.get('SHOP_DATABASE', 'orders.db')}"))
sessions = sessionmaker(engine)
store = SQLAlchemyStore(sessions)
store.create_table()
Base.metadata.create_all(engine)
shop = Shop(store, secrets=os.environ["SHOP_SECRET"].split())


def purchase(work, wanted):
    cart = [Line(wanted.item, wanted.quantity)]
    return request_key("order", buyer=work.call.context.conversation, cart=cart, window_s=1200)


def within_limit(work, wanted):
    if wanted.quantity > 20:
        raise Refused("too_many", "We deliver at most 20 of an item; call us for more.")


@shop.tool(key=purchase, accept=within_limit)
async def place_order(work, wanted: Wanted):
    """Order an item."""
    work.db.add(order := Order(item=wanted.item, quantity=wanted.quantity))
    work.db.flush()
    return {"order_id": order.id}


@shop.tool(side_effecting=False)
def count_orders(read):
    """How many orders there are."""
    return {"orders": read.db.scalar(select(func.count()).select_from(Order))}


app = FastAPI()


def session() -> Iterator[Session]:
    with sessions() as opened:
        yield opened
        opened.commit()  # after FastAPI made the reply; `install` holds it back until here


@app.post("/checkout")
def checkout(wanted: Wanted, db: Annotated[Session, Depends(session)]) -> dict[str, int]:
    """The website's own way to order."""
    db.add(order := Order(item=wanted.item, quantity=wanted.quantity))
    db.flush()
    return {"order_id": order.id}


install(app, shop, path="/tools")
