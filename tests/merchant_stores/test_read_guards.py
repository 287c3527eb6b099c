"""What a read-only tool is handed cannot write, also after it has tried to end its transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import sessionmaker

from merchant_sdk import TransactionMisuse
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore

INSERT = "INSERT INTO orders (buyer) VALUES ('b-2')"


def _text(sql: str) -> Callable[[Any], Any]:
    def run(db: Any) -> Any:
        if hasattr(db, "ops"):  # Django's
            with db.cursor() as cursor:
                return cursor.execute(sql)
        return db.execute(sa.text(sql) if hasattr(db, "begin_nested") else sql)

    return run


ENDS: dict[str, Callable[[Any], Any]] = {
    "commit": lambda db: db.commit(),
    "rollback": lambda db: db.rollback(),
    "text": _text("COMMIT"),
    "text of a rollback": _text("/* tracer */ ROLLBACK"),
    "connection": lambda db: (db.connection() if hasattr(db, "begin_nested") else db).commit(),
}


@pytest.mark.parametrize("end", ENDS)
def test_k7_11_a_read_that_ends_its_transaction_cannot_write_after_it(desk: Any, end: str) -> None:
    """K7-11: not once and not twice; nothing that it tried stays on the connection that others are given."""

    def read(run: Callable[[Callable[[Any], Any], Any], Any], db: Any) -> None:
        for _ in range(2):
            for step in (ENDS[end], _text(INSERT)):
                with suppress(Exception):
                    run(step, db)
        with suppress(Exception):
            run(ENDS[end], db)

    if hasattr(desk.store, "sync"):

        async def reading() -> None:
            def inside() -> None:
                with desk.store.sync.reading() as session:
                    read(lambda step, db: step(db), session.sync_session)

            await desk.store.run(inside)

        asyncio.run(reading())
    else:
        with desk.store.reading() as db:
            read(lambda step, db: step(db), db)
        desk.after()
    assert desk.orders() == []
    assert desk.place("k1") == {"for": "b-1"}
    assert desk.orders() == ["b-1"]


@pytest.mark.parametrize(
    "desk", ["psycopg", "sqlalchemy-postgresql", "sqlalchemy-sqlite", "sqlalchemy-mariadb"], indirect=True
)
@pytest.mark.parametrize("end", ["commit", "rollback", "text"])
def test_k7_11_a_read_that_would_end_its_transaction_is_told(desk: Any, end: str) -> None:
    """K7-11: in the words of `once`, and at that statement."""
    with desk.store.reading() as db, pytest.raises(TransactionMisuse, match="a read does neither"):
        ENDS[end](db)


def test_k7_11_savepoints_inside_a_read_are_the_reads_own(postgres_database: str) -> None:
    """K7-11: only its end is guarded."""
    psycopgs = PsycopgStore(postgres_database, create_table=True)
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_database))
    with psycopgs.reading() as db, db.transaction():
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    with SQLAlchemyStore(sessionmaker(engine)).reading() as session:
        with suppress(ZeroDivisionError), session.begin_nested():
            raise ZeroDivisionError
        with session.begin_nested():
            assert session.execute(sa.text("SELECT count(*) FROM orders")).scalar_one() == 0
    engine.dispose()
    psycopgs.close()


def test_k7_11_a_read_does_not_write_through_a_second_engine_either(postgres_database: str) -> None:
    """K7-11: its snapshot is that of one connection, and no other is read-only by itself."""
    engines = [
        sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_database)) for _ in range(2)
    ]
    with SQLAlchemyStore(sessionmaker(engines[0])).reading() as session:
        other = {"bind": engines[1]}
        count = sa.text("SELECT count(*) FROM orders")
        assert session.execute(count, bind_arguments=other).scalar_one() == 0
        with pytest.raises(TransactionMisuse, match="read"):
            session.execute(sa.text(INSERT), bind_arguments=other)
    for engine in engines:
        engine.dispose()


def test_k7_11_an_engine_in_autocommit_is_no_place_to_read_in(postgres_database: str) -> None:
    """K7-11: there READ ONLY holds for no statement but itself."""
    engine = sa.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_database), isolation_level="AUTOCOMMIT"
    )
    with pytest.raises(TransactionMisuse, match="autocommit"), SQLAlchemyStore(sessionmaker(engine)).reading():
        raise AssertionError
    engine.dispose()
