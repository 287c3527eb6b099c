"""What became of a call, as a status endpoint answers it (5.4): `committed`, `in_progress` or `void`.

`void` binds the shop. Before it is said, a tombstone is committed under the key, where the call itself would
have to claim: a late arrival finds it and is refused. A call that is running holds the key, so the tombstone
either waits for its end and then sees what it left, or gives up and says `in_progress`.

Where records were pruned, a key without one may be that of an order that exists. It is `void` only if its call was
first sent after what was pruned; else it is `unknown`, which binds nobody.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from merchant_sdk.deciding import finished
from merchant_sdk.errors import StoreBusy
from merchant_sdk.keys import CallKey
from merchant_sdk.reply import to_json
from merchant_sdk.store import HORIZON, VOID, Contention, Record, Store
from merchant_sdk.stores.failures import committing
from merchant_sdk.work import CLAIM_TRIES

CLOCKS_DIFFER_S = 3600.0
"""How much later by the gateway's clock than by ours a call may have been sent. The signature allows five minutes;
the rest is for the gateway's own clocks, which may be several."""

_TOMBSTONE = to_json(
    {"code": VOID, "message": "The shop was asked about this order and ruled it out before it came.", "status": 410}
)


@dataclass(frozen=True, slots=True)
class CallStatus:
    """`state`, and for `committed` the stored reply as JSON text, the bytes the caller should have had."""

    state: Literal["committed", "in_progress", "void", "unknown"]
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


def call_status(
    store: Store, key: str, *, now: Callable[[], float], wait_s: float = 0.25, first_at: float | None = None
) -> CallStatus:
    """What became of the call that was sent under `key` (the gateway's `Idempotency-Key`).

    A call that was refused is `void` too: nothing was done, and its refusal is remembered. A run that holds
    the key is given about `wait_s` seconds to end. `first_at` (Unix seconds) is when it was sent first, as the
    question says; without it no key is `void` once records were pruned. Raises ValueError for a text that is no key.
    """
    wanted = Record("call", CallKey(key, "?").text, "", "refused", _TOMBSTONE, now())
    for _ in range(CLAIM_TRIES):
        try:
            return _settle(store, wanted, wait_s, first_at)
        except Contention:
            continue
        except StoreBusy:
            break
    return CallStatus("in_progress")


def _settle(store: Store, wanted: Record, wait_s: float, first_at: float | None) -> CallStatus:
    transaction = store.begin(wait_s)
    try:
        found = transaction.claim(wanted)
        if found is not None:
            return _judged(found)
        # Claimed, not just read: a prune that dropped this key's record has said so before the claim above could
        # find nothing, and under a snapshot only a claim sees it (or is told to begin anew).
        horizon = transaction.claim(HORIZON)
        if horizon is not None and horizon.at > HORIZON.at and not _sent_after(horizon.at, first_at):
            return CallStatus("unknown")
        transaction.put([wanted])
        with committing:
            transaction.commit()
        return CallStatus("void")
    finally:
        try:
            transaction.rollback()
        finally:  # also where a cancelled task ends
            transaction.close()


def _sent_after(pruned_before: float, first_at: float | None) -> bool:
    return first_at is not None and first_at >= pruned_before + CLOCKS_DIFFER_S


def _judged(record: Record) -> CallStatus:
    # Void binds the shop: only what says so is.
    return CallStatus("void") if record.outcome == "refused" else CallStatus("committed", finished(record).reply)
