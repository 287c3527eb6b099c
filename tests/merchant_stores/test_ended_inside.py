"""What is said of a work that ended its transaction in SQL: not that nothing is stored, where something may be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from merchant_sdk import TransactionEnded, TransactionMisuse
from merchant_sdk.endpoint import reply_to

POSTGRES = ["psycopg", "sqlalchemy-postgresql"]


def _said(db: Any, sql: str) -> None:
    if isinstance(db, Session):
        # A driver takes more than one statement in one text where it has no parameters.
        db.connection().exec_driver_sql(sql)
    else:
        db.execute(sql)


def _sql(*texts: str) -> Callable[[Any], None]:
    def inside(db: Any) -> None:
        for text in texts:
            _said(db, text)

    return inside


ENDED: dict[str, tuple[Callable[[Any], None], int]] = {
    "committed": (_sql("SELECT 1; COMMIT"), 1),
    "rolled back": (_sql("SELECT 1; ROLLBACK"), 0),
    "committed and written on": (_sql("SELECT 1; COMMIT", "INSERT INTO orders (buyer) VALUES ('b-2')"), 1),
    "rolled back and begun anew": (_sql("SELECT 1; ROLLBACK; BEGIN"), 0),
    "rolled back, committed and begun anew": (
        _sql("SELECT 1; ROLLBACK; BEGIN; INSERT INTO orders (buyer) VALUES ('b-2'); COMMIT; BEGIN"),
        1,
    ),
}


def _message(error: Exception) -> str:
    reply = reply_to(error)
    assert reply.status == 500
    return str(json.loads(reply.body)["error"]["message"])


@pytest.mark.parametrize("desk", POSTGRES, indirect=True)
@pytest.mark.parametrize("ended", ENDED)
def test_k7_11_of_a_work_that_ended_its_transaction_nobody_is_told_that_nothing_is_stored(
    desk: Any, ended: str
) -> None:
    """K7-11: the order may be there, and whoever reads the error is sent to look."""
    inside, kept = ENDED[ended]
    with pytest.raises(TransactionEnded, match="look at the order") as raised:
        desk.place("k1", inside=inside)
    assert "nothing is stored" not in str(raised.value)
    assert "not known" in _message(raised.value)
    assert len(desk.orders()) == kept


@pytest.mark.parametrize("desk", POSTGRES, indirect=True)
def test_k7_11_of_one_that_failed_everybody_is(desk: Any) -> None:
    """K7-11: a transaction that failed has kept nothing, whatever the work made of the error."""

    def inside(db: Any) -> None:
        with pytest.raises(Exception, match="nowhere"):
            _said(db, "SELECT * FROM nowhere")

    with pytest.raises(TransactionMisuse, match="nothing is stored") as raised:
        desk.place("k1", inside=inside)
    assert not isinstance(raised.value, TransactionEnded)
    assert "stored nothing" in _message(raised.value)
    assert desk.orders() == []


@pytest.mark.parametrize("desk", POSTGRES, indirect=True)
def test_k7_11_a_work_that_set_another_search_path_is_told_of_it(desk: Any) -> None:
    """K7-11: there the records are in another table, or the claim of this work is not."""

    def inside(db: Any) -> None:
        _said(db, "CREATE SCHEMA others")
        _said(db, "CREATE TABLE others.oncegate_once (LIKE public.oncegate_once)")
        _said(db, "SET LOCAL search_path = others, public")

    with pytest.raises(TransactionEnded, match="search_path"):
        desk.place("k1", inside=inside)
    assert desk.orders() == []
    assert desk.place("k1") == {"for": "b-1"}


@pytest.mark.parametrize("desk", ["async-asyncpg", "sqlalchemy-mariadb", "django-postgresql"], indirect=True)
def test_k7_11_where_the_claim_is_found_gone_the_same_is_said(desk: Any) -> None:
    """K7-11: through whatever driver."""

    def inside(db: Any) -> None:
        if hasattr(db, "cursor"):
            with db.cursor() as cursor:
                cursor.execute("DELETE FROM oncegate_once")
        else:
            db.execute(sa.text("DELETE FROM oncegate_once"))

    if hasattr(desk.store, "sync"):
        insert = desk.insert

        async def insert_and_drop(db: Any, buyer: str) -> None:
            await insert(db, buyer)
            await db.execute(sa.text("DELETE FROM oncegate_once"))

        desk.insert, inside = insert_and_drop, lambda db: None
    with pytest.raises(TransactionEnded, match="look at the order"):
        desk.place("k1", inside=inside)
    assert desk.orders() == []


@pytest.mark.parametrize("desk", POSTGRES, indirect=True)
def test_k7_11_nor_is_the_same_call_when_it_comes_again(desk: Any) -> None:
    """K7-11: its key is closed until somebody has looked, because the order was kept without a reply."""
    with pytest.raises(TransactionEnded):
        desk.place("k1", inside=_sql("SELECT 1; COMMIT"))
    with pytest.raises(TransactionEnded) as raised:
        desk.place("k1")
    assert "not known" in _message(raised.value)
    assert len(desk.orders()) == 1
