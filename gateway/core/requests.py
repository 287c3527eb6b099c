"""What may be asked of an effect: the inputs of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from gateway.core import identity
from gateway.core.conversation import View, Where
from gateway.core.decisions import Denied, Refused
from gateway.core.identity import Arguments, Kind, Place, Scope
from gateway.core.record import Effect, Mode, Outcome

HOLD_MS: Final = 15 * 60_000
"""How long a hold may stand without an approval (7.4)."""


class OnRepeat(StrEnum):
    """What a tool does with a repeat of a success (4.9)."""

    HOLD = "hold"
    REPLAY = "replay"
    RUN = "run"


class Asks(msgspec.Struct, frozen=True):
    """Whose approval a new effect needs before it runs, and for how long they may take (7.3, 7.4)."""

    approvers: tuple[str, ...]
    timeout_ms: int
    message: str | None = None


class Ruled(msgspec.Struct, frozen=True):
    """Which rule of which bundle decided; every decision event says so (7.3). No rule: the bundle's default."""

    bundle: str
    rule: str | None = None


class Terms(msgspec.Struct, frozen=True):
    """What a new effect is claimed under: fixed in its record, but for `on_repeat` and what is measured anew at
    each read, `repeat_window_ms` and `hold_ms` (4.6, 4.9)."""

    mode: Mode
    on_repeat: OnRepeat
    lease_ms: int
    tool_version: int
    endpoint: str
    repeat_window_ms: int
    retention_ms: int
    hold_ms: int = HOLD_MS
    unavailable_means_not_executed: bool = False
    """Of the endpoint: its 503 and 409 then release (5.1)."""
    hold_approvers: tuple[str, ...] = ("operator",)
    """Who may approve a hold that no rule asked for (7.4)."""


class Claim(msgspec.Struct, frozen=True):
    """A request to run an effect. `refusal` is what it gets should it be new (4.10)."""

    company: str
    conversation: str
    tool_call_id: str | None
    kind: Kind
    target: str
    arguments: Arguments
    fingerprint: bytes
    place: Place
    scope: Scope
    terms: Terms
    token: bytes
    refusal: Denied | Refused | None = None
    repeat_of: frozenset[bytes] = frozenset()
    submitted: bool = False
    """Whether whoever asks runs it, and not the gateway (7.2)."""
    asks: Asks | None = None
    ruled: Ruled | None = None
    limited: bool = False
    """Whether a limit has still to be asked, should it be new (7.5)."""
    seed: bytes = b""
    """What an approval that this request opens is named by, where its token may come more than once: an approval's
    name must never come to mean another (7.4)."""

    slot: bytes | None = None
    """The ledger's name for the id (2.1), None without one (2.7)."""
    digest: bytes = b""
    """The ledger's name for the conversation."""
    first: bytes = b""
    """The effect that the call is at occurrence zero: nearly always the one it is."""

    def __post_init__(self) -> None:
        # Worked out once: each is asked for several times a call, and hashing them was a fifth of its cost.
        id_ = self.tool_call_id
        slot = identity.call_digest(self.company, self.conversation, id_, self.scope, self.place) if id_ else None
        if self.by_token:
            # The same token is the same submission, and another one the next occurrence (7.2).
            slot = identity.submission_digest(self.company, self.conversation, self.token)
        msgspec.structs.force_setattr(self, "slot", slot)
        msgspec.structs.force_setattr(self, "digest", identity.conversation_digest(self.company, self.conversation))
        msgspec.structs.force_setattr(self, "first", self._effect_id(0))

    @property
    def by_token(self) -> bool:
        """Submitted without an id: the token stands in for it (7.2)."""
        return self.submitted and self.tool_call_id is None

    def approval_of(self, effect_id: bytes) -> bytes:
        """The id of an approval that this request opens."""
        return identity.approval_id(effect_id, self.seed or self.token)

    @property
    def numbered_within(self) -> str:
        return identity.place_of(self.place.turn, self.tool_call_id)

    def effect_id(self, occurrence: int) -> bytes:
        return self._effect_id(occurrence) if occurrence else self.first

    def _effect_id(self, occurrence: int) -> bytes:
        return identity.effect_id(
            self.company,
            self.conversation,
            self.place.turn,
            self.tool_call_id,
            self.kind,
            self.target,
            self.arguments.canonical,
            occurrence,
        )

    def where(self, effects: Iterable[bytes] = ()) -> Where:
        """What to read: the id's slot, the fingerprint's, the likeliest record and those that were asked for."""
        return Where(
            conversation=self.digest,
            fingerprint=self.fingerprint,
            slots=() if self.slot is None else (self.slot,),
            effects=tuple(dict.fromkeys((self.first, *effects))),
            turn=self.place.turn,
        )

    def attempt(self, view: View) -> int:
        """As stated; left out: the highest seen in its turn, else 1 (section 1)."""
        return self.place.attempt or view.highest_attempt or 1

    def stands_at(self, view: View) -> Place:
        """Its place, the attempt filled in; without a turn there is none."""
        if self.place.turn is None:
            return self.place
        return Place(self.place.turn, self.place.step, self.attempt(view))


class Settle(msgspec.Struct, frozen=True):
    """The holder of `token` saw how the effect ended."""

    effect_id: bytes
    token: bytes
    outcome: Outcome
    keep_ms: int


class Release(msgspec.Struct, frozen=True):
    """The holder of `token` proved that nothing was sent."""

    effect_id: bytes
    token: bytes
    reason: str
    keep_ms: int


class Lose(msgspec.Struct, frozen=True):
    """The outcome is unknown: the holder of `token` saw so, or (None) the lease lapsed."""

    effect_id: bytes
    token: bytes | None
    reason: str
    excerpt: str = ""
    http_status: int | None = None


class Resolve(msgspec.Struct, frozen=True):
    """Someone with the right to do so says how an unknown outcome ended; an outcome of None: it never happened."""

    effect_id: bytes
    outcome: Outcome | None
    by: str
    note: str
    keep_ms: int
    evidence: str | None = None
    """Where it was seen, in the words of who says so; needed of a runtime."""
    said_by_merchant: bool = False
    """Whether the merchant's status endpoint said so (5.4). No words can claim it: what a merchant says of its own work
    counts for more than what others saw of it (4.4)."""
    token: bytes | None = None
    """Of the claim that the evidence is about; None: of whichever stands."""


class Renew(msgspec.Struct, frozen=True):
    """The holder of `token` works on: its lease counts anew from here (7.2)."""

    effect_id: bytes
    token: bytes
    lease_ms: int


class Expire(msgspec.Struct, frozen=True):
    """A hold may have stood for too long by now (7.4)."""

    effect_id: bytes
    hold_ms: int
    keep_ms: int


class Refuse(msgspec.Struct, frozen=True):
    """A principal that may decide it says no to an approval (7.4)."""

    effect_id: bytes
    approval: bytes
    by: str
    hold_ms: int
    keep_ms: int
    said: Mapping[str, str] = msgspec.field(default_factory=dict)
    """`rationale` and the like, for the event log."""


class Grant(msgspec.Struct, frozen=True):
    """A principal that may decide it says yes to an approval (7.4). `claim` is the held call as it would be asked
    now: it is judged anew (4.9), and run under the claim's token."""

    effect_id: bytes
    approval: bytes
    by: str
    claim: Claim
    said: Mapping[str, str] = msgspec.field(default_factory=dict)


End: TypeAlias = Settle | Release | Lose | Resolve | Renew | Expire | Refuse


class Withdraw(msgspec.Struct, frozen=True):
    """A claim that may have landed, or may land yet, is to hold nothing (4.11)."""

    claim: Claim


Request: TypeAlias = Claim | End | Grant | Withdraw


def where_of(effect: Effect) -> Where:
    """What an end reads: the record, the slots of its ids and of its fingerprint."""
    return Where(
        conversation=identity.conversation_digest(effect.company, effect.conversation),
        fingerprint=effect.fingerprint,
        slots=effect.slots,
        effects=(effect.effect_id,),
    )
