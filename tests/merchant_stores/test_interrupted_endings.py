"""K7-11: an interrupt that comes while a work is being undone (a signal, a time limit, a cancelled task) leaves no
transaction open behind it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from merchant_sdk import CallKey, call_status, once
from merchant_sdk.stores.postgres import PsycopgStore, PsycopgTransaction


class CountingPool:
    """A pool as psycopg's is used, that knows what it has lent."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self.lent: list[Any] = []

    def getconn(self) -> Any:
        self.lent.append(psycopg.connect(self._conninfo))
        return self.lent[-1]

    def putconn(self, conn: Any) -> None:
        self.lent.remove(conn)
        conn.close()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, TimeoutError])
@pytest.mark.parametrize("use", ["once", "status"])
def test_k7_11_an_interrupt_in_the_rollback_gives_the_connection_back(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch, use: str, interrupt: type[BaseException]
) -> None:
    """K7-11: kept, it would hold the key, and every twin would wait for ever."""
    PsycopgStore(postgres_database, create_table=True).close()
    pool = CountingPool(postgres_database)
    store = PsycopgStore(pool)

    def place(*, fail: bool) -> Any:
        with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            if not work.done:
                work.db.execute("INSERT INTO orders (buyer) VALUES ('b-1')")
                if fail:
                    raise ZeroDivisionError
                work.reply("placed")
        return work.answer.result

    def interrupted(_: PsycopgTransaction) -> None:
        raise interrupt

    with monkeypatch.context() as patch:
        patch.setattr(PsycopgTransaction, "rollback", interrupted)
        with pytest.raises(interrupt):
            place(fail=True) if use == "once" else call_status(store, "k2", now=lambda: 1.0)
    assert pool.lent == []
    assert place(fail=False) == "placed"
    with psycopg.connect(postgres_database) as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (1,)
