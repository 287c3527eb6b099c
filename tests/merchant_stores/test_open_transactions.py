"""What the middleware is told of a psycopg connection is what PostgreSQL says of it (K7-11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from merchant_sdk import ReplyBeforeCommit, transaction, units, watch

INSERT = "INSERT INTO orders (buyer) VALUES ('b-1')"


def committed(connection: Any) -> None:
    watch(connection).execute(INSERT)
    connection.commit()


def in_a_block(connection: Any) -> None:
    with transaction(connection) as db:
        db.execute(INSERT)


def rolled_back(connection: Any) -> None:
    watch(connection).execute(INSERT)
    connection.rollback()


def closed(connection: Any) -> None:
    watch(connection).execute(INSERT)
    connection.close()


def left_open(connection: Any) -> None:
    watch(connection).execute(INSERT)


def failed_and_left(connection: Any) -> None:
    with pytest.raises(psycopg.Error):
        watch(connection).execute("INSERT INTO nowhere VALUES (1)")


@pytest.mark.parametrize(
    ("work", "held"),
    [(committed, False), (in_a_block, False), (rolled_back, False), (closed, False), (left_open, True), (failed_and_left, True)],
)  # fmt: skip
def test_k7_11_a_psycopg_transaction_holds_the_reply_back_while_it_is_open(
    postgres_database: str, work: Callable[[Any], None], held: bool
) -> None:
    """K7-11: also one that failed and was not rolled back; the line that took the connection is named."""
    with psycopg.connect(postgres_database) as setup:
        setup.execute("CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, buyer text)")
    connection = psycopg.connect(postgres_database)
    try:
        with units.request() as request:
            work(connection)
            if held:
                with pytest.raises(ReplyBeforeCommit, match=rf"test_open_transactions\.py:\d+ in {work.__name__}"):
                    request.check(success=True)
            else:
                request.check(success=True)
    finally:
        connection.close()
