"""The two keys that matter to a merchant, and what each one promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from merchant_sdk.store import Kind

_LONGEST = 1024


@dataclass(frozen=True, slots=True)
class CallKey:
    """The gateway's key: the same key is the same call, for ever (2.1).

    A refusal is remembered with it, so that a late twin of a call that was refused cannot succeed after the
    customer has been told no.
    """

    kind: ClassVar[Kind] = "call"
    text: str
    fingerprint: str

    def __post_init__(self) -> None:
        _bounded("key", self.text)
        _bounded("fingerprint", self.fingerprint)


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The purchase itself, whichever call asks for it. A refusal is not remembered: the next try may pay.

    `window_s` is how long after the first the same purchase counts as a repeat (None: always). `expires_at`
    (Unix seconds) stops a first use, never the replay of one that was in time.
    """

    kind: ClassVar[Kind] = "request"
    text: str
    fingerprint: str
    window_s: int | None = None
    expires_at: int | None = None

    def __post_init__(self) -> None:
        _bounded("key", self.text)
        _bounded("fingerprint", self.fingerprint)


def _bounded(name: str, text: str) -> None:
    # PostgreSQL holds no NUL, and MySQL cuts what is too long: a key that is cut is somebody else's.
    if not 0 < len(text) <= _LONGEST or len(text.encode()) > _LONGEST or "\0" in text:
        raise ValueError(f"a {name} is 1 to {_LONGEST:,} bytes without NUL")
