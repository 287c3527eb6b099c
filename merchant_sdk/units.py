"""Which transactions one request has open, so that its reply can be held back until they are over.

A request's middleware opens a `Request`; whatever begins a transaction below it says so with `opened`. That works
across threads and tasks that inherit the context, as those of Starlette, FastAPI and asyncio do.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any

from merchant_sdk.errors import ReplyBeforeCommit

_OUR_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})
_PARTS_OF_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@dataclass(slots=True)
class Unit:
    """One transaction. `where` is the merchant's line that began it; `is_open` asks the connection itself."""

    what: str
    where: str
    is_open: Callable[[], bool]
    wrote: bool = False
    answered: bool = False
    """Whether the reply was made while it was open."""


@dataclass(slots=True)
class Request:
    """What one request has begun."""

    units: dict[int, Unit] = field(default_factory=dict)
    lost: list[Unit] = field(default_factory=list)

    def answering(self) -> None:
        """The reply is being made: what is undone after this was told to the customer as done."""
        for unit in list(self.units.values()):
            unit.answered = True

    def check(self, *, success: bool) -> None:
        """The reply is about to leave. Raises ReplyBeforeCommit, which names the line."""
        still = [unit for unit in list(self.units.values()) if unit.is_open()]
        if still:
            told = "; ".join(f"{unit.what} begun at {unit.where}" for unit in still)
            raise ReplyBeforeCommit(
                f"the reply was ready while a transaction was open: {told}. Commit before the reply is returned "
                "(`with transaction(connection):` does), or roll back if nothing is to be kept"
            )
        if success and self.lost:
            told = "; ".join(f"{unit.what} begun at {unit.where}" for unit in self.lost)
            raise ReplyBeforeCommit(
                f"the reply says that it was done, but what was written was rolled back after it was made: {told}. "
                "Commit before the reply is returned"
            )


_request: ContextVar[Request | None] = ContextVar("merchant_sdk_request", default=None)


@contextmanager
def request() -> Iterator[Request]:
    """Everything that begins inside belongs to this request."""
    made = Request()
    token = _request.set(made)
    try:
        yield made
    finally:
        _request.reset(token)


def opened(what: str, is_open: Callable[[], bool], *, key: object) -> None:
    """A transaction was begun, by the merchant's line nearest on the stack. Nothing happens outside a request."""
    inside = _request.get()
    if inside is not None:
        inside.units[id(key)] = Unit(what, merchants_line(), is_open)


def note(unit: Unit) -> None:
    """A transaction that an integration found by itself."""
    inside = _request.get()
    if inside is not None:
        inside.units[id(unit)] = unit


def wrote(key: object) -> None:
    """Something was written in it."""
    inside = _request.get()
    if inside is not None and id(key) in inside.units:
        inside.units[id(key)].wrote = True


def ended(key: object, *, committed: bool) -> None:
    """It is over. One that was written in, was open when the reply was made and did not commit is remembered."""
    inside = _request.get()
    unit = inside.units.pop(id(key), None) if inside is not None else None
    if inside is not None and unit is not None and unit.answered and unit.wrote and not committed:
        inside.lost.append(unit)


def watch(connection: Any) -> Any:
    """Hold this request's reply back while `connection` is inside a transaction; returns the connection.

    For a sqlite3 or psycopg connection, a SQLAlchemy Session or Connection (also async), or anything else with
    `in_transaction`. Call it where the connection is taken. Raises TypeError for what cannot be asked.
    """
    probe = _probe(connection)
    opened(f"a transaction of {type(connection).__name__}", probe, key=connection)
    return connection


class transaction:  # noqa: N801  (used like a function: `with transaction(connection):`)
    """The block's work on `connection`, committed at its end and rolled back if it raises; sync or async.

    The same connections as `watch`. A failing commit raises what the database raised.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._begun = False

    def __enter__(self) -> Any:
        self._begun = True
        opened(f"a transaction of {type(self._connection).__name__}", lambda: self._begun, key=self)
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        done = False
        try:
            if error is None:
                self._connection.commit()
                done = True
        finally:
            try:
                if not done:
                    self._connection.rollback()
            finally:
                self._over(done)

    async def __aenter__(self) -> Any:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        done = False
        try:
            if error is None:
                await self._connection.commit()
                done = True
        finally:
            try:
                if not done:
                    await self._connection.rollback()
            finally:
                self._over(done)

    def _over(self, committed: bool) -> None:
        self._begun = False
        ended(self, committed=committed)


def merchants_line() -> str:
    """`file:line in function` of the innermost frame that is neither a library's nor ours."""
    for frame in _frames():
        file = frame.f_code.co_filename
        if not _is_library(file):
            return f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
    return "a line that is not known"


def _is_library(file: str) -> bool:
    if file.startswith(("<", _OUR_FOLDER)):
        return True
    return any(part in file for part in _PARTS_OF_LIBRARIES) or file.startswith(_LIBRARIES)


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
    # SQLAlchemy's async connections run in a greenlet: the merchant's line is on the stack of its parent.
    greenlet = sys.modules.get("greenlet")
    parent = greenlet.getcurrent().parent if greenlet is not None else None
    while parent is not None:
        frame = parent.gr_frame
        while frame is not None:
            yield frame
            frame = frame.f_back
        parent = parent.parent


def _probe(connection: Any) -> Callable[[], bool]:
    asked = getattr(connection, "in_transaction", None)
    if callable(asked):
        return lambda: bool(connection.in_transaction())
    if isinstance(asked, bool):
        return lambda: _plainly(connection)
    info = getattr(connection, "info", None)
    if hasattr(info, "transaction_status"):
        return lambda: not connection.closed and connection.info.transaction_status.name != "IDLE"
    raise TypeError(f"a {type(connection).__name__} cannot be asked whether it is inside a transaction")


def _plainly(connection: Any) -> bool:
    try:
        return bool(connection.in_transaction)
    except sqlite3.ProgrammingError:  # closed, which rolls back
        return False
