"""Hooks of the session and of Django around the commit (K7-11): what fails in them is never answered as something else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa
from django.db import transaction
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from merchant_sdk import OutcomeUnknown

SQLALCHEMY = [
    "sqlalchemy-sqlite",
    "sqlalchemy-postgresql",
    "sqlalchemy-mariadb",
    "async-sqlite",
    "async-postgresql",
    "async-asyncpg",
    "async-mariadb",
]
# After it PostgreSQL makes a ROLLBACK of any COMMIT; the others are made to forget the work as a deadlock makes them.
BREAKS = {
    "postgresql": "SELECT 1/0",
    "sqlite": "INSERT OR ROLLBACK INTO orders (buyer) VALUES (NULL)",
    "mysql": "/*! ROLLBACK */",
}


def _listen(desk: Any, name: str, hook: Any) -> None:
    """On the session of each work, from inside it."""
    plain = desk.insert

    def insert(db: Any, buyer: str) -> Any:
        event.listen(db.sync_session if isinstance(db, AsyncSession) else db, name, hook)
        return plain(db, buyer)

    desk.insert = insert


@pytest.mark.parametrize("known", [None, {"for": "b-1"}])
@pytest.mark.parametrize("desk", SQLALCHEMY, indirect=True)
def test_k7_11_a_database_error_that_a_hook_before_the_commit_swallowed_is_not_a_success(desk: Any, known: Any) -> None:
    """K7-11: the commit stores nothing then, and says nothing. The work itself is over and was good."""

    def hook(session: Session) -> None:
        with suppress(Exception):
            session.execute(sa.text(BREAKS[desk.vendor]))

    _listen(desk, "before_commit", hook)
    with pytest.raises(Exception) as failed:
        desk.place("k1", reply=known)
    assert not isinstance(failed.value, OutcomeUnknown)
    assert (desk.orders(), desk.records()) == ([], 0)


@pytest.mark.parametrize("known", [None, {"for": "b-1"}])
@pytest.mark.parametrize("desk", ["sqlalchemy-postgresql", "async-postgresql"], indirect=True)
def test_k7_11_a_hook_before_the_commit_may_undo_a_savepoint_of_its_own(desk: Any, known: Any) -> None:
    """K7-11: psycopg drops all prepared statements with it."""

    def hook(session: Session) -> None:
        for _ in range(8):
            session.execute(sa.text("SELECT 1"))
        with suppress(ZeroDivisionError), session.begin_nested():
            session.execute(sa.text("SELECT 1"))
            raise ZeroDivisionError

    _listen(desk, "before_commit", hook)
    for call in ("k1", "k1", "k2"):
        assert desk.place(call, reply=known) == {"for": "b-1"}
    assert (len(desk.orders()), desk.records()) == (2, 2)


def _fails(_: Any = None) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("desk", SQLALCHEMY, indirect=True)
def test_k7_11_a_hook_that_fails_after_the_commit_is_not_said_to_have_stored_nothing(desk: Any) -> None:
    """K7-11: the order is there, and the same call finds it."""
    _listen(desk, "after_commit", _fails)
    with pytest.raises(OutcomeUnknown, match="was committed"):
        desk.place("k1")
    assert desk.place("k1") == {"for": "b-1"}
    assert (len(desk.orders()), desk.records()) == (1, 1)


@pytest.mark.parametrize("desk", SQLALCHEMY, indirect=True)
def test_k7_11_a_hook_that_fails_before_the_commit_stored_nothing(desk: Any) -> None:
    """K7-11: its own error is told, and the connection's next work is its own."""
    plain = desk.insert
    _listen(desk, "before_commit", _fails)
    with pytest.raises(ZeroDivisionError):
        desk.place("k1")
    desk.insert = plain
    assert (desk.orders(), desk.records()) == ([], 0)
    assert desk.place("k1") == desk.place("k1") == {"for": "b-1"}
    assert (len(desk.orders()), desk.records()) == (1, 1)


@pytest.mark.parametrize("desk", ["django-sqlite", "django-postgresql", "django-mariadb"], indirect=True)
def test_k7_11_an_on_commit_hook_of_django_that_fails_is_told_as_such(desk: Any) -> None:
    """K7-11: as `after_commit`."""
    with pytest.raises(OutcomeUnknown, match="was committed"):
        desk.place("k1", inside=lambda db: transaction.on_commit(_fails, using=db.alias))
    assert desk.place("k1") == {"for": "b-1"}
    assert (len(desk.orders()), desk.records()) == (1, 1)
