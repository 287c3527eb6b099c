"""`once` inside `once`: a work that waits for a key that its own caller holds would wait for ever.

No database sees that as a deadlock, since the one who waits for the inner block is a program and not a transaction.
Nor does it see two works whose inner blocks wait for each other's outer keys: an inner block waits for a while only.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from merchant_sdk.errors import Misuse
from merchant_sdk.keys import CallKey, RequestKey
from merchant_sdk.store import Store

Key = CallKey | RequestKey

INNER_WAIT_S = 5.0
"""How long an inner block waits for others."""


@dataclass(slots=True)
class Level:
    """One block and the keys that it holds. `is_open` is set by the block itself: it may end in another context."""

    store: Store
    is_open: bool = False
    keys: set[tuple[str, str]] = field(default_factory=set)

    def claim(self, key: Key) -> float | None:
        """How long to wait for it at most, where that is not the database's own affair. Raises Misuse if a block around
        this one holds the key, or the only writer's place."""
        wait_s = None
        name = (key.kind, key.text)
        for around in _around.get():
            if around is self or not around.is_open:
                continue
            wait_s = INNER_WAIT_S
            if around.store is not self.store:
                continue
            if name in around.keys:
                raise Misuse(f"`once` inside `once` with the same {key.kind} key would wait for itself for ever")
            if self.store.max_writers == 1:
                raise Misuse("`once` inside `once` would wait for itself: this database has one writer at a time")
        self.keys.add(name)
        return wait_s


_around: ContextVar[tuple[Level, ...]] = ContextVar("merchant_sdk_around", default=())


def entered(level: Level) -> None:
    """The block begins, inside those that are open in this context."""
    level.is_open = True
    _around.set((*(each for each in _around.get() if each.is_open), level))
