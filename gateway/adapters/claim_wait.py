"""How many servers must hold a claim before anything is sent, and what Redis says about it (4.14).

A claim that only one server holds is forgotten with it; the call could then be sent twice. A settle may be lost: the
claim under it then lapses to "outcome unknown", and nothing is sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from gateway.adapters.redis_commands import Argument, LedgerUnreachable
from gateway.core.errors import LedgerUnavailable

_log = logging.getLogger("oncegate.ledger")


@dataclass(frozen=True, slots=True)
class ClaimWait:
    """`replicas`: how many must have the claim; `fsync`: on disk, there and at the server itself (Redis 7.2); what is
    not confirmed within `timeout_s` is not confirmed."""

    replicas: int
    fsync: bool
    timeout_s: float

    @property
    def command(self) -> tuple[Argument, ...]:
        """WAIT or WAITAOF, to be sent behind the claim on its own connection."""
        timeout_ms = max(1, int(self.timeout_s * 1000))  # 0 would be for ever
        return ("WAITAOF", 1, self.replicas, timeout_ms) if self.fsync else ("WAIT", self.replicas, timeout_ms)

    def missing(self, reply: object) -> str:
        """What the reply lacks, in words; empty if nothing. Redis answers with a count also when the time is up."""
        match reply:
            case int(replicas) if not self.fsync:
                local = 1
            case [int(local), int(replicas)] if self.fsync:
                pass
            case _:
                return f"{'WAITAOF' if self.fsync else 'WAIT'} was not answered with a count"
        lacking = []
        if self.fsync and local < 1:
            lacking.append("the server had not synced it to disk")
        if replicas < self.replicas:
            had = "had it on disk" if self.fsync else "had it"
            lacking.append(f"{replicas} of {self.replicas} replicas {had}")
        return f"after {self.timeout_s:g} s {' and '.join(lacking)}" if lacking else ""

    def check(self, reply: object) -> None:
        """Raises LedgerUnavailable where too few have it; it stands all the same, at the server at least."""
        missing = self.missing(reply)
        if missing:
            _log.warning("what was written was not confirmed", extra={"because": missing})
            raise LedgerUnavailable(f"the ledger did not confirm it: {missing}; nothing was sent", may_have_run=True)


async def replies(asked: Awaitable[Any]) -> Any:
    """The replies to a write and to the wait behind it.

    Where one is refused nobody says which, and a server that is demoted meanwhile refuses the wait alone: what was
    written may stand. Raises LedgerUnavailable.
    """
    try:
        return await asked
    except (LedgerUnreachable, ResponseError) as cause:
        if isinstance(cause, ResponseError):
            _log.error("a write was not confirmed", extra={"because": str(cause)})
        raise LedgerUnavailable(may_have_run=True) from cause
