"""SQLAlchemy over psycopg: the claim travels with BEGIN, past SQLAlchemy's cursors but on its connection.

What it raises is SQLAlchemy's, as for every statement of the session. The reply travels with COMMIT: the driver's own
`commit` is replaced on the one connection, so that what hooks write in `before_commit` is in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import sqlalchemy
from psycopg import pq
from psycopg.errors import InvalidSqlStatementName
from sqlalchemy import exc
from sqlalchemy.util import await_only

from merchant_sdk.errors import ENDED, FAILED, TransactionEnded, TransactionMisuse
from merchant_sdk.store import Record
from merchant_sdk.stores.guarded_cursor import guarded
from merchant_sdk.stores.postgres_statements import (
    BEGIN_TRIES,
    CLAIM,
    COMMIT,
    PUT,
    ROLLBACK,
    Names,
    Statement,
    begin,
    committed,
    doubt_names,
    is_in_doubt,
    is_of,
    of,
    putting,
)
from merchant_sdk.stores.postgres_wire import IDLE, INTRANS, say, say_async

_ENDS = ("commit", "rollback")


class PsycopgConnection:
    """The claims and the replies of one transaction."""

    def __init__(self, connection: sqlalchemy.Connection, names: Names) -> None:
        self._connection = connection
        raw: Any = connection.connection.driver_connection
        self._raw = raw
        self._async = isinstance(self._raw, psycopg.AsyncConnection)
        self._names = names
        self._began = False
        self._kept: Record | None = None
        self._held: Record | None = None
        self._late: list[Record] = []
        self._replaced = self._asked = self._sent = False
        # Ended and begun anew in SQL, a work whose reply the claim wrote would be kept without its claim.
        self._factory: Any = self._raw.cursor_factory
        self._raw.cursor_factory = guarded(self._factory)

    def lift(self) -> None:
        """The cursors are the merchant's again. Before the end, after which the pool may give the connection away; at
        it, where it is ours: until then hooks are guarded as the work is."""
        if not self._replaced:
            self._raw.cursor_factory = self._factory

    def claim(self, wanted: Record, expected: Record | None) -> bool:
        """Whether the row was written; with BEGIN, so may be the expected one. Raises DBAPIError."""
        if is_of(self._held, wanted):
            return True
        try:
            if self._raw.pgconn.transaction_status == IDLE:
                written = self._begin_and_claim(wanted, expected)
                self._kept = wanted if written else None
                return written
            if not self._began:
                # The merchant's own hooks have begun already: the claim is a message of its own, and an unknown name
                # could not be mended.
                self._began = True
                doubt_names(self._raw)
            return self._say(of(wanted, CLAIM, self._raw))[-1].command_tuples == 1
        except InvalidSqlStatementName as error:
            raise self._names.lost_inside() from error
        except psycopg.Error as error:
            raise self._as_sqlalchemys(error) from error

    def put(self, records: Sequence[Record], *, with_commit: bool) -> None:
        """Now, or in the message that commits. Raises DBAPIError, and TransactionMisuse where a claim is gone."""
        # What the claim wrote already is not written again, if it came with BEGIN: one that came later may have been
        # undone with a savepoint of the work. Nor is it sure where a text could have begun anew.
        kept = () if is_in_doubt(self._raw) else (self._kept, self._held)
        late = [record for record in records if record not in kept]
        if with_commit:
            self._late, self._replaced, self._asked = late, True, True
            replaced = (self._commit_async, self._rollback_async) if self._async else (self._commit, self._rollback)
            self._raw.__dict__.update(zip(_ENDS, replaced, strict=True))
            return
        try:
            with putting:
                if late:
                    self._say(*self._puts(late))
        except InvalidSqlStatementName as error:
            raise self._names.lost_inside() from error
        except psycopg.Error as error:
            raise self._as_sqlalchemys(error) from error

    def check_sent(self) -> None:
        """After the commit. Raises TransactionMisuse if the reply did not go with it."""
        if self._asked and not self._sent:
            self._own_ends()
            raise TransactionMisuse("the session's commit did not commit on its connection: the reply is not stored")

    def _own_ends(self) -> list[Record]:
        if not self._replaced:
            return []
        # First of all, whatever fails after it: the pool must not get the connection back with our ends.
        for name in _ENDS:
            self._raw.__dict__.pop(name, None)
        late, self._late, self._replaced = self._late, [], False
        self.lift()
        return late

    def _puts(self, late: Sequence[Record]) -> list[Statement]:
        # Made when they are sent: a hook may have dropped their names meanwhile.
        return [of(record, PUT, self._raw) for record in late]

    def _commit(self) -> None:
        puts = self._puts(self._own_ends())
        try:
            with putting:
                committed(self._raw, say(self._raw, *puts, COMMIT, named=self._names.knows(self._raw)))
        except InvalidSqlStatementName as error:
            raise self._names.lost_inside() from error
        self._sent = True

    async def _commit_async(self) -> None:
        puts = self._puts(self._own_ends())
        try:
            with putting:
                committed(self._raw, await say_async(self._raw, *puts, COMMIT, named=self._names.knows(self._raw)))
        except InvalidSqlStatementName as error:
            raise self._names.lost_inside() from error
        self._sent = True

    def _rollback(self) -> None:
        self._own_ends()
        self._raw.rollback()

    async def _rollback_async(self) -> None:
        self._own_ends()
        await self._raw.rollback()

    def check(self) -> None:
        """Raises TransactionMisuse where COMMIT would be a ROLLBACK without an error."""
        if (status := self._raw.pgconn.transaction_status) != INTRANS:
            raise TransactionEnded(ENDED) if status == IDLE else TransactionMisuse(FAILED)

    def _begin_and_claim(self, wanted: Record, expected: Record | None) -> bool:
        first, self._began = begin(self._raw), True
        for left in reversed(range(BEGIN_TRIES)):
            try:
                if missing := self._names.prepare(self._raw):
                    self._say(*missing)
                    self._names.prepared(self._raw)
                asked = [wanted] if expected is None else [wanted, expected]
                said = self._say(first, *(of(record, CLAIM, self._raw) for record in asked))
            except psycopg.Error as error:
                if not left or not self._names.names_are_gone(self._raw, error):
                    raise
                if self._raw.pgconn.transaction_status != IDLE:
                    self._say(ROLLBACK)
            else:
                self._names.begun(self._raw)
                self._held = expected if said[-1].command_tuples == 1 else None
                return said[-len(asked)].command_tuples == 1
        raise AssertionError

    def _say(self, *statements: Statement) -> list[pq.abc.PGresult]:
        named = self._names.knows(self._raw)
        if self._async:
            return await_only(say_async(self._raw, *statements, named=named))
        return say(self._raw, *statements, named=named)

    def _as_sqlalchemys(self, error: psycopg.Error) -> BaseException:
        if self._raw.closed:
            # Asked through SQLAlchemy, which then takes the connection out of its pool, and says so.
            try:
                self._connection.exec_driver_sql("SELECT 1")
            except exc.DBAPIError as told:
                return told
        return exc.DBAPIError.instance(
            "oncegate_once", None, error, psycopg.Error, dialect=self._connection.dialect, hide_parameters=True
        )
