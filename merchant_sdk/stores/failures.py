"""What a driver's error means for a claim. Told by the codes of the databases, whichever library raised them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from merchant_sdk.errors import StoreBusy
from merchant_sdk.store import Contention

# The transaction was undone, or must be, in favour of another: claim again.
_CONTENTION: frozenset[str | int] = frozenset(
    {
        "40001",  # PostgreSQL: could not serialize access
        "40P01",  # PostgreSQL: deadlock detected
        1213,  # InnoDB: deadlock found
        1020,  # MariaDB: record has changed since last read (innodb_snapshot_isolation)
        517,  # SQLite: the snapshot is too old to write on (SQLITE_BUSY_SNAPSHOT)
    }
)
# The wait for another was cut short by the database's own limit: nothing was begun.
_BUSY: frozenset[str | int] = frozenset(
    {
        "55P03",  # PostgreSQL: lock_timeout
        "57014",  # PostgreSQL: statement_timeout, or cancelled
        1205,  # InnoDB: lock wait timeout exceeded
        5,  # SQLite: SQLITE_BUSY
        261,  # SQLite: SQLITE_BUSY_RECOVERY
        6,  # SQLite: SQLITE_LOCKED
    }
)


_DEEPEST = 5


@contextmanager
def claiming() -> Iterator[None]:
    """Turn what a driver raises into Contention or StoreBusy, where it is one of them."""
    try:
        yield
    except Exception as error:
        codes = _codes(error)
        if codes & _CONTENTION:
            raise Contention("another transaction was given precedence") from error
        if codes & _BUSY:
            raise StoreBusy("the database stayed locked; nothing was begun") from error
        raise


def _codes(error: BaseException | None) -> set[str | int]:
    """The database's own codes: SQLAlchemy keeps the driver's error in `orig`, Django in `__cause__`."""
    codes: set[str | int] = set()
    for _ in range(_DEEPEST):
        if error is None:
            break
        told = [getattr(error, name, None) for name in ("sqlstate", "pgcode", "sqlite_errorcode")]
        # PyMySQL, mysqlclient and MariaDB Connector put the number first.
        codes.update(code for code in (*told, *error.args[:1]) if type(code) in (int, str) and code)
        error = getattr(error, "orig", None) or error.__cause__
    return codes
