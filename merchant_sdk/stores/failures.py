"""What a driver's error means for a claim. Told by the codes of the databases, whichever library raised them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from merchant_sdk.errors import MerchantError, OutcomeUnknown, StoreBusy
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
# Nobody answers, or nobody can be reached: whatever was sent last, its outcome was not heard.
_UNREACHABLE: frozenset[str | int] = frozenset(
    {
        "40003",  # PostgreSQL: statement completion unknown
        *(f"57P0{number}" for number in range(1, 6)),  # PostgreSQL: shut down, crashed, starting, database dropped
        1040,  # MySQL: too many connections
        1053,  # MySQL: server shutdown in progress
        1203,  # MySQL: max_user_connections
        1927,  # MariaDB: connection was killed
        2002,  # MySQL: no socket
        2003,  # MySQL: no host
        2006,  # MySQL: server has gone away
        2013,  # MySQL: lost connection
        2055,  # MySQL: lost connection, with the system's error
        14,  # SQLite: SQLITE_CANTOPEN
    }
)
_UNREACHABLE_CLASSES = ("08", "53")  # SQLSTATE: connection exception, insufficient resources
# PEP 249's names for what is wrong with the connection and not with a statement; a server gives them a code.
_OF_CONNECTIONS = frozenset({"OperationalError", "InterfaceError"})

# What stands behind the server's first sentence may be data.
_DATA = re.compile(r"\n(?:DETAIL|HINT|CONTEXT|LINE \d+):.*", re.S)
# A password is in no message of a driver's, unless an address was split at the wrong place: then it may be a user, a
# host or a port.
_SECRETS = re.compile(
    r"(?<=://)[^\s/]*@|[^\s'\"@]+@(?=[^\s'\"])|(?<=passw)(?:or)?d\s*=\s*(?:'[^']*'|\S+)"
    r"|(?<=integer value )\"[^\"]*\"|(?<=port number: )\"[^\"]*\"",
    re.I,
)
_LONGEST = 500
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_DEEPEST = 5


class Translation:
    """A `with` block whose driver's errors are told anew. One for all, since a generator for each claim would cost as
    much as the rest of its Python."""

    def __init__(self, told: Callable[[Exception], MerchantError | None]) -> None:
        self._told = told

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        told = self._told(error) if isinstance(error, Exception) else None
        if told is not None:
            raise told from error


def _told_of_claim(error: Exception) -> MerchantError | None:
    codes = _codes(error)
    if codes & _CONTENTION:
        return Contention("another transaction was given precedence")
    return StoreBusy("the database stayed locked; nothing was begun") if codes & _BUSY else None


def _told_of_entry(error: Exception) -> MerchantError | None:
    lost = unreachable(error)
    return StoreBusy("the database cannot be reached, or has no connection free; nothing was begun") if lost else None


def _told_of_commit(error: Exception) -> MerchantError | None:
    lost = unreachable(error)
    return OutcomeUnknown("the connection was lost at the commit: whether it was kept is not known") if lost else None


claiming = Translation(_told_of_claim)
"""Turns what a driver raises into Contention or StoreBusy, where it is one of them."""
entering = Translation(_told_of_entry)
"""Around what comes before any work: a database that cannot be reached is StoreBusy, since nothing was begun."""
committing = Translation(_told_of_commit)
"""Around the commit: a connection that is lost there is OutcomeUnknown."""


def unreachable(error: BaseException) -> bool:
    """Whether a driver says that its server does not answer, rather than what the server said."""
    if isinstance(error, MerchantError):
        return False
    chain = list(_chain(error))
    # Of a pool, of the system, or of SQLAlchemy, which knows its drivers.
    if any(
        isinstance(each, OSError) or type(each).__name__ == "TimeoutError" or getattr(each, "connection_invalidated", 0)
        for each in chain
    ):
        return True
    names = {base.__name__ for each in chain for base in type(each).__mro__}
    if not names & {*_OF_CONNECTIONS, "DatabaseError"} and not any(hasattr(each, "sqlstate") for each in chain):
        return False  # no driver's
    codes = {code for code in _codes(error) if isinstance(code, int) or _SQLSTATE.fullmatch(code)}
    if codes:
        return any(code in _UNREACHABLE or _is_of(code, _UNREACHABLE_CLASSES) for code in codes)
    return bool(names & _OF_CONNECTIONS)


def in_drivers_words(error: BaseException) -> str:
    """What was said first of all, by the driver or its server, as one line for a log: no statement, no password."""
    said = list(_chain(error))[-1]
    words = _SECRETS.sub("…", _DATA.sub("", str(said)))
    return f"{type(said).__name__}: {' '.join(words.split())[:_LONGEST]}"


def _is_of(code: str | int, classes: tuple[str, ...]) -> bool:
    return isinstance(code, str) and code.startswith(classes)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_DEEPEST):
        if error is None:
            return
        yield error
        error = getattr(error, "orig", None) or error.__cause__


def _codes(error: BaseException) -> set[str | int]:
    """The database's own codes: SQLAlchemy keeps the driver's error in `orig`, Django in `__cause__`."""
    codes: set[str | int] = set()
    for each in _chain(error):
        told = [getattr(each, name, None) for name in ("sqlstate", "pgcode", "sqlite_errorcode")]
        # PyMySQL, mysqlclient and MariaDB Connector put the number first.
        codes.update(code for code in (*told, *each.args[:1]) if type(code) in (int, str) and code)
    return codes
