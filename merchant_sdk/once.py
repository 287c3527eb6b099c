"""Do it once: run, replay or refuse, decided inside the merchant's own transaction (semantics 6).

    with once(store, key, now=time.time) as work:
        if not work.done:
            ...insert the order through work.db...
            work.reply({"order_id": "O-1"})
    return work.answer.result

Leaving the block commits the work and its reply together; an exception rolls both back. `work.answer` cannot
be read before that, so a reply cannot leave before its commit. After `done` nothing can be written.

Entering claims the key *before* the work runs, and whoever else claims it waits until this block ends: a loser
has charged no card. Two keys meet here. The *call key* is the gateway's: the same key is the same call. A
*request key* is the purchase: `work.bind(request_key)` finds the same purchase made by another call. Both are
written with the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from merchant_sdk.keys import CallKey, RequestKey
from merchant_sdk.reply import to_json
from merchant_sdk.store import Store
from merchant_sdk.work import Work


def once(
    store: Store,
    key: CallKey | RequestKey,
    *,
    now: Callable[[], float],
    reply: Any = None,
    expect: RequestKey | None = None,
) -> Work:
    """Run the block's work once for this key. `now` gives Unix seconds.

    `reply` is for a shop that knows its answer beforehand (an order number of its own making): it is written
    with the claim and saves the statement that `work.reply(...)` costs. `expect` is the purchase that the work will be
    bound to, where it is known beforehand: `work.bind(...)` then costs no round trip on PostgreSQL through psycopg.

    Entering raises StoreBusy (nothing was begun), KeyConflict, TokenRefused, or the Refused that this call
    was answered with before. Leaving raises what the commit raised; OutcomeUnknown if the connection was lost at
    it, or a hook after it raised. A Refused raised inside is remembered with a call key, never with a request key.
    Raises TypeError for arguments of other kinds.
    """
    if not hasattr(store, "begin"):
        raise TypeError(
            f"once takes a store of merchant_sdk.stores, not {type(store).__name__}"
            + (": `async with once_async(...)` is for it" if hasattr(store, "sync") else "")
        )
    if not isinstance(key, (CallKey, RequestKey)):
        raise TypeError(
            f"once takes the gateway's key for the call (call_key()) or a purchase's (request_key(...), given_key, "
            f"redeem), not {type(key).__name__}"
        )
    if not callable(now):
        raise TypeError("now is a function that gives Unix seconds: now=time.time, without brackets")
    if expect is not None and not isinstance(expect, RequestKey):
        raise TypeError(f"expect is a purchase: request_key(...), given_key or redeem, not {type(expect).__name__}")
    return Work(store, key, now, None if reply is None else to_json(reply), expect)
