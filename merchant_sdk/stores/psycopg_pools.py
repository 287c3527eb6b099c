"""Psycopg connections for one transaction each: the merchant's pool or our own; in autocommit while they are ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import psycopg

from merchant_sdk.errors import TransactionMisuse
from merchant_sdk.stores.postgres_wire import IDLE, UNKNOWN

Connection = psycopg.Connection[Any]

_AT_REST = (IDLE, UNKNOWN)


class Pool(Protocol):
    """What is used of `psycopg_pool.ConnectionPool`."""

    def getconn(self) -> Connection:
        """A connection outside any transaction."""

    def putconn(self, conn: Connection) -> None:
        """Take it back."""


class IdleConnections:
    """As many connections as there are transactions at a time, kept for the next. A fork starts anew."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        # Without a lock, which a fork would find held for ever: `pop` and `append` are whole in themselves.
        self._idle: list[Connection] = []
        self._pid = os.getpid()

    def getconn(self) -> Connection:
        if self._pid != os.getpid():
            # The parent's sockets: closing them here would end its sessions.
            self._idle, self._pid = [], os.getpid()
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if not connection.closed:
                return connection
        return self._connect()

    def putconn(self, conn: Connection) -> None:
        if conn.pgconn.transaction_status != IDLE:  # a closed one is UNKNOWN
            conn.close()
            return
        self._idle.append(conn)

    def close(self) -> None:
        """Close what is idle."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


def taken(pool: Pool) -> tuple[Connection, bool]:
    """A connection of the pool's in autocommit, and how it was. Raises TransactionMisuse if it is not idle."""
    connection = pool.getconn()
    if connection.pgconn.transaction_status not in _AT_REST:
        pool.putconn(connection)
        raise TransactionMisuse("a transaction is open already on the connection that the pool gave: it is not ours")
    autocommit = connection.autocommit
    if not autocommit and not connection.closed:
        # psycopg's own BEGIN would be a message more, and would hide ours.
        connection.autocommit = True
    return connection, autocommit


def put_back(pool: Pool, connection: Connection, autocommit: bool) -> None:
    """As it was: whoever shares the pool counts on its own transactions. Never raises."""
    try:
        if not autocommit and not connection.closed:
            connection.autocommit = False
    except psycopg.Error:
        pass
    finally:
        with suppress(psycopg.Error):
            pool.putconn(connection)
