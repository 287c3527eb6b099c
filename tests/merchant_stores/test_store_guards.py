"""K7-11: nobody but `once` ends the transaction, and what failed inside it is never answered as done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from django.db import transaction
from sqlalchemy.orm import Session, sessionmaker

from merchant_sdk import CallKey, Line, StoreBusy, TransactionMisuse, once, request_key
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore

ONLY_ONE = "INSERT INTO orders (buyer, item) VALUES ('x', 'the only one')"


def _raw(sql: str) -> Callable[[Any], Any]:
    """Run one statement on whatever the store hands out."""

    def run(db: Any) -> None:
        if isinstance(db, Session):
            db.execute(sa.text(sql))
        elif hasattr(db, "execute"):
            db.execute(sql)
        else:
            with db.cursor() as cursor:
                cursor.execute(sql)

    return run


# An async session is the sync one underneath, so its guards are tried there.
ON_POSTGRES = ["psycopg", "sqlalchemy-postgresql", "django-postgresql"]
SYNC = ["sqlite3", "sqlalchemy-sqlite", "sqlalchemy-mariadb", "django-sqlite", "django-mariadb", *ON_POSTGRES]


@pytest.mark.parametrize("desk", SYNC, indirect=True)
@pytest.mark.parametrize("method", ["commit", "rollback"])
def test_k7_11_the_work_cannot_end_the_transaction(desk: Any, method: str) -> None:
    """K7-11: the record and the order are one transaction."""
    with pytest.raises((TransactionMisuse, transaction.TransactionManagementError)):
        desk.place("k1", inside=lambda db: getattr(db, method)())
    assert desk.orders() == []
    assert desk.records() == 0
    assert desk.place("k1") == {"for": "b-1"}


@pytest.mark.parametrize("desk", SYNC, indirect=True)
@pytest.mark.parametrize("reply", [None, {"for": "known"}])
def test_k7_11_a_database_error_that_the_work_swallowed_is_not_a_success(desk: Any, reply: Any) -> None:
    """K7-11: PostgreSQL answers COMMIT in a failed transaction with a silent rollback."""

    def swallow(db: Any) -> None:
        _raw(ONLY_ONE)(db)
        with suppress(Exception):
            _raw(ONLY_ONE)(db)

    done = False
    with suppress(Exception):
        desk.place("k1", inside=swallow, reply=reply)
        done = True
    assert len(desk.orders()) == (2 if done else 0)
    assert desk.records() == (1 if done else 0)
    if desk.vendor == "postgresql":
        assert not done


@pytest.fixture
def engine(postgres_database: str) -> Iterator[sa.Engine]:
    host = dict(part.split("=") for part in postgres_database.split())
    engine = sa.create_engine(f"postgresql+psycopg://shop@/{host['dbname']}?host={host['host']}")
    yield engine
    engine.dispose()


@pytest.mark.parametrize("desk", ON_POSTGRES, indirect=True)
def test_k7_11_a_deferred_constraint_that_fails_at_the_commit_stores_nothing(desk: Any) -> None:
    """K7-11: the reply travels with the commit, and fails with it."""
    late = _raw("CREATE TABLE late (id int REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)")

    def inside(db: Any) -> None:
        late(db)
        _raw("INSERT INTO late VALUES (999)")(db)

    with pytest.raises(Exception, match="foreign key"):
        desk.place("k1", inside=inside)
    assert desk.orders() == []
    assert desk.records() == 0


@pytest.mark.parametrize("desk", [name for name in SYNC if name != "sqlite3"], indirect=True)
@pytest.mark.parametrize("text", ["ROLLBACK", "commit", " BEGIN"])
@pytest.mark.parametrize("known", [None, {"for": "b-1"}])
def test_k7_11_sql_text_that_ends_the_transaction_is_not_two_orders(desk: Any, text: str, known: Any) -> None:
    """K7-11: whichever driver sends it, what is written afterwards would be kept without its claim."""

    def inside(db: Any) -> None:
        with pytest.raises(TransactionMisuse, match="belongs to"):
            _raw(text)(db)
        _raw(ONLY_ONE)(db)

    assert desk.place("k1", inside=inside, reply=known) == desk.place("k1", reply=known) == {"for": "b-1"}
    assert (len(desk.orders()), desk.records()) == (2, 1)
    # The connection's next transaction is the merchant's own.
    if isinstance(desk.store, SQLAlchemyStore):
        # Of SQLite: there is nothing to roll back.
        with suppress(sa.exc.OperationalError), desk.store._sessions() as session:
            session.execute(sa.text("ROLLBACK"))


def test_savepoints_of_the_merchant_are_its_own(engine: sa.Engine) -> None:
    """A savepoint may be kept or undone inside the work."""
    store = SQLAlchemyStore(sessionmaker(engine))
    store.create_table()
    with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
        with work.db.begin_nested():
            _raw(ONLY_ONE)(work.db)
        with suppress(ZeroDivisionError), work.db.begin_nested():
            _raw(ONLY_ONE.replace("one", "other"))(work.db)
            raise ZeroDivisionError
        work.reply("placed")
    with engine.connect() as db:
        assert db.execute(sa.text("SELECT item FROM orders")).scalars().all() == ["the only one"]


def test_a_commit_in_plain_sql_is_found_out_and_the_key_is_not_run_again(postgres_database: str) -> None:
    """K7-11: what nobody can prevent is not answered, and never repeated in silence."""
    store = PsycopgStore(postgres_database, create_table=True)

    def place() -> None:
        with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            work.db.execute("INSERT INTO orders (buyer) VALUES ('b-1')")
            work.db.execute("SELECT 1; COMMIT")
            work.reply("placed")

    with pytest.raises(TransactionMisuse, match="ended inside the work"):
        place()
    with pytest.raises(TransactionMisuse, match="ended its transaction early"):
        place()
    with psycopg.connect(postgres_database) as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    store.close()


def test_a_connection_that_died_while_idle_is_replaced(postgres_database: str) -> None:
    """Nothing was begun on it; the customer notices nothing."""
    store = PsycopgStore(postgres_database, create_table=True)
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        for call in ("k1", "k2"):
            with once(store, CallKey(call, "f"), now=lambda: 1.0) as work:
                work.reply("placed")
            assert work.answer.matched is None
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            assert work.done
    store.close()


@pytest.mark.parametrize("touched", [False, True])
def test_k7_02_a_stale_snapshot_found_while_binding(postgres_database: str, touched: bool) -> None:
    """K7-02: under REPEATABLE READ the purchase that another just made is not in sight. Without work it begins
    anew and replays; work that was begun is undone and may come again (429, not a conflict or a 500)."""
    store = PsycopgStore(postgres_database, create_table=True, isolation="repeatable read")
    purchase = request_key("order", buyer="b-1", cart=[Line("pizza", 1)], window_s=60)

    def place(call: str, between: Callable[[], None] = lambda: None) -> Any:
        with once(store, CallKey(call, "f"), now=lambda: 1.0) as work:
            if touched and call == "late":
                work.db.execute("SELECT 1")
            between()
            if not work.bind(purchase):
                work.db.execute("INSERT INTO orders (buyer) VALUES ('b-1')")
                work.reply({"by": call})
        return work.answer.result

    if touched:
        with pytest.raises(StoreBusy, match="nothing was stored"):
            place("late", lambda: place("first"))
        assert place("late")["by"] == "first"
    else:
        assert place("late", lambda: place("first"))["by"] == "first"
    with psycopg.connect(postgres_database) as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    store.close()


@pytest.mark.parametrize("desk", SYNC, indirect=True)
def test_a_read_sees_one_snapshot_and_cannot_write(desk: Any) -> None:
    """Reads run without `once`, so they must not be able to order."""
    desk.place("k1")
    with suppress(Exception), desk.store.reading() as db:
        with pytest.raises(Exception, match=r"(?i)read.?only"):
            desk.insert(db, "x")
        raise RuntimeError
    desk.after()
    assert desk.orders() == ["b-1"]
    assert desk.place("k2") == {"for": "b-1"}, "the connection is as it was"


class Forgetful:
    """A pool of one connection that comes back as a proxy's would: the server does not know what was prepared on it."""

    def __init__(self, conninfo: str) -> None:
        self.connection = psycopg.connect(conninfo, autocommit=True)

    def getconn(self) -> psycopg.Connection[Any]:
        return self.connection

    def putconn(self, conn: psycopg.Connection[Any]) -> None:
        conn.execute("DISCARD ALL")


@pytest.mark.parametrize("direct", [True, False])
def test_a_proxy_that_does_not_know_the_prepared_names_costs_nothing_but_the_names(
    postgres_database: str, engine: sa.Engine, direct: bool
) -> None:
    """pgbouncer and `DISCARD ALL`: the claim begins anew, once, and nothing is done twice."""
    pool = Forgetful(postgres_database)
    store: Any = PsycopgStore(pool, create_table=True)
    if not direct:
        sa.event.listen(engine, "checkin", lambda raw, _record: raw and raw.execute("DEALLOCATE ALL") and raw.commit())
        store = SQLAlchemyStore(sessionmaker(engine))
    for call in ("k1", "k2", "k3", "k1"):
        with once(store, CallKey(call, "f"), now=lambda: 1.0) as work:
            if not work.done:
                _raw("INSERT INTO orders (buyer) VALUES ('b-1')")(work.db)
                work.reply("placed")
    pool.connection.close()
    with psycopg.connect(postgres_database) as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (3,)


@pytest.mark.parametrize(
    ("database", "more", "told"),
    [
        ("shop.db", {}, "a file is for SQLiteStore"),
        ("postgresql+psycopg://u:hunter2@h/shop", {}, "an address with a driver for SQLAlchemyStore"),
        (object(), {}, "psycopg_pool.ConnectionPool (not an async one), not object"),
        (
            "dbname=shop",
            {"isolation": "serialisable"},
            "isolation is one of read committed, repeatable read, serializable",
        ),
    ],
    ids=["a file", "SQLAlchemy's address", "an object", "a level that is none"],
)
def test_what_psycopgs_store_cannot_use_is_told_when_it_is_made(database: Any, more: Any, told: str) -> None:
    """Not at the first order; and nothing of a password."""
    with pytest.raises((TypeError, ValueError)) as raised:
        PsycopgStore(database, **more)
    assert told in str(raised.value)
    assert "hunter2" not in str(raised.value)
