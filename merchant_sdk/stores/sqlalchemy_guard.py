"""Nobody but `once` ends the session's transaction: what the merchant's `commit()` or `rollback()` meets.

One pair of listeners for every Session, since adding and removing a pair for each transaction costs more than the rest
of `once`. They ask the session who owns its transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

from merchant_sdk.errors import FAILED, OURS, TransactionMisuse
from merchant_sdk.stores.transaction_words import WRITES

_GUARD = "oncegate_guard"


class Guard:
    """On one session, from its making to `lift`. `began` is the transaction that belongs to `once`, while open, and
    `connection` the one that holds the claim; `committed` says that it was."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._speaking = False
        self.began: Any = None
        self.connection: Any = None
        self.committed = False
        session.info[_GUARD] = self

    def lift(self) -> None:
        """The session is the merchant's again."""
        self._session.info.pop(_GUARD, None)

    @contextmanager
    def ours(self) -> Iterator[None]:
        """What ends inside is ended by `once`."""
        self._speaking = True
        try:
            yield
        finally:
            self._speaking = False

    def check(self) -> None:
        """Raises TransactionMisuse if the transaction failed or is over."""
        now = self._session.get_transaction()
        if now is None or now is not self.began or not now.is_active:
            raise TransactionMisuse(FAILED)

    def after_begin(self, connection: Any) -> None:
        if self.connection is not None and connection is not self.connection:
            event.listen(connection, "before_cursor_execute", _refuse_writes)

    def before_commit(self) -> None:
        if not self._speaking and not self._session.in_nested_transaction():
            raise TransactionMisuse(OURS)

    def after_rollback(self, ended: Any) -> None:
        if not self._speaking and ended is self.began:
            raise TransactionMisuse(OURS)

    def after_commit(self) -> None:
        self.committed = self._speaking and not self._session.in_nested_transaction()


def _refuse_writes(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    if WRITES.match(statement):
        raise TransactionMisuse(
            "the work writes through another engine than the claim: the two would be committed one after the other. "
            "Give the store sessions whose engine is that of the orders"
        )


@event.listens_for(Session, "after_begin")
def _after_begin(session: Session, _transaction: Any, connection: Any) -> None:
    guard = session.info.get(_GUARD)
    if guard is not None:
        guard.after_begin(connection)


@event.listens_for(Session, "before_commit")
def _before_commit(session: Session) -> None:
    guard = session.info.get(_GUARD)
    if guard is not None:
        guard.before_commit()


@event.listens_for(Session, "after_commit", insert=True)
def _after_commit(session: Session) -> None:
    # Before the merchant's own hooks, of which one may raise.
    guard = session.info.get(_GUARD)
    if guard is not None:
        guard.after_commit()


@event.listens_for(Session, "after_soft_rollback")
def _after_rollback(session: Session, ended: Any) -> None:
    guard = session.info.get(_GUARD)
    if guard is not None:
        guard.after_rollback(ended)
