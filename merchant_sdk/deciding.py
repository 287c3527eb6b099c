"""What is found under a key decides: run, replay or refuse. Pure; `once` asks and acts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from merchant_sdk.errors import KeyConflict, Misuse, Refused, TokenRefused, TransactionEnded
from merchant_sdk.keys import CallKey, RequestKey
from merchant_sdk.reply import mark_repeat, utc
from merchant_sdk.store import UNFINISHED, Kind, Record

_YEAR_9999 = 253_370_764_800


@dataclass(frozen=True, slots=True)
class Answer:
    """A committed reply. `body` is JSON text; `matched` is the key that found it, None when it is new.

    A reply found by its request key says in its body that nothing new was done, and when the first was.
    """

    body: str
    first_at: float
    matched: Kind | None = None

    @property
    def result(self) -> Any:
        """The reply as JSON values."""
        return json.loads(self.body)


def decide(record: Record | None, key: CallKey | RequestKey, now: float) -> Record | None:
    """None: run. A record: replay it. Raises Refused: the call was refused before, or must be now.

    KeyConflict if the key was used for something else, TokenRefused (`token_expired`) if a first use is late.
    Pure; `now` is Unix seconds.
    """
    if isinstance(key, RequestKey):
        if record is not None and key.window_s is not None and now - record.at >= key.window_s:
            record = None
        if record is None and key.expires_at is not None and now >= key.expires_at:
            raise TokenRefused("token_expired", "This token has expired. Show the cart again and use the new token.")
    if record is None:
        return None
    if record.fingerprint and record.fingerprint != key.fingerprint:
        raise KeyConflict(key.kind, first=record.fingerprint, given=key.fingerprint, first_at=utc(record.at))
    if record.outcome == "refused":
        raise Refused(**json.loads(record.reply))
    return finished(record)


def finished(record: Record) -> Record:
    """The record, which has a reply. Raises TransactionEnded for a claim that was committed without one."""
    if record.reply == UNFINISHED:
        raise TransactionEnded(
            "a work under this key ended its transaction early (a commit inside the block?): what it did is not "
            "known, and it is not done again; look at the order, then delete or complete the row in oncegate_once"
        )
    return record


def answer_of(record: Record, order_again: str) -> Answer:
    """What a record that was found is answered with; a purchase says that it is a repeat."""
    by_call = record.kind == "call"
    body = record.reply if by_call else mark_repeat(record.reply, record.at, order_again)
    return Answer(body, record.at, record.kind)


def unix_seconds(at: float) -> float:
    """The time that a merchant's clock gave. Raises Misuse for any other kind."""
    # Milliseconds would be stored, and the answer to every repeat be an error about a year.
    if not isinstance(at, int | float) or not 0 <= at < _YEAR_9999:
        raise Misuse(f"now gave {at!r}: it gives Unix seconds, as time.time does")
    return at
