"""Who waits for a while only, waits on a connection that others use after it, and leaves it as patient as it was."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from django.db import connections

from merchant_sdk import CallKey, Refused, SQLiteStore, once

WAITS = {"sqlite": "PRAGMA busy_timeout", "mysql": "SELECT @@innodb_lock_wait_timeout"}
POOLED = 3


def _on_every_connection(engine: sa.Engine, sql: str) -> list[int]:
    """As many are out at once as the pool will hold."""
    taken = [engine.connect() for _ in range(POOLED)]
    found = [int(connection.exec_driver_sql(sql).scalar_one()) for connection in taken]
    for connection in taken:
        connection.close()
    return found


def _refused_inside(desk: Any, outer: SQLiteStore) -> None:
    with once(outer, CallKey("outer", "f"), now=desk.clock) as work:
        with suppress(Refused), once(desk.store, CallKey("inner", "f"), now=desk.clock):
            raise Refused("no", "No.")  # its claim is undone and made anew
        work.reply("done")


def _status_asked(desk: Any, _: SQLiteStore) -> None:
    desk.status("k1", first_at=desk.clock())


def _inner_done(desk: Any, outer: SQLiteStore) -> None:
    with once(outer, CallKey("outer", "f"), now=desk.clock) as work:
        with once(desk.store, CallKey("inner", "f"), now=desk.clock) as inner:
            desk.insert(inner.db, "inner")
            inner.reply("done")
        work.reply("done")


USES = [_status_asked, _refused_inside, _inner_done]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("desk", ["sqlalchemy-sqlite", "sqlalchemy-mariadb"], indirect=True)
def test_k7_02_a_pools_connection_is_as_patient_afterwards_as_before(desk: Any, use: Any, tmp_path: Path) -> None:
    """K7-02: a loser on it would give up after a moment, where it has to wait for the original."""
    with desk.store._sessions() as session:
        engine = session.get_bind()
    before = _on_every_connection(engine, WAITS[desk.vendor])
    _alone(use, desk, SQLiteStore(tmp_path / "outer.db"))
    assert _on_every_connection(engine, WAITS[desk.vendor]) == before


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("desk", ["django-sqlite", "django-mariadb"], indirect=True)
def test_k7_02_a_threads_connection_is_too(desk: Any, use: Any, tmp_path: Path) -> None:
    """K7-02: Django's stays with its thread, for the next request."""
    desk.after = lambda: None
    connections.databases[desk.store._alias]["CONN_MAX_AGE"] = None
    found: list[Any] = []

    def waits() -> None:
        with connections[desk.store._alias].cursor() as cursor:
            cursor.execute(WAITS[desk.vendor])
            found.append(cursor.fetchone())

    def request() -> None:
        waits()
        use(desk, SQLiteStore(tmp_path / "outer.db"))
        waits()
        connections[desk.store._alias].close()

    _alone(request)
    assert len(found) == 2
    assert found[0] == found[1]


def _alone(use: Any, *arguments: Any) -> None:
    """In a thread of its own: other tests may have left a block open in this one's context."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            use(*arguments)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
