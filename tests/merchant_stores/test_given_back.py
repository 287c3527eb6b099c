"""A pool gets every connection back, whatever became of the first statement on it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from merchant_sdk.stores.postgres import PsycopgStore


class Lender:
    """A pool of new connections that counts what is out. Their first statement raises `fault`."""

    def __init__(self, conninfo: str, fault: BaseException) -> None:
        self.out: list[psycopg.Connection[Any]] = []
        self._conninfo = conninfo
        self._fault = fault

    def getconn(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._conninfo)
        connection.__dict__["execute"] = self._raise
        self.out.append(connection)
        return connection

    def putconn(self, conn: psycopg.Connection[Any]) -> None:
        self.out.remove(conn)
        conn.close()

    def _raise(self, *_: object, **__: object) -> None:
        raise self._fault


FAULTS: list[BaseException] = [
    psycopg.errors.ReadOnlySqlTransaction("of a hot standby"),
    psycopg.errors.FeatureNotSupported("of a proxy"),
    psycopg.ProgrammingError("of the client"),
    psycopg.OperationalError("of the connection"),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("use", ["read", "prune", "table"])
def test_k7_11_a_connection_whose_first_statement_failed_goes_back_to_its_pool(
    postgres_database: str, fault: BaseException, use: str
) -> None:
    """K7-11: or a pool of ten is empty after ten of them."""
    pool = Lender(postgres_database, fault)
    with pytest.raises(type(fault)):  # noqa: PT012 (three ways to the same statement)
        if use == "table":
            PsycopgStore(pool, create_table=True)
        elif use == "prune":
            PsycopgStore(pool).prune(0.0)
        else:
            with PsycopgStore(pool).reading():
                raise AssertionError
    assert pool.out == []
