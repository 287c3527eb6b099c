"""K7-11: a session that works through two engines commits twice, and either of them may fail alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from merchant_sdk import CallKey, TransactionMisuse, once
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    buyer: Mapped[str]


@pytest.fixture
def engines(postgres_database: str) -> Iterator[list[sa.Engine]]:
    made = [sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_database)) for _ in "ab"]
    yield made
    for each in made:
        each.dispose()


def _kept(postgres_database: str) -> Any:
    with psycopg.connect(postgres_database) as db:
        return db.execute("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM oncegate_once)").fetchone()


@pytest.mark.parametrize("known", [None, "placed"])
@pytest.mark.parametrize("kind", ["binds", "routing"])
def test_k7_11_an_order_that_is_written_through_another_engine_is_refused(
    engines: list[sa.Engine], postgres_database: str, kind: str, known: str | None
) -> None:
    """K7-11: its commit could fail after that of the record, which then told of an order that is not there."""
    first, second = engines

    class Routing(Session):
        """Reads go one way and writes another."""

        def get_bind(self, *args: Any, **options: Any) -> Any:
            return second if self._flushing else first  # type: ignore[attr-defined]

    makers: dict[str, Any] = {
        "binds": sessionmaker(first, binds={Order: second}),
        "routing": sessionmaker(class_=Routing),
    }
    store = SQLAlchemyStore(makers[kind])
    store.create_table()

    def place() -> None:
        with once(store, CallKey("k1", "f"), now=lambda: 1.0, reply=known) as work:
            work.db.add(Order(buyer="b-1"))
            if known is None:
                work.reply("placed")

    with pytest.raises(TransactionMisuse, match="another engine"):
        place()
    assert _kept(postgres_database) == (0, 0)


def test_k7_02_what_the_work_reads_through_another_engine_is_its_own_business(
    engines: list[sa.Engine], postgres_database: str
) -> None:
    """K7-02: prices from another database, say; and savepoints begin on the same."""
    first, second = engines
    store = SQLAlchemyStore(sessionmaker(first))
    store.create_table()
    for _ in range(2):
        with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            if not work.done:
                work.db.execute(sa.text("SELECT 1"), bind_arguments={"bind": second})
                with work.db.begin_nested():
                    work.db.add(Order(buyer="b-1"))
                work.db.execute(sa.text("UPDATE orders SET buyer = 'b-2'"))
                work.reply("placed")
        assert work.answer.result == "placed"
    assert _kept(postgres_database) == (1, 1)


@pytest.mark.parametrize("given", ["connection", "asynchronous pool", "nothing"])
def test_what_is_no_pool_is_told_at_once(postgres_database: str, given: str) -> None:
    """It was an AttributeError at the first order."""

    class AsyncPool:
        async def getconn(self) -> None: ...

        async def putconn(self, conn: Any) -> None: ...

    with psycopg.connect(postgres_database) as connection:
        wrong: Any = {"connection": connection, "asynchronous pool": AsyncPool(), "nothing": None}[given]
        with pytest.raises(TypeError, match=r"connection string|ConnectionPool"):
            PsycopgStore(wrong)
