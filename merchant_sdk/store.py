"""The port behind `once`: what a database has to offer. `stores/` holds one file per way to reach one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol

from merchant_sdk.errors import MerchantError

Kind = Literal["call", "request"]
Outcome = Literal["succeeded", "refused"]

VOID = "void"
"""Code of the refusal that `call_status` lays under a key that must never run."""

UNFINISHED = ""
"""The reply of a claim whose work has not ended. It is only ever seen inside its own transaction; found
committed, it says that somebody ended the transaction inside the work."""


class Record(NamedTuple):
    """What was committed under one key. `reply` is JSON text, `at` when, in Unix seconds.

    An empty `fingerprint` stands for every request: only a tombstone has it.
    """

    kind: Kind
    key: str
    fingerprint: str
    outcome: Outcome
    reply: str
    at: float


HORIZON = Record("call", "", "", "refused", UNFINISHED, 1.0)
"""Where a store says how far back its records were pruned: a record of its own, under a key that no call has, whose
`at` is the latest `before` that dropped something. It is never dropped itself."""


class Contention(MerchantError):
    """The database undid this transaction for the sake of another: a deadlock, or a stale snapshot.

    Never leaves `once`: it undoes its work, claims again and then sees what the other committed.
    """


class Transaction(Protocol):
    """One open transaction, shared by the merchant's writes and the records. Used once, then closed."""

    @property
    def db(self) -> Any:
        """The merchant's connection or session. It cannot begin, commit or roll back."""

    def claim(self, wanted: Record) -> Record | None:
        """What is committed under this key; None: nothing, and `wanted` now holds the key.

        It is held by `wanted` itself or by an UNFINISHED mark, for `put` to write over. Whoever
        claims the same key meanwhile waits for our end. Raises StoreBusy or Contention; both leave the
        transaction good for `undo_work` and `rollback` only.
        """

    def put(self, records: Sequence[Record]) -> None:
        """Write records in place of what their keys held. All are claimed in this transaction."""

    def forget(self, kind: Kind, key: str) -> None:
        """Remove the record of this key, if there is one."""

    def undo_work(self) -> None:
        """Undo every write since the beginning. Claims may be lost with it: claim again before `put`."""

    def commit(self) -> None:
        """Make it durable. On any error nothing is stored, unless the connection was lost: then it is not known."""

    def rollback(self) -> None:
        """Undo everything. Never raises."""

    def close(self) -> None:
        """Give the connection back. Never raises."""


class Store(Protocol):
    """A database that can hold records beside the merchant's own tables."""

    max_writers: int
    """How many transactions one process may usefully hold at a time.

    A store may also say `expects = True`: its transactions have `expect(record)`, called before the first claim with
    what will be claimed next, so that it can go with the first. It is no claim: one follows, or all is rolled back.

    A store may also say `bound_to_thread = True`: its connection is found by the thread, so that what an async tool
    wrote on its loop would be outside the transaction, and a Shop takes no async tools.
    """

    def begin(self, wait_s: float | None = None) -> Transaction:
        """Open a transaction. Its claims wait for others at most about `wait_s`; None: as long as the database
        is configured to. Raises StoreBusy: nothing was begun."""

    def reading(self) -> AbstractContextManager[Any]:
        """A connection for reads only, in one consistent snapshot."""

    def prune(self, before: float) -> int:
        """Drop records committed before this Unix time; how many. Keep 30 days at least (4.13).

        What was dropped is remembered in HORIZON, in the same transaction: `call_status` must not take a key whose
        record is gone for one that never came (5.4).
        """


class AsyncStore(Protocol):
    """A store whose connections live on an event loop."""

    sync: Store
    """The same store for blocking code, which has to be run by `run`."""

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """The result of blocking code; the loop goes on wherever it waits for the database."""

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        """The result of an awaitable, for code inside `run`."""
