"""What became of a call, as a status endpoint answers it (5.4): `committed`, `in_progress` or `void`.

`void` binds the shop. Before it is said, a tombstone is committed under the key, where the call itself would
have to claim: a late arrival finds it and is refused. A call that is running holds the key, so the tombstone
either waits for its end and then sees what it left, or gives up and says `in_progress`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from merchant_sdk.errors import StoreBusy
from merchant_sdk.keys import CallKey
from merchant_sdk.once import CLAIM_TRIES, finished
from merchant_sdk.reply import to_json
from merchant_sdk.store import VOID, Contention, Record, Store

_TOMBSTONE = to_json(
    {"code": VOID, "message": "The shop was asked about this order and ruled it out before it came.", "status": 410}
)


@dataclass(frozen=True, slots=True)
class CallStatus:
    """`state`, and for `committed` the stored reply as JSON text, the bytes the caller should have had."""

    state: Literal["committed", "in_progress", "void"]
    body: str | None = None

    @property
    def result(self) -> Any:
        """The stored reply as JSON values; None without one."""
        return None if self.body is None else json.loads(self.body)

    def to_json(self) -> str:
        """The body of the endpoint's answer: `{"status", "result"?}`, `status` first."""
        if self.body is None:
            return to_json({"status": self.state})
        return f'{{"status":"{self.state}","result":{self.body}}}'


def call_status(store: Store, key: str, *, now: Callable[[], float], wait_s: float = 0.25) -> CallStatus:
    """What became of the call that was sent under `key` (the gateway's `Idempotency-Key`).

    A call that was refused is `void` too: nothing was done, and its refusal is remembered. A run that holds
    the key is given about `wait_s` seconds to end. Raises ValueError for a text that is no key.
    """
    wanted = Record("call", CallKey(key, "?").text, "", "refused", _TOMBSTONE, now())
    for _ in range(CLAIM_TRIES):
        try:
            return _judged(_settle(store, wanted, wait_s))
        except Contention:
            continue
        except StoreBusy:
            break
    return CallStatus("in_progress")


def _settle(store: Store, wanted: Record, wait_s: float) -> Record:
    transaction = store.begin(wait_s)
    try:
        found = transaction.claim(wanted)
        if found is None:
            transaction.put([wanted])
            transaction.commit()
        return found or wanted
    finally:
        transaction.rollback()
        transaction.close()


def _judged(record: Record) -> CallStatus:
    return CallStatus("committed", finished(record).reply) if record.outcome == "succeeded" else CallStatus("void")
