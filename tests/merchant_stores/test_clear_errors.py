"""What is wrong outside the code of `once` is told in words that say where."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from merchant_sdk import CallKey, Misuse, StoreBusy, once
from merchant_sdk.endpoint import reply_to
from merchant_sdk.stores.failures import in_drivers_words
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore
from merchant_sdk.stores.sqlalchemy_async import AsyncSQLAlchemyStore, once_async

SECRET = "s3cret-of-the-shop"


def _log_of(conninfo: str, caplog: pytest.LogCaptureFixture, store: str) -> str:
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo))
    made: Any = PsycopgStore(conninfo) if store == "psycopg" else SQLAlchemyStore(sessionmaker(engine))
    with pytest.raises(StoreBusy) as busy, once(made, CallKey("k1", "f"), now=lambda: 1.0):
        raise AssertionError
    engine.dispose()
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="merchant_sdk"):
        assert reply_to(busy.value).status == 429
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert SECRET not in caplog.text
    return record.getMessage()


@pytest.mark.parametrize("store", ["psycopg", "sqlalchemy"])
@pytest.mark.parametrize(
    ("more", "told"),
    [
        (" dbname=no_such_shop", 'database "no_such_shop" does not exist'),
        (" user=no_such_user", 'role "no_such_user" does not exist'),
        (" options='-c no_such_option=1'", 'unrecognized configuration parameter "no_such_option"'),
        (" host=/nowhere", "/nowhere"),
    ],
    ids=["database", "user", "option", "host"],
)
def test_why_a_database_cannot_be_reached_is_in_the_log_in_the_servers_words(
    postgres_database: str, caplog: pytest.LogCaptureFixture, more: str, told: str, store: str
) -> None:
    """A call that finds none is put off (429), and whoever runs the shop has to learn what is wrong; not the password."""
    assert told in _log_of(f"{postgres_database} password={SECRET}{more}", caplog, store)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"failed to resolve host '{SECRET}@db.example'", "db.example"),
        (f"could not connect to postgresql://shop:{SECRET}@db.example/shop", "could not connect"),
        (f'invalid integer value "{SECRET}" for connection option "port"', "invalid"),
        (f'invalid port number: "{SECRET}"', "port"),
        (f"no such option: password={SECRET} host=db.example", "host=db.example"),
        (f"no such option: password = '{SECRET}' host=db.example", "host=db.example"),
        (f"duplicate key\nDETAIL:  Key (buyer)=({SECRET}) already exists.", "duplicate key"),
    ],
)
def test_what_of_an_address_may_be_a_password_is_left_out(said: str, shown: str) -> None:
    """A password with an @ or a / in it is taken for a host or a port by whoever splits the address."""
    words = in_drivers_words(psycopg.OperationalError(said))
    assert SECRET not in words
    assert shown in words


def test_neither_statement_nor_parameters_are_shown() -> None:
    """SQLAlchemy's errors hold both."""
    driver = psycopg.OperationalError("the connection is closed\nat once")
    wrapped = sa.exc.DBAPIError.instance("INSERT", {"buyer": SECRET}, driver, psycopg.Error)
    assert in_drivers_words(wrapped) == "OperationalError: the connection is closed at once"


@pytest.fixture
def latin1(postgres: str) -> Any:
    """A database in an encoding that holds few characters, as a connection string."""
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("CREATE DATABASE latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        yield postgres.replace("dbname=postgres", "dbname=latin1")
        admin.execute("DROP DATABASE latin1 WITH (FORCE)")


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy"])
def test_a_reply_that_the_databases_encoding_cannot_hold_is_told_as_such(latin1: str, kind: str, known: bool) -> None:
    """With the encoding's name and the character, and nothing is stored."""
    plain = PsycopgStore(latin1, create_table=True)
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(latin1))
    store: Any = plain if kind == "psycopg" else SQLAlchemyStore(sessionmaker(engine))

    def place(reply: str) -> Any:
        with once(store, CallKey("k1", "f"), now=lambda: 1.0, reply=reply if known else None) as work:
            if not work.done and not known:
                work.reply(reply)
        return work.answer.result

    with pytest.raises(Misuse, match=r"reply .*U\+2713.*LATIN1"):
        place("café ✓")
    assert place("café") == place("café") == "café"
    engine.dispose()
    plain.close()


def test_sessions_that_begin_nothing_by_themselves_are_begun(postgres_database: str) -> None:
    """`autobegin=False`: work, replay, read and prune are as ever."""
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_database))
    store = SQLAlchemyStore(sessionmaker(engine, autobegin=False))
    store.create_table()
    for _ in range(2):
        with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            if not work.done:
                work.db.execute(sa.text("INSERT INTO orders (buyer) VALUES ('b-1')"))
                work.reply("placed")
        assert work.answer.result == "placed"
    with store.reading() as session:
        assert session.execute(sa.text("SELECT count(*) FROM orders")).scalar_one() == 1
    assert store.prune(0.5) == 0
    engine.dispose()


def test_nor_do_async_ones_have_to(sqlite_database: Any) -> None:
    """`autobegin=False`, under asyncio and with a wait that is limited and set back."""

    async def place() -> Any:
        engine = create_async_engine(f"sqlite+aiosqlite:///{sqlite_database}")
        store = AsyncSQLAlchemyStore(async_sessionmaker(engine, autobegin=False))
        await store.create_table()
        async with once_async(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            await work.db.execute(sa.text("INSERT INTO orders (buyer) VALUES ('b-1')"))
            work.reply("placed")
        assert (await store.status("k2", now=lambda: 1.0)).state == "void"
        await engine.dispose()
        return work.answer.result

    assert asyncio.run(place()) == "placed"
