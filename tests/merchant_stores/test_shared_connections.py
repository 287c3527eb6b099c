"""K7-11: a connection that somebody else's transaction is on, or that commits by itself, is no place for `once`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from django.db import connections, transaction
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from merchant_sdk import CallKey, Line, Misuse, Shop, TransactionMisuse, once, request_key
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore
from merchant_sdk.stores.sqlalchemy_async import AsyncSQLAlchemyStore, once_async
from merchant_sdk.wire import Call, Context

INSERT = "INSERT INTO orders (buyer) VALUES ('b-1')"


class OnePool:
    """A pool as psycopg's is used: it hands out one real connection, again and again."""

    def __init__(self, conninfo: str) -> None:
        self.connection = psycopg.connect(conninfo)

    def getconn(self) -> Any:
        return self.connection

    def putconn(self, conn: Any) -> None:
        assert conn is self.connection


@pytest.fixture
def pool(postgres_database: str) -> Iterator[OnePool]:
    with psycopg.connect(postgres_database) as db:
        PsycopgStore(postgres_database, create_table=True).close()
        db.rollback()
    made = OnePool(postgres_database)
    yield made
    made.connection.close()


def _place(store: Any, key: str, *, fail: bool = False) -> Any:
    with once(store, CallKey(key, "f"), now=lambda: 1.0) as work:
        if not work.done:
            work.db.execute(sa.text(INSERT) if isinstance(work.db, Session) else INSERT)
            if fail:
                raise ZeroDivisionError
            work.reply("placed")
    return work.answer.result


@pytest.mark.parametrize("use", ["once", "refused", "read", "prune"])
def test_k7_11_a_pools_connection_goes_back_as_it_was_taken(pool: OnePool, use: str) -> None:
    """K7-11: the merchant's own transactions on the same pool must stay transactions."""
    store = PsycopgStore(pool)
    if use == "read":
        with store.reading() as db:
            db.execute("SELECT 1")
    elif use == "prune":
        store.prune(0.0)
    else:
        with suppress(ZeroDivisionError):
            _place(store, "k1", fail=use == "refused")
    with suppress(ZeroDivisionError), pool.connection.transaction():
        pass
    before = pool.connection.execute("SELECT count(*) FROM orders").fetchone()
    pool.connection.execute(INSERT)
    pool.connection.rollback()
    assert pool.connection.execute("SELECT count(*) FROM orders").fetchone() == before


@pytest.mark.parametrize("ends", ["placed", "raised", "read"])
@pytest.mark.parametrize("own", [False, True])
def test_k7_11_what_one_work_made_of_its_rows_is_not_what_the_next_gets(
    pool: OnePool, postgres_database: str, own: bool, ends: str
) -> None:
    """K7-11: a connection goes back as it was taken. The next work would fail now and then, as its connection falls."""
    store = PsycopgStore(postgres_database if own else pool)

    def place(key: str, rows: Any) -> Any:
        with once(store, CallKey(key, "f"), now=lambda: 1.0) as work:
            work.db.row_factory = rows or work.db.row_factory
            work.reply(work.db.execute("SELECT 1 AS one").fetchone())
            if rows and ends == "raised":
                raise ZeroDivisionError
        return work.answer.result

    if ends == "read":
        with store.reading() as db:
            db.row_factory = dict_row  # type: ignore[assignment]
    else:
        with suppress(ZeroDivisionError):
            place("k1", dict_row)
    assert place("k2", None) == [1]
    store.close()


@pytest.mark.parametrize("autocommit", [False, True])
def test_k7_11_a_pools_connection_that_is_inside_a_transaction_is_refused(pool: OnePool, autocommit: bool) -> None:
    """K7-11: the commit would be another's, and the rollback too."""
    store = PsycopgStore(pool)
    pool.connection.autocommit = autocommit
    pool.connection.execute("BEGIN" if autocommit else INSERT)
    with pytest.raises(TransactionMisuse, match="open already"):
        _place(store, "k1")
    pool.connection.execute("SELECT 1")


def _autocommit_engines(request: pytest.FixtureRequest, kind: str) -> sa.Engine:
    if kind == "sqlite-level":
        path = request.getfixturevalue("sqlite_database")
        return sa.create_engine(f"sqlite:///{path}", isolation_level="AUTOCOMMIT")
    if kind == "sqlite-driver":
        path = request.getfixturevalue("sqlite_database")
        return sa.create_engine(f"sqlite:///{path}", connect_args={"isolation_level": None})
    if kind.startswith("mariadb"):
        socket, name = request.getfixturevalue("mariadb_database")
        url = f"mysql+pymysql://root@/{name}?unix_socket={socket}"
        if kind == "mariadb-level":
            return sa.create_engine(url, isolation_level="AUTOCOMMIT")
        return sa.create_engine(url, connect_args={"autocommit": True})
    conninfo = request.getfixturevalue("postgres_database")
    at = dict(part.split("=") for part in conninfo.split())
    url = f"postgresql+psycopg://shop@/{at['dbname']}?host={at['host']}"
    if kind == "postgres-level":
        return sa.create_engine(url, isolation_level="AUTOCOMMIT")
    return sa.create_engine(url, connect_args={"autocommit": True})


@pytest.mark.parametrize(
    "kind",
    ["sqlite-level", "sqlite-driver", "postgres-level", "postgres-driver", "mariadb-level", "mariadb-driver"],
)
def test_k7_11_an_engine_that_commits_by_itself_is_refused_before_the_work(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """K7-11: nothing could be undone there, and the order would be there without its key."""
    engine = _autocommit_engines(request, kind)
    store = SQLAlchemyStore(sessionmaker(engine))
    store.create_table()
    with suppress(ZeroDivisionError), pytest.raises(TransactionMisuse, match="autocommit"):
        _place(store, "k1", fail=True)
    with engine.connect() as db:
        assert db.execute(sa.text("SELECT count(*) FROM orders")).scalar_one() == 0
        assert db.execute(sa.text("SELECT count(*) FROM oncegate_once")).scalar_one() == 0
    engine.dispose()


def test_k7_11_a_connection_that_was_left_in_autocommit_by_sql_is_used_no_more(mariadb_database: Any) -> None:
    """K7-11: one work's SET must not undo the promise for the next; the pool gets another connection."""
    socket, name = mariadb_database
    engine = sa.create_engine(f"mysql+pymysql://root@/{name}?unix_socket={socket}")
    store = SQLAlchemyStore(sessionmaker(engine))
    store.create_table()
    with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
        work.db.execute(sa.text("SET autocommit = 1"))
        work.reply("placed")
    with pytest.raises(TransactionMisuse, match="autocommit"):
        _place(store, "k2")
    with suppress(ZeroDivisionError):
        _place(store, "k2", fail=True)
    assert _place(store, "k2") == "placed"
    with engine.connect() as db:
        assert db.execute(sa.text("SELECT count(*) FROM orders")).scalar_one() == 1
    engine.dispose()


def test_k7_11_an_engine_that_says_begin_itself_is_taken(sqlite_database: Path) -> None:
    """The recipe for SQLite's transactions: the driver begins nothing, a listener does."""
    engine = sa.create_engine(f"sqlite:///{sqlite_database}", connect_args={"isolation_level": None})
    sa.event.listen(engine, "begin", lambda db: db.exec_driver_sql("BEGIN IMMEDIATE"))
    store = SQLAlchemyStore(sessionmaker(engine))
    store.create_table()
    with suppress(ZeroDivisionError):
        _place(store, "k1", fail=True)
    assert _place(store, "k1") == "placed"
    with engine.connect() as db:
        assert db.execute(sa.text("SELECT count(*) FROM orders")).scalar_one() == 1
    engine.dispose()


@pytest.fixture
def engine(sqlite_database: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"sqlite:///{sqlite_database}")
    SQLAlchemyStore(sessionmaker(made)).create_table()
    yield made
    made.dispose()


def test_k7_11_a_session_that_is_shared_and_inside_a_transaction_is_refused(engine: sa.Engine) -> None:
    """K7-11: `once` would commit what others began on it, or throw it away."""
    shared = scoped_session(sessionmaker(engine))
    store = SQLAlchemyStore(lambda: shared())
    shared().execute(sa.text(INSERT))
    uses: list[Callable[[], Any]] = [lambda: _place(store, "k1"), lambda: store.prune(9.0), store.create_table]
    for use in (*uses, lambda: store.reading().__enter__()):
        with pytest.raises(TransactionMisuse, match="open already"):
            use()
    shared().commit()
    with engine.connect() as db:
        assert db.execute(sa.text("SELECT count(*) FROM orders")).scalar_one() == 1
    assert _place(store, "k1") == "placed"
    shared.remove()


@pytest.fixture
async def async_store(sqlite_database: Path) -> AsyncIterator[tuple[AsyncSQLAlchemyStore, AsyncSession]]:
    """A store that hands out one session, again and again."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{sqlite_database}", poolclass=NullPool)
    shared = AsyncSession(engine)
    store = AsyncSQLAlchemyStore(lambda: shared)
    await store.create_table()
    yield store, shared
    await shared.close()
    await engine.dispose()


async def test_k7_11_an_async_session_that_is_inside_a_transaction_is_refused(async_store: Any) -> None:
    """K7-11: what others began on it is neither committed nor lost."""
    store, shared = async_store

    async def place() -> None:
        async with once_async(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            await work.db.execute(sa.text(INSERT))
            work.reply("placed")

    await shared.execute(sa.text(INSERT))
    for use in (place, lambda: store.prune(9.0), store.create_table):
        with pytest.raises(TransactionMisuse, match="open already"):
            await use()
    await shared.commit()
    await place()
    assert (await shared.execute(sa.text("SELECT count(*) FROM orders"))).scalar_one() == 2


@pytest.mark.parametrize("desk", ["async-sqlite", "async-postgresql", "async-asyncpg", "async-mariadb"], indirect=True)
async def test_k7_11_an_async_engine_that_commits_by_itself_is_refused_before_the_work(desk: Any) -> None:
    """K7-11: as the sync ones."""
    engine = desk.store.sync._async_sessions.kw["bind"].execution_options(isolation_level="AUTOCOMMIT")
    store = AsyncSQLAlchemyStore(async_sessionmaker(engine))
    with pytest.raises(TransactionMisuse, match="autocommit"):
        async with once_async(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            await work.db.execute(sa.text(INSERT))
    assert desk.orders() == []
    assert desk.records() == 0


@pytest.mark.parametrize("desk", ["async-sqlite", "async-postgresql", "async-asyncpg", "async-mariadb"], indirect=True)
async def test_k7_02_once_async_inside_itself_is_an_error_and_no_endless_wait(desk: Any) -> None:
    """K7-02: as the sync one; one after the other is as ever."""

    async def place(inside: bool) -> None:
        async with once_async(desk.store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            if inside:
                await place(inside=False)
            work.reply("placed")

    with pytest.raises(Misuse, match="inside"):
        await place(inside=True)
    assert desk.records() == 0
    await place(inside=False)
    assert desk.records() == 1


def test_k7_11_once_inside_once_on_a_shared_session_does_not_commit_the_outer(engine: sa.Engine) -> None:
    """K7-11: the outer work fails, and nothing of it stays."""
    shared = scoped_session(sessionmaker(engine))
    store = SQLAlchemyStore(lambda: shared())

    def nested() -> None:
        with once(store, CallKey("outer", "f"), now=lambda: 1.0) as work:
            work.db.execute(sa.text(INSERT))
            _place(store, "inner")

    with pytest.raises(TransactionMisuse):
        nested()
    shared.remove()
    with engine.connect() as db:
        assert db.execute(sa.text("SELECT count(*) FROM orders")).scalar_one() == 0
        assert db.execute(sa.text("SELECT count(*) FROM oncegate_once")).scalar_one() == 0


def test_k7_11_a_session_on_a_connection_inside_a_transaction_is_refused(engine: sa.Engine) -> None:
    """K7-11: its commit would not be one, and the reply would leave before."""
    with engine.connect() as connection, connection.begin() as outer:
        store = SQLAlchemyStore(sessionmaker(connection))
        with pytest.raises(TransactionMisuse, match="open already"):
            _place(store, "k1")
        outer.rollback()
    with engine.connect() as connection:
        # Savepoints on purpose are how SQLAlchemy's own recipe for tests undoes everything.
        outer = connection.begin()
        store = SQLAlchemyStore(sessionmaker(connection, join_transaction_mode="create_savepoint"))
        assert _place(store, "k1") == "placed"
        outer.rollback()


async def test_a_store_that_is_given_something_else_than_its_sessions_says_what_it_takes(engine: sa.Engine) -> None:
    """At the start, and not at the first order."""
    later = create_async_engine("sqlite+aiosqlite://", poolclass=NullPool)
    wrong: list[tuple[Any, Any]] = [
        (SQLAlchemyStore, engine),
        (SQLAlchemyStore, "sqlite:///orders.db"),
        (SQLAlchemyStore, async_sessionmaker(later)),
        (AsyncSQLAlchemyStore, later),
        (AsyncSQLAlchemyStore, sessionmaker(engine)),
    ]
    for store, given in wrong:
        with pytest.raises(TypeError, match=f"^{store.__name__} takes what makes sessions"):
            store(given)
    sync: Any = SQLAlchemyStore(sessionmaker(engine))
    with pytest.raises(TypeError, match="for SQLAlchemyStore it is `once`"):
        once_async(sync, CallKey("k1", "f"), now=lambda: 1.0)


@pytest.mark.parametrize("desk", ["django-sqlite", "django-postgresql", "django-mariadb"], indirect=True)
def test_k7_11_django_without_autocommit_is_refused(desk: Any) -> None:
    """K7-11: Django ends no transaction there, so nothing that was answered would be committed."""
    alias = desk.store._alias
    connections[alias].set_autocommit(False)
    with pytest.raises(TransactionMisuse, match="autocommit"):
        desk.place("k1")
    assert desk.orders() == []


@pytest.mark.parametrize("desk", ["django-sqlite", "django-postgresql", "django-mariadb"], indirect=True)
def test_k7_11_an_atomic_block_of_django_around_once_is_refused(desk: Any) -> None:
    """K7-11: the reply would leave before that block commits. Nothing is begun, and what the block did is its own."""
    with transaction.atomic(using=desk.store._alias), pytest.raises(TransactionMisuse, match="open already"):
        desk.place("k1")
    assert (desk.orders(), desk.records()) == ([], 0)


@pytest.mark.parametrize("desk", ["django-sqlite", "django-postgresql", "django-mariadb"], indirect=True)
def test_k7_11_djangos_own_test_case_may_be_around_once(desk: Any) -> None:
    """K7-11: the block that a TestCase puts around a test is undone after it, and no reply leaves there."""
    with transaction.atomic(using=desk.store._alias):
        connections[desk.store._alias].atomic_blocks[-1]._from_testcase = True
        with once(desk.store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            work.reply("placed")
        assert work.answer.result == "placed"
        transaction.set_rollback(True, using=desk.store._alias)
    assert desk.records() == 0


@pytest.mark.parametrize("hook", ["tool", "authorise", "accept", "key"])
@pytest.mark.parametrize("desk", ["django-sqlite"], indirect=True)
def test_k7_11_django_takes_no_async_tool(desk: Any, hook: str) -> None:
    """K7-11: Django has a connection per thread, so what an async tool wrote would be outside the transaction."""
    shop = Shop(desk.store, secrets=["whsec_" + "A" * 43 + "="])

    async def later(work: Any) -> Any:
        return True

    def now(work: Any) -> Any:
        return True

    hooks: dict[str, Any] = {} if hook == "tool" else {hook: later}
    with pytest.raises(TypeError, match="async"):
        shop.tool(name="t", **hooks)(later if hook == "tool" else now)


@pytest.mark.parametrize("desk", ["django-sqlite"], indirect=True)
def test_k7_11_django_refuses_a_coroutine_that_a_plain_tool_returns(desk: Any) -> None:
    """K7-11: the same where the function does not look async."""
    shop = Shop(desk.store, secrets=["whsec_" + "A" * 43 + "="])

    async def later() -> str:
        raise AssertionError("never run")

    shop.tool(name="t")(lambda work: later())
    call = Call("k1", "t", {}, Context("acme", "c-1"))
    with pytest.raises(Misuse, match="async"):
        shop.run_call(call, asyncio.run)
    assert desk.records() == 0


@pytest.mark.parametrize("desk", ["django-postgresql"], indirect=True)
def test_djangos_connection_that_died_while_idle_is_replaced(desk: Any, postgres: str) -> None:
    """A server that was restarted costs no call: nothing was begun on the dead connection."""
    alias = desk.store._alias
    with once(desk.store, CallKey("k1", "f"), now=lambda: 1.0) as work:
        work.reply("placed")
    connections[alias].settings_dict["CONN_HEALTH_CHECKS"] = True
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [connections[alias].settings_dict["NAME"]],
        )
    connections[alias].health_check_enabled = True
    connections[alias].health_check_done = False
    with once(desk.store, CallKey("k1", "f"), now=lambda: 1.0) as work:
        assert work.done
    connections[alias].close()


@pytest.mark.parametrize("use", ["once", "read", "prune"])
def test_every_connection_that_died_while_idle_is_replaced(postgres_database: str, use: str) -> None:
    """A server that was restarted leaves as many dead ones as there were calls at a time."""
    store = PsycopgStore(postgres_database, create_table=True)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(store.reading())
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        gone = admin.execute(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        ).fetchone()
    assert gone == (4,)
    if use == "once":
        assert _place(store, "k1") == "placed"
    elif use == "read":
        with store.reading() as db:
            assert db.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    else:
        assert store.prune(0.0) == 0
    store.close()


INSIDE_ITSELF = {
    "the call": lambda store, call, purchase: once(store, call, now=lambda: 1.0),
    "the purchase": lambda store, call, purchase: once(store, purchase, now=lambda: 1.0),
    "the purchase by another call": lambda store, call, purchase: once(store, CallKey("k2", "f"), now=lambda: 1.0),
}


@pytest.mark.parametrize("desk", ["sqlite3", "psycopg", "sqlalchemy-postgresql", "sqlalchemy-mariadb"], indirect=True)
@pytest.mark.parametrize("inner", INSIDE_ITSELF)
def test_k7_02_once_inside_itself_is_an_error_and_no_endless_wait(desk: Any, inner: str) -> None:
    """K7-02: whoever waits for a key that its own caller holds would wait for ever."""
    call, purchase = CallKey("k1", "f"), request_key("order", buyer="b", cart=[Line("A", 1)], window_s=60)

    def place() -> None:
        with once(desk.store, call, now=lambda: 1.0) as work:
            work.bind(purchase)
            with INSIDE_ITSELF[inner](desk.store, call, purchase) as nested:
                nested.bind(purchase)
            work.reply("placed")

    with pytest.raises(Misuse, match="inside"):
        place()
    assert desk.records() == 0
    # Not stuck: the same again, and one after the other, is as ever.
    assert desk.place("k1", purchase) == desk.place("k1", purchase)


def test_k7_02_once_inside_once_for_another_key_is_two_works(postgres_database: str) -> None:
    """The inner is committed by itself, whatever becomes of the outer."""
    store = PsycopgStore(postgres_database, create_table=True)

    def nested() -> None:
        with once(store, CallKey("outer", "f"), now=lambda: 1.0):
            assert _place(store, "inner") == "placed"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        nested()
    with psycopg.connect(postgres_database) as db:
        assert db.execute("SELECT key FROM oncegate_once").fetchall() == [("inner",)]
    store.close()


@pytest.mark.parametrize("text", ["ROLLBACK", "ROLLBACK AND CHAIN", "COMMIT AND CHAIN", "abort", " end", "BEGIN"])
@pytest.mark.parametrize("known", [None, "placed"])
def test_k7_11_a_transaction_that_was_ended_and_begun_anew_in_sql_is_not_two_orders(
    postgres_database: str, text: str, known: str | None
) -> None:
    """K7-11: the claim would be gone, or kept without its work, and the order kept twice."""
    store = PsycopgStore(postgres_database, create_table=True)

    def place() -> None:
        with once(store, CallKey("k1", "f"), now=lambda: 1.0, reply=known) as work:
            if not work.done:
                with suppress(TransactionMisuse), work.db.cursor() as cursor:
                    cursor.execute(text)
                work.db.execute(INSERT)
                if known is None:
                    work.reply("placed")

    for _ in range(3):
        place()
    with psycopg.connect(postgres_database) as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    store.close()


@pytest.mark.parametrize("text", ["ROLLBACK", "COMMIT AND CHAIN"])
@pytest.mark.parametrize("known", [None, {"for": "b-1"}])
@pytest.mark.parametrize(
    "desk",
    ["sqlalchemy-postgresql", "async-postgresql", "async-asyncpg", "async-mariadb", "async-sqlite"],
    indirect=True,
)
def test_k7_11_the_same_through_sqlalchemy(desk: Any, text: str, known: Any) -> None:
    """K7-11: a reply that the claim wrote is not written again, which would have told. Its savepoints are let through."""

    def inside(db: Any) -> None:
        session = getattr(db, "sync_session", db)
        if session is db:
            with suppress(ZeroDivisionError), db.begin_nested():
                raise ZeroDivisionError
            with pytest.raises(TransactionMisuse, match="belongs to"):
                db.execute(sa.text(text))

    async def insert(db: Any, buyer: str) -> None:
        with suppress(ZeroDivisionError):
            async with db.begin_nested():
                raise ZeroDivisionError
        with pytest.raises(TransactionMisuse, match="belongs to"):
            await db.execute(sa.text(text))
        await db.execute(sa.text(INSERT))

    if isinstance(desk.store, AsyncSQLAlchemyStore):
        desk.insert = insert
    for _ in range(3):
        desk.place("k1", inside=inside, reply=known)
    assert len(desk.orders()) == 1
    # The connection goes back to its pool unguarded.
    if not isinstance(desk.store, AsyncSQLAlchemyStore):
        with desk.store._sessions() as session:
            session.execute(sa.text(text))
