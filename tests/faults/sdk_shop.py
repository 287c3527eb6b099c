"""A shop that is written with the SDK: `once` around each order, `call_status` behind its status endpoint.

Its database is simulated: one transaction holds a key, whoever else wants it is told that it is busy and comes again, as a
server's lock has it wait. What is not committed when a work ends otherwise was never there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final

from merchant_sdk.call_status import CallStatus, call_status
from merchant_sdk.errors import KeyConflict, Refused, StoreBusy
from merchant_sdk.once import once
from merchant_sdk.store import VOID, Record
from merchant_sdk.wire import parse_call
from merchant_sdk.work import Work

Row = tuple[str, str]
_CRASH: Final = ConnectionAbortedError("the worker ended inside the work")


@dataclass
class Transaction:
    """See merchant_sdk's `store.Transaction`. `db` collects what the commit does."""

    store: Database
    db: list[Callable[[], None]] = field(default_factory=list)
    held: set[Row] = field(default_factory=set)
    late: dict[Row, Record] = field(default_factory=dict)

    def claim(self, wanted: Record) -> Record | None:
        row = (wanted.kind, wanted.key)
        if self.store.holders.setdefault(row, self) is not self:
            raise StoreBusy("another holds this key")
        self.held.add(row)
        return self.store.rows.get(row)

    def put(self, records: Sequence[Record]) -> None:
        self.late.update({(record.kind, record.key): record for record in records})
        assert self.late.keys() <= self.held, "written without a claim"

    def forget(self, kind: str, key: str) -> None:
        raise NotImplementedError("no order is cancelled here")

    def undo_work(self) -> None:
        self.db.clear()
        self.late.clear()
        self._release()

    def commit(self) -> None:
        for act in self.db:
            act()
        self.store.rows.update(self.late)
        self._release()

    def rollback(self) -> None:
        self.undo_work()

    def close(self) -> None:
        assert not self.held, "closed with its keys held"

    def _release(self) -> None:
        for row in self.held:
            del self.store.holders[row]
        self.held.clear()


class Database:
    """See merchant_sdk's `store.Store`."""

    max_writers = 16

    def __init__(self) -> None:
        self.rows: dict[Row, Record] = {}
        self.holders: dict[Row, Transaction] = {}

    def begin(self, wait_s: float | None = None) -> Transaction:
        return Transaction(self)

    def reading(self) -> AbstractContextManager[Any]:
        raise NotImplementedError("no tool only reads here")

    def prune(self, before: float) -> int:
        raise NotImplementedError("records are kept for as long as a history lasts")


class Ruled(Exception):
    """The call was refused before; `void` says by its status endpoint."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.code)
        self.void = refused.code == VOID
        self.status = refused.status


class SdkShop:
    """One shop; `now` gives seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._database = Database()
        self._inside: dict[str, Work] = {}

    def enter(self, key: str, body: bytes) -> Any:
        """The stored result; None: the work has begun, and has to be ended. Raises Ruled, and StoreBusy."""
        work = once(self._database, parse_call(key, body).call_key(), now=self._now)
        try:
            # A context of its own: two requests are not one inside the other.
            Context().run(work.__enter__)
        except KeyConflict:
            raise
        except Refused as refused:
            raise Ruled(refused) from None
        if not work.done:
            self._inside[key] = work
            return None
        work.__exit__(None, None, None)
        return work.answer.result

    def done(self, key: str, order: Callable[[], None], result: Any) -> None:
        """The work ends with an order and its reply, both or neither."""
        work = self._inside.pop(key)
        work.db.append(order)
        work.reply(result)
        work.__exit__(None, None, None)

    def refused(self, key: str, status: int) -> None:
        """The work ends with a no."""
        no = Refused("no", "No.", status=status)
        self._inside.pop(key).__exit__(Refused, no, None)

    def crashed(self, key: str) -> None:
        """The work ends with nothing."""
        self._inside.pop(key).__exit__(type(_CRASH), _CRASH, None)

    def works(self, key: str) -> bool:
        return key in self._inside

    def knows(self, key: str) -> bool:
        """Whether a late request under this key can no longer become an order."""
        return ("call", key) in self._database.rows

    def status(self, key: str, first_at: float | None) -> CallStatus:
        """What its status endpoint says, which binds it (5.4)."""
        return call_status(self._database, key, now=self._now, first_at=first_at)
