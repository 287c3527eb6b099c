"""Names in Redis. All keys of a conversation, and its bucket's indexes, share one cluster slot (4.15).

The hash tag is one of 4,096 buckets of (company, conversation), and it comes first: what a caller says appears, if at
all, behind it, so no brace in an id can steer a slot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from gateway.core.conversation import Where

BUCKETS: Final = 4_096


def bucket_of(conversation: bytes) -> int:
    """The bucket of a conversation digest: its first twelve bits."""
    return int.from_bytes(conversation[:2], "big") >> 4


class Bucket:
    """The keys of one bucket, for one conversation in it or for the bucket's own indexes.

    `live` and `events` are the conversation's; `due`, `unknown`, `unsealed` and `probe` the bucket's; `records` is what
    a record's key starts with, before 16 bytes of its effect id. `feed` is a company's, in the bucket of its own log.
    At `fence` nothing is ever written.
    """

    __slots__ = (
        "_conversation",
        "_tag",
        "due",
        "events",
        "feed",
        "fence",
        "live",
        "probe",
        "records",
        "unknown",
        "unsealed",
    )

    def __init__(self, number: int, conversation: bytes = b"") -> None:
        tag = b"{og.%03x}" % number
        self._tag = tag
        self._conversation = conversation
        self.records = tag + b"e"
        self.due = tag + b"D"
        self.unknown = tag + b"U"
        self.probe = tag + b"R"
        self.fence = tag + b"-"
        self.live = tag + b"l" + conversation
        self.events = tag + b"v" + conversation
        self.feed = tag + b"F" + conversation
        self.unsealed = tag + b"Q"

    @classmethod
    @lru_cache(maxsize=1_024)
    def of(cls, conversation: bytes) -> Bucket:
        return cls(bucket_of(conversation), conversation)

    def record(self, effect_id: bytes) -> bytes:
        return self.records + effect_id[:16]

    def slot(self, digest: bytes) -> bytes:
        return self._tag + b"i" + digest

    def identical(self, fingerprint: bytes) -> bytes:
        return self._tag + b"p" + _both(self._conversation, fingerprint)

    def turn(self, turn: bytes) -> bytes:
        # 31 bytes at most as they are, else 32 of their digest: no turn has the key of another.
        rest = turn if len(turn) < 32 else hashlib.sha256(turn).digest()
        return self._tag + b"t" + self._conversation + rest

    def read_by(self, where: Where) -> list[tuple[str, bytes]]:
        """The names (as a view's `versions` has them) of what a decision reads, the ids' slots first."""
        names = [("slot", slot) for slot in where.slots]
        names.append(("identical", where.fingerprint))
        if where.turn is not None:
            names.append(("turn", where.turn.encode()))
        names.extend([("effect", effect) for effect in where.effects])
        return names

    def keys(self, names: Iterable[tuple[str, bytes]]) -> list[bytes]:
        """The key of each name."""
        return [_KEY_OF[kind](self, rest) for kind, rest in names]


@lru_cache(maxsize=1_024)
def _both(conversation: bytes, fingerprint: bytes) -> bytes:
    """16 bytes naming a fingerprint within a conversation: one key of many, so its length counts."""
    return hashlib.sha256(conversation + fingerprint).digest()[:16]


FENCE: Final = ("fence", b"")
"""The name of a key that never exists, for a cluster.

While a slot moves, the server that takes it over answers for keys it does not have yet as if they did not exist, and
the one that gives it away breaks off a script at the first key that it gave away or emptied: an effect that stands
would be read as absent, and sent again. But a script that names a key which is missing is refused whole (TRYAGAIN) by
both of them.
"""

_KEY_OF: Final[dict[str, Callable[[Bucket, bytes], bytes]]] = {
    "effect": Bucket.record,
    "fence": lambda bucket, _: bucket.fence,
    "identical": Bucket.identical,
    "slot": Bucket.slot,
    "turn": Bucket.turn,
}
