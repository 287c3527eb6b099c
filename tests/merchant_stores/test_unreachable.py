"""5.2, K7-11: what a shop says when its database cannot be reached, or was lost at the worst moment."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from merchant_sdk import CallKey, OutcomeUnknown, Shop, SQLiteStore, StoreBusy, TransactionMisuse, call_status
from merchant_sdk.endpoint import reply_to
from merchant_sdk.stores.failures import unreachable
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore
from merchant_sdk.stores.sqlalchemy_async import AsyncSQLAlchemyStore, once_async
from merchant_sdk.wire import Call, Context

NO_SERVER = "/nonexistent"
SECRET = "whsec_" + "A" * 43 + "="


class Empty:
    """A pool that has no connection to give, and says so as psycopg's own does."""

    def getconn(self) -> Any:
        raise psycopg.OperationalError("couldn't get a connection after 30.00 sec")

    def putconn(self, conn: Any) -> None:
        raise AssertionError


def no_file(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "shop").mkdir()
    store = SQLiteStore(tmp_path / "shop" / "shop.db")
    for file in (tmp_path / "shop").iterdir():
        file.unlink()
    (tmp_path / "shop").rmdir()
    yield store


def no_connection_free(tmp_path: Path) -> Iterator[Any]:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db", pool_size=1, max_overflow=0, pool_timeout=0)
    with engine.connect():
        yield SQLAlchemyStore(sessionmaker(engine))
    engine.dispose()


def no_server(url: str) -> Callable[[Path], Iterator[Any]]:
    def made(_: Path) -> Iterator[Any]:
        engine = sa.create_engine(url)
        yield SQLAlchemyStore(sessionmaker(engine))
        engine.dispose()

    return made


def nobody_listens(tmp_path: Path) -> Iterator[Any]:
    with socket.socket() as bound:  # not listening, and the port is nobody else's meanwhile
        bound.bind(("127.0.0.1", 0))
        yield from no_server(f"mysql+pymysql://shop@127.0.0.1:{bound.getsockname()[1]}/shop")(tmp_path)


def never(work: Any) -> None:
    raise AssertionError("nothing was begun")


UNREACHABLE: dict[str, Callable[[Path], Iterator[Any]]] = {
    "sqlite3": no_file,
    "psycopg": lambda _: iter([PsycopgStore(f"host={NO_SERVER} dbname=shop")]),
    "psycopg-pool": lambda _: iter([PsycopgStore(Empty())]),
    "sqlalchemy-pool": no_connection_free,
    "sqlalchemy-postgresql": no_server(f"postgresql+psycopg://shop@/shop?host={NO_SERVER}"),
    "sqlalchemy-mariadb": nobody_listens,
}


@pytest.mark.parametrize("kind", UNREACHABLE)
@pytest.mark.parametrize("side_effecting", [True, False])
def test_k7_11_a_call_that_finds_no_database_did_nothing_and_says_so(
    tmp_path: Path, kind: str, side_effecting: bool
) -> None:
    """K7-11: the gateway holds a 500 for "unknown", and an order in doubt that never began."""
    for store in UNREACHABLE[kind](tmp_path):
        shop = Shop(store, secrets=[SECRET])
        shop.tool(name="t", side_effecting=side_effecting)(never)
        run: Any = shop.run_call if side_effecting else shop.run_read
        with pytest.raises(StoreBusy, match="reached") as busy:
            run(Call("k1", "t", {}, Context("acme", "c-1")), asyncio.run)
        reply = reply_to(busy.value)
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (429, "merchant_busy")
        # It is not known to be in progress either.
        with pytest.raises(Exception) as raised:
            call_status(store, "k1", now=lambda: 1.0)
        assert not isinstance(raised.value, StoreBusy)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_k7_11_an_async_store_without_a_server_did_nothing_either(driver: str) -> None:
    """K7-11: the same over asyncio."""
    engine = create_async_engine(f"postgresql+{driver}://shop@/shop?host={NO_SERVER}")
    with pytest.raises(StoreBusy, match="reached"):
        async with once_async(AsyncSQLAlchemyStore(async_sessionmaker(engine)), CallKey("k1", "f"), now=lambda: 1.0):
            raise AssertionError
    await engine.dispose()


@pytest.mark.parametrize("desk", ["sqlalchemy-postgresql"], indirect=True)
def test_k7_11_a_connection_that_died_before_the_call_began_did_nothing(desk: Any, postgres: str) -> None:
    """K7-11: the first statement finds that the server was restarted; the next call finds it again."""
    desk.place("k1")
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname LIKE 'shop%'"
        )
    with pytest.raises(StoreBusy, match="reached"):
        desk.place("k2")
    desk.place("k2")
    assert len(desk.orders()) == 2


POSTGRES = ["psycopg", "sqlalchemy-postgresql", "async-postgresql", "async-asyncpg", "django-postgresql"]


def _at_commit(conninfo: str, statement: str) -> None:
    with psycopg.connect(conninfo) as db:
        db.execute(
            "CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "  # type: ignore[call-overload]
            + statement
            + " RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON orders "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()"
        )


@pytest.mark.parametrize("desk", POSTGRES, indirect=True)
def test_k7_11_a_connection_lost_at_the_commit_is_not_said_to_have_stored_nothing(
    desk: Any, postgres_database: str
) -> None:
    """K7-11: nobody who sent COMMIT and heard nothing knows; the same call again finds out."""
    _at_commit(postgres_database, "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60);")
    with pytest.raises(OutcomeUnknown) as unknown:
        desk.place("k1")
    reply = reply_to(unknown.value)
    message = json.loads(reply.body)["error"]["message"]
    assert reply.status == 500
    assert "not known" in message
    assert "nothing" not in message
    with psycopg.connect(postgres_database) as db:
        db.execute("DROP TRIGGER at_commit ON orders")
    assert desk.place("k1") == {"for": "b-1"}
    assert len(desk.orders()) == 1


@pytest.mark.parametrize("desk", POSTGRES, indirect=True)
def test_k7_11_a_commit_that_the_database_refused_stored_nothing_and_says_so(desk: Any, postgres_database: str) -> None:
    """K7-11: a server that answered has decided."""
    _at_commit(postgres_database, "RAISE unique_violation;")
    with pytest.raises(Exception, match="unique_violation") as refused:
        desk.place("k1")
    assert not isinstance(refused.value, OutcomeUnknown)
    assert "stored nothing" in reply_to(refused.value).body
    assert desk.records() == 0


@pytest.mark.parametrize("desk", ["async-postgresql", "async-asyncpg"], indirect=True)
async def test_k7_11_an_async_connection_that_died_before_the_call_began_did_nothing(desk: Any, postgres: str) -> None:
    """K7-11: the first statement finds that the server was restarted; the next call finds it again."""
    engine = create_async_engine(desk.store.sync._async_sessions().bind.url)
    store = AsyncSQLAlchemyStore(async_sessionmaker(engine))

    async def place(call: str) -> None:
        async with once_async(store, CallKey(call, "f"), now=lambda: 1.0) as work:
            await desk.insert(work.db, call)
            work.reply("placed")

    await place("k1")
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname LIKE 'shop%'"
        )
    with pytest.raises(StoreBusy, match="reached"):
        await place("k2")
    await place("k2")
    await engine.dispose()
    assert desk.orders() == ["k1", "k2"]


@pytest.mark.parametrize("desk", ["psycopg"], indirect=True)
def test_k7_11_a_connection_lost_inside_the_work_stored_nothing(desk: Any) -> None:
    """K7-11: COMMIT was not sent, so nothing is kept; the work had begun, so it is no 429 either."""

    def inside(db: Any) -> None:
        db.execute("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)")

    with pytest.raises(psycopg.OperationalError) as lost:
        desk.place("k1", inside=inside)
    reply = reply_to(lost.value)
    assert reply.status == 500
    assert "stored nothing" in reply.body
    assert desk.records() == 0


def _wrapped(error: Exception) -> Exception:
    return sa.exc.DBAPIError.instance("SELECT 1", None, error, type(error).__mro__[-3])  # type: ignore[return-value]


def _no_such_table() -> Exception:
    with closing(sqlite3.connect(":memory:")) as db, pytest.raises(sqlite3.OperationalError) as raised:
        db.execute("SELECT * FROM nowhere")
    return raised.value


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.OperationalError("the connection is closed"), True),
        (psycopg.errors.AdminShutdown("terminating connection"), True),
        (psycopg.errors.TooManyConnections("sorry, too many clients already"), True),
        (psycopg.errors.UniqueViolation("duplicate key"), False),
        (psycopg.errors.SerializationFailure("could not serialize"), False),
        (psycopg.errors.UndefinedTable("no relation"), False),
        (pymysql.OperationalError(2013, "Lost connection to MySQL server during query"), True),
        (pymysql.OperationalError(1040, "Too many connections"), True),
        (pymysql.InterfaceError(0, ""), True),
        (pymysql.OperationalError(1213, "Deadlock found"), False),
        (pymysql.ProgrammingError(1146, "Table doesn't exist"), False),
        (_wrapped(pymysql.OperationalError(2006, "gone away")), True),
        (_wrapped(pymysql.OperationalError(1054, "Unknown column")), False),
        (ConnectionRefusedError(111, "Connection refused"), True),
        (sa.exc.TimeoutError("QueuePool limit reached"), True),
        (_no_such_table(), False),
        (TransactionMisuse("the transaction failed"), False),
        (ValueError("a hook of the merchant's"), False),
        (KeyError(2013), False),
    ],
)
def test_a_lost_connection_is_told_from_a_refusal_by_the_drivers_own_words(error: Exception, expected: bool) -> None:
    """What a server said in a code of its own is known; a driver that has none to give heard nothing."""
    assert unreachable(error) is expected
