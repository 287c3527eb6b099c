"""K7-11: rows that the work reads one by one leave nothing behind that the commit would stumble over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from merchant_sdk import CallKey, once
from merchant_sdk.stores.postgres import PsycopgStore

ROWS = "SELECT generate_series(1, 3)"
INSERT = "INSERT INTO orders (buyer) VALUES ('b-1')"

READS: dict[str, Callable[[psycopg.Cursor[Any]], Any]] = {
    "to the end": lambda cursor: list(cursor.stream(ROWS)),
    "one of them": lambda cursor: next(cursor.stream(ROWS)),
}
if psycopg.pq.version() >= 170000:
    READS["several at a time"] = lambda cursor: list(cursor.stream(ROWS, size=2))


@pytest.mark.parametrize("known", [None, "placed"])
@pytest.mark.parametrize("read", READS)
def test_k7_11_rows_read_one_by_one_before_the_commit(postgres_database: str, read: str, known: str | None) -> None:
    """K7-11: the client's library keeps its row by row mode for the next message, which was told as a lost commit."""
    store = PsycopgStore(postgres_database, create_table=True)
    for key in ("k1", "k2", "k1"):
        with once(store, CallKey(key, "f"), now=lambda: 1.0, reply=known) as work:
            if not work.done:
                work.db.execute(INSERT)
                READS[read](work.db.cursor())
                if known is None:
                    work.reply("placed")
        assert work.answer.result == "placed"
    with psycopg.connect(postgres_database) as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (2,)
    store.close()
