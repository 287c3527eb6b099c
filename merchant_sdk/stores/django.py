"""`once` through Django's connections on PostgreSQL, SQLite, MySQL and MariaDB.

`work.db` is the Django connection of the alias; models that live there are used as ever. Inside the block
Django itself refuses `commit()` and `rollback()`; nested `transaction.atomic()` blocks are savepoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from django.db import connections, transaction

from merchant_sdk.errors import AFTER_COMMIT, FAILED, OutcomeUnknown, TransactionMisuse
from merchant_sdk.store import Kind, Record
from merchant_sdk.stores.records import STATEMENTS, Parameters, Records, Vendor, pyformat
from merchant_sdk.stores.transaction_words import refuse_ends

_VENDORS: dict[str, Vendor] = {"postgresql": "postgresql", "sqlite": "sqlite", "mysql": "mysql"}


class DjangoTransaction:
    """See `store.Transaction`. Begins with its first claim."""

    def __init__(self, alias: str, vendor: Vendor, wait_s: float | None) -> None:
        self._alias = alias
        self._vendor = vendor
        self._wait_s = wait_s
        self._records = Records(vendor, self._execute)
        self._atomic: Any = None
        self._guard: Any = None
        self._committed = False
        self._restore = ""

    @property
    def db(self) -> Any:
        return connections[self._alias]

    def claim(self, wanted: Record) -> Record | None:
        if self._atomic is None:
            self._begin()
        return self._records.claim(wanted)

    def put(self, records: Sequence[Record]) -> None:
        self._check()
        self._records.put(records)

    def forget(self, kind: Kind, key: str) -> None:
        self._records.forget(kind, key)

    def undo_work(self) -> None:
        self._end(commit=False)

    def commit(self) -> None:
        self._check()
        try:
            self._end(commit=True)
        except Exception as error:
            if self._committed:
                raise OutcomeUnknown(AFTER_COMMIT) from error
            raise

    def rollback(self) -> None:
        # Django closes a connection that cannot be rolled back.
        with suppress(Exception):
            self._end(commit=False)

    def close(self) -> None:
        # Django keeps one connection per thread, and closes it by its own rules.
        with suppress(Exception):
            if self._restore:
                self._execute(self._restore, {})

    def _begin(self) -> None:
        connection = connections[self._alias]
        if is_inside_merchants_block(connection):
            raise TransactionMisuse(
                "a transaction is open already (ATOMIC_REQUESTS, or an atomic block around once?): the reply would "
                "leave before its commit. Take it away, or mark the view @transaction.non_atomic_requests"
            )
        outermost = not connection.in_atomic_block
        if outermost:
            _refuse_manual(connection)
            # A restart of the server leaves a dead one, which Django replaces between requests only.
            connection.close_if_unusable_or_obsolete()
            connection.ensure_connection()
            _refuse_manual(connection)
        if self._wait_s is not None and self._vendor != "postgresql":
            self._limit_waits(self._wait_s)
        self._atomic = transaction.Atomic(self._alias, savepoint=True, durable=True)
        self._atomic.__enter__()
        if outermost:
            # Before the merchant's own, of which one may raise. Not in a TestCase, which would count it.
            transaction.on_commit(self._has_committed, using=self._alias)
        self._guard = connection.execute_wrapper(_refuse_ends)
        self._guard.__enter__()
        if self._wait_s is not None and self._vendor == "postgresql":
            self._execute(f"SET LOCAL lock_timeout = {max(1, int(self._wait_s * 1000))}", {})

    def _limit_waits(self, wait_s: float) -> None:
        read, write, value = {
            "sqlite": ("PRAGMA busy_timeout", "PRAGMA busy_timeout =", max(1, int(wait_s * 1000))),
            "mysql": (
                "SELECT @@innodb_lock_wait_timeout",
                "SET SESSION innodb_lock_wait_timeout =",
                max(1, int(wait_s)),
            ),
        }[self._vendor]
        if not self._restore:  # begun anew, what is there now is ours
            self._restore = f"{write} {self._execute(read, {})[1][0][0]}"
        self._execute(f"{write} {value}", {})

    def _has_committed(self) -> None:
        self._committed = True

    def _end(self, *, commit: bool) -> None:
        atomic, self._atomic = self._atomic, None
        if atomic is None:
            return
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.__exit__(None, None, None)
        if not commit:
            transaction.set_rollback(True, using=self._alias)
        atomic.__exit__(None, None, None)

    def _check(self) -> None:
        # A database error that the work swallowed: Django would roll back at the end, without an error.
        if self._atomic is None or transaction.get_rollback(using=self._alias):
            raise TransactionMisuse(FAILED)

    def _execute(self, sql: str, parameters: Parameters) -> tuple[int, Sequence[Sequence[Any]]]:
        return _executed(self._alias, sql, parameters)


def is_inside_merchants_block(connection: Any) -> bool:
    """Whether an atomic block is open that is not one of Django's TestCase, which are nobody's to end."""
    return any(not block._from_testcase for block in connection.atomic_blocks)


def _refuse_ends(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
    refuse_ends(str(sql))
    connection = context["connection"]
    # SQLite undoes all at some errors (OR ROLLBACK, a full disk), and keeps at once what comes after it.
    if connection.vendor == "sqlite" and connection.connection is not None and not connection.connection.in_transaction:
        raise TransactionMisuse(f"this was not sent: {FAILED}")
    return execute(sql, params, many, context)


def _refuse_manual(connection: Any) -> None:
    if connection.connection is not None and not connection.get_autocommit():
        raise TransactionMisuse(
            "the connection is not in autocommit (AUTOCOMMIT, set_autocommit): Django ends no transaction there, so "
            "the reply would leave before its commit. `once` begins and ends its own"
        )


class DjangoStore:
    """See `store.Store`. `alias` is a name in DATABASES.

    The table comes with `manage.py migrate`, once "merchant_sdk.stores.django_app" is in INSTALLED_APPS.
    """

    bound_to_thread = True

    def __init__(self, alias: str = "default", *, max_writers: int = 16) -> None:
        self._alias = alias
        self.max_writers = max_writers
        vendor = connections[alias].vendor
        if vendor not in _VENDORS:
            raise ValueError(f"`once` runs on {', '.join(_VENDORS)}, not on {vendor}")
        self._vendor = _VENDORS[vendor]

    def begin(self, wait_s: float | None = None) -> DjangoTransaction:
        return DjangoTransaction(self._alias, self._vendor, wait_s)

    @contextmanager
    def reading(self) -> Iterator[Any]:
        connection = connections[self._alias]
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        try:
            with transaction.atomic(using=self._alias, durable=True):
                with connection.cursor() as cursor:
                    # After the beginning: BEGIN IMMEDIATE, which Django can be told to say, would be a write.
                    if self._vendor == "sqlite":
                        cursor.execute("PRAGMA query_only = ON")
                    for statement in STATEMENTS[self._vendor].read_only:
                        cursor.execute(statement)
                with connection.execute_wrapper(_refuse_ends):
                    yield connection
        finally:
            if self._vendor == "sqlite":
                with connection.cursor() as cursor:
                    cursor.execute("PRAGMA query_only = OFF")

    def prune(self, before: float) -> int:
        with transaction.atomic(using=self._alias):
            return Records(self._vendor, lambda sql, values: _executed(self._alias, sql, values)).prune(before)


def _executed(alias: str, sql: str, parameters: Parameters) -> tuple[int, Sequence[Sequence[Any]]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(pyformat(sql), dict(parameters) or None)
        return cursor.rowcount, cursor.fetchall() if cursor.description else ()
