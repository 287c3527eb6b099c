"""The port behind `once`: what a database has to offer. `stores/` holds one file per database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Kind = Literal["call", "request"]
Outcome = Literal["succeeded", "refused"]


@dataclass(frozen=True, slots=True)
class Record:
    """What was committed under one key. `reply` is JSON text, `at` when, in Unix seconds."""

    kind: Kind
    key: str
    fingerprint: str
    outcome: Outcome
    reply: str
    at: float


class Transaction(Protocol):
    """One open transaction, shared by the merchant's writes and the records. Used once, then closed."""

    @property
    def db(self) -> Any:
        """The merchant's connection. It cannot begin, commit or roll back."""

    def claim(self, kind: Kind, key: str) -> Record | None:
        """What is committed under this key. Whoever claims the same key meanwhile waits for our end."""

    def put(self, record: Record) -> None:
        """Write the record in place of what its key held."""

    def forget(self, kind: Kind, key: str) -> None:
        """Remove the record of this key, if there is one."""

    def undo_work(self) -> None:
        """Undo every write since the beginning; the transaction goes on."""

    def commit(self) -> None:
        """Make it durable. On any error nothing is stored."""

    def rollback(self) -> None:
        """Undo everything. Never raises."""

    def close(self) -> None:
        """Give the connection back. Never raises."""


class Store(Protocol):
    """A database that can hold records beside the merchant's own tables."""

    max_writers: int
    """How many transactions one process may usefully hold at a time."""

    def begin(self) -> Transaction:
        """Open a transaction, waiting for the lock if need be. Raises StoreBusy: nothing was begun."""

    def reading(self) -> AbstractContextManager[Any]:
        """A connection for reads only, in one consistent snapshot."""

    def prune(self, before: float) -> int:
        """Drop records committed before this Unix time; how many. Keep 30 days at least (4.13)."""
