"""What a tool is handed besides its arguments: the open work of its call, or a connection that only reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from merchant_sdk.deciding import Answer
from merchant_sdk.keys import RequestKey
from merchant_sdk.store import AsyncStore
from merchant_sdk.wire import Call
from merchant_sdk.work import Work


@dataclass(frozen=True, slots=True)
class Read:
    """First parameter of a read-only tool: a connection that cannot write, and the call."""

    db: Any
    call: Call
    at: float


class CallWork:
    """First parameter of a side-effecting tool: the open work of one call.

    The function *returns* its reply; the block around it commits and only then is the reply sent.
    """

    def __init__(self, work: Work, call: Call, on_loop: AsyncStore | None = None) -> None:
        self._work = work
        self._on_loop = on_loop
        self.call = call

    @property
    def db(self) -> Any:
        """The connection inside the transaction."""
        return self._work.db

    @property
    def at(self) -> float:
        """Unix seconds; the time the stored reply will carry."""
        return self._work.at

    @property
    def request_key(self) -> RequestKey | None:
        """The purchase derived by the tool's `key`."""
        return self._work.request_key

    @property
    def answer(self) -> Answer:
        """Raises ReplyBeforeCommit: inside the function the transaction is open."""
        return self._work.answer

    def forget(self, request_key: str) -> Any:
        """See `Work.forget`. Awaited where the shop's store is async."""
        if self._on_loop is None:
            return self._work.forget(request_key)
        return self._on_loop.run(self._work.forget, request_key)
