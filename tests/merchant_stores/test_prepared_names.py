"""The SDK's statements are prepared by name, and names are lost (K7-11): psycopg drops them after a rollback, DROP or ALTER."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import event
from sqlalchemy.orm import Session, sessionmaker

from merchant_sdk import CallKey, RequestKey, StoreBusy, TransactionMisuse, once
from merchant_sdk.stores import sqlalchemy_psycopg
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.postgres_statements import Names
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore

INSERT = "INSERT INTO orders (buyer) VALUES ('b-1')"
WARM = 8
"""Works after which psycopg has prepared the insert itself, and so has something to drop."""


@pytest.fixture(params=["psycopg", "sqlalchemy"])
def store(request: pytest.FixtureRequest, postgres_database: str) -> Iterator[Any]:
    """Of one connection at a time, on which all of psycopg's and our names are."""
    made = PsycopgStore(postgres_database, create_table=True)
    if request.param == "psycopg":
        yield made
    else:
        at = dict(part.split("=") for part in postgres_database.split())
        url = f"postgresql+psycopg://shop@/{at['dbname']}?host={at['host']}"
        engine = sa.create_engine(url, pool_size=1, max_overflow=0)
        yield SQLAlchemyStore(sessionmaker(engine))
        engine.dispose()
    made.close()


def _run(db: Any, text: str) -> Any:
    return db.execute(sa.text(text) if isinstance(db, Session) else text.encode())


def _savepoint(db: Any) -> Any:
    return db.begin_nested() if isinstance(db, Session) else db.transaction()


def _undone(db: Any) -> None:
    with suppress(ZeroDivisionError), _savepoint(db):
        _run(db, INSERT)
        raise ZeroDivisionError


def _dropped(db: Any) -> None:
    _run(db, "CREATE TEMP TABLE lines (sku text) ON COMMIT DROP")
    _run(db, "/* no longer needed */ DROP TABLE lines")


def _deallocated(db: Any) -> None:
    _run(db, "DEALLOCATE ALL")


def _composed(db: Any) -> None:
    if not isinstance(db, Session):
        db.execute(sql.SQL("DEALLOCATE {}").format(sql.SQL("ALL")))


FORGETS = {"savepoint": _undone, "drop": _dropped, "deallocate": _deallocated, "composed": _composed}


def _place(store: Any, key: str, inside: Any = lambda db: None, purchase: str = "") -> None:
    with once(store, CallKey(key, "f"), now=lambda: 1.0) as work:
        if not work.done:
            _run(work.db, INSERT)
            inside(work.db)
            if purchase:
                work.bind(RequestKey(purchase, "f"))
            work.reply("placed")


def _count(conninfo: str) -> tuple[int, int]:
    with psycopg.connect(conninfo) as db:
        row = db.execute("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM oncegate_once)").fetchone()
        assert row is not None
        return row[0], row[1]


@pytest.mark.parametrize("how", FORGETS)
def test_k7_11_names_that_are_dropped_inside_the_work_do_not_undo_it(
    store: Any, postgres_database: str, how: str
) -> None:
    """K7-11: the claim of a purchase and the reply are said whole afterwards, where a name would be an error."""
    for number in range(WARM):
        _place(store, f"warm {number}")
    for number in range(3):
        _place(store, f"k {number}", FORGETS[how], purchase=f"p {number}")
    assert _count(postgres_database) == (WARM + 3, WARM + 6)


def test_names_that_a_rollback_dropped_are_prepared_anew(store: Any, postgres_database: str) -> None:
    """The store does not take it for a proxy, whose names never last to a second work."""
    for number in range(WARM):
        _place(store, f"warm {number}")
    with pytest.raises(ZeroDivisionError):
        _place(store, "fails", lambda db: (_deallocated(db), 1 / 0))
    _place(store, "after")
    names: list[Any] = []
    _place(store, "last", lambda db: names.extend(_run(db, "SELECT name FROM pg_prepared_statements").fetchall()))
    assert {"oncegate_claim_v1", "oncegate_put_v3"} <= {name for (name,) in names}
    assert _count(postgres_database) == (WARM + 2, WARM + 2)


@pytest.mark.parametrize("purchase", ["", "p"], ids=["reply", "bind"])
def test_k7_11_names_that_a_function_dropped_cost_one_work_and_no_more(
    store: Any, postgres_database: str, purchase: str
) -> None:
    """K7-11: nobody reads what a function does. Its work is undone and may come again; it failed each time, in words that
    say nothing to a merchant."""
    with psycopg.connect(postgres_database) as db:
        db.execute("CREATE FUNCTION tidy() RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE ''DEALLOCATE ALL''; END'")
    for number in range(2):  # so few that psycopg has no names of its own to miss
        _place(store, f"few {number}")
    with pytest.raises(StoreBusy, match="nothing was stored"):
        _place(store, "k", lambda db: _run(db, "SELECT tidy()"), purchase=purchase)
    assert _count(postgres_database) == (2, 2)
    _place(store, "k", lambda db: _run(db, "SELECT tidy()"), purchase=purchase)
    assert _count(postgres_database)[0] == 3


class Named:
    """As much of a connection as the names need."""


def test_k7_02_two_claims_that_meet_a_proxy_at_once_are_both_begun_anew() -> None:
    """K7-02: the second to be told must not be answered with the driver's error."""
    names, told = Names(), psycopg.errors.InvalidSqlStatementName()
    connections = [Named(), Named()]
    for connection in connections:
        names.prepared(connection)
    assert [names.names_are_gone(connection, told) for connection in connections] == [True, True]


def test_k7_11_a_hook_that_has_begun_meets_no_unknown_name(postgres_database: str) -> None:
    """K7-11: the claim is then inside a transaction, where nothing could be begun anew."""
    PsycopgStore(postgres_database, create_table=True).close()
    at = dict(part.split("=") for part in postgres_database.split())
    engine = sa.create_engine(f"postgresql+psycopg://shop@/{at['dbname']}?host={at['host']}", pool_size=1)
    sessions = sessionmaker(engine)
    store = SQLAlchemyStore(sessions)
    _place(store, "k1")
    _place(store, "k2")
    with engine.begin() as connection:
        connection.exec_driver_sql("DEALLOCATE ALL")
    event.listen(
        sessions, "after_begin", lambda _session, _how, db: db.exec_driver_sql("SET LOCAL search_path = public")
    )
    _place(store, "k3")
    engine.dispose()
    assert _count(postgres_database) == (3, 3)


def test_k7_11_a_purchase_bound_in_a_savepoint_that_is_undone_is_not_two_orders(
    store: Any, postgres_database: str
) -> None:
    """K7-11: its claim is gone with the savepoint, though the reply was written with it."""

    def place(call: str) -> None:
        with once(store, CallKey(call, "f"), now=lambda: 1.0, reply="placed") as work:
            with suppress(ZeroDivisionError), _savepoint(work.db):
                _run(work.db, "SELECT 1")
                work.bind(RequestKey("p", "f"))
                raise ZeroDivisionError
            _run(work.db, INSERT)

    for call in ("k1", "k2"):
        with pytest.raises(TransactionMisuse, match="claim was gone"):
            place(call)
    assert _count(postgres_database) == (0, 0)


class Stop(BaseException):
    """What a server raises in a worker that has to end."""


def test_k7_11_a_worker_that_is_stopped_while_it_waits_for_a_twin_ends_at_once(postgres_database: str) -> None:
    """K7-11: it gives its connection up, and does not wait for the twin to be told of a rollback."""
    store = PsycopgStore(postgres_database, create_table=True)
    waiting = threading.Event()

    def stop() -> None:
        with psycopg.connect(postgres_database, autocommit=True) as watch:
            while not watch.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                waiting.wait(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def stopped(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGUSR1, stopped)
    killer = threading.Thread(target=stop)
    try:
        with psycopg.connect(postgres_database) as twin:
            twin.execute("INSERT INTO oncegate_once VALUES ('call', 'k1', 'f', 'succeeded', '', 1.0)")
            killer.start()
            with pytest.raises(Stop):
                _place(store, "k1")
            # It is here while the twin still holds the key.
            twin.rollback()
    finally:
        killer.join()
        signal.signal(signal.SIGUSR1, before)
    _place(store, "k1")
    store.close()
    assert _count(postgres_database) == (1, 1)


@pytest.mark.parametrize("store", ["sqlalchemy"], indirect=True)
def test_a_pools_connection_is_the_merchants_again_after_a_hooked_commit(store: Any) -> None:
    """Cursors and ends are its own, whatever the work and the hooks did."""
    _place(store, "k1", _undone)
    with store._sessions() as session:
        raw = session.connection().connection.driver_connection
        assert raw.cursor_factory is psycopg.Cursor
        assert not {*sqlalchemy_psycopg._ENDS} & {*vars(raw)}
