"""One effect's record and the moves it may make (promise 4.1).

`TRANSITIONS` is the only place that says which status may follow which; `moved` is the only way to change a
status, and refuses what the table lacks. Times are milliseconds of the ledger's clock; a time of None means
"as of this write", which the ledger stamps, since the first write of a call is sent before any clock was read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from gateway.core.identity import Kind, Place

FORMAT: Final = 1
"""Version of the stored form; a newer gateway reads older ones (4.13)."""


class Status(StrEnum):
    """Where an effect stands (section 1). ABSENT is a mark left by a resolved absence, or by a release of what
    somebody had approved."""

    ABSENT = "absent"
    AWAITING_APPROVAL = "awaiting_approval"
    EXECUTING = "executing"
    INDETERMINATE = "indeterminate"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"


class Move(StrEnum):
    """What may happen to an effect; the columns of the table in 4.1."""

    CLAIM = "claim"
    SETTLE = "settle"
    RELEASE = "release"
    LOST = "lost"
    GRANT = "grant"
    REFUSE = "refuse"
    EXPIRE = "expire"
    RESOLVE = "resolve"


class Mode(StrEnum):
    """What may be done about an unknown outcome (4.6)."""

    AT_MOST_ONCE = "at_most_once"
    SAFE_TO_RETRY = "safe_to_retry"


S, M = Status, Move

TRANSITIONS: Final[dict[Status, dict[Move, frozenset[Status]]]] = {
    S.ABSENT: {
        M.CLAIM: frozenset({S.EXECUTING, S.AWAITING_APPROVAL}),
        M.SETTLE: frozenset({S.SUCCEEDED}),
    },
    S.AWAITING_APPROVAL: {
        M.CLAIM: frozenset({S.AWAITING_APPROVAL, S.EXECUTING}),
        M.GRANT: frozenset({S.EXECUTING, S.AWAITING_APPROVAL}),
        M.REFUSE: frozenset({S.DENIED}),
        M.EXPIRE: frozenset({S.DENIED}),
    },
    S.EXECUTING: {
        M.CLAIM: frozenset({S.EXECUTING}),
        M.SETTLE: frozenset({S.SUCCEEDED, S.FAILED}),
        M.RELEASE: frozenset({S.ABSENT, S.INDETERMINATE}),
        M.LOST: frozenset({S.INDETERMINATE}),
    },
    S.INDETERMINATE: {
        M.CLAIM: frozenset({S.INDETERMINATE, S.EXECUTING}),
        M.SETTLE: frozenset({S.SUCCEEDED, S.FAILED}),
        M.RELEASE: frozenset({S.ABSENT}),
        M.RESOLVE: frozenset({S.SUCCEEDED, S.FAILED, S.ABSENT}),
    },
    S.SUCCEEDED: {M.CLAIM: frozenset({S.SUCCEEDED}), M.SETTLE: frozenset({S.SUCCEEDED})},
    S.FAILED: {M.CLAIM: frozenset({S.FAILED}), M.SETTLE: frozenset({S.FAILED})},
    S.DENIED: {M.CLAIM: frozenset({S.DENIED}), M.SETTLE: frozenset({S.DENIED})},
}

SETTLED: Final = frozenset({S.SUCCEEDED, S.FAILED, S.DENIED})
"""Statuses that replay and end after the retention time (4.13)."""

MAX_TOKENS: Final = 64
"""Claims that one effect may issue while its outcome stays unknown: each token is kept, since any of them may yet
report a success (4.4), and a record that grows with every repeat would have no bound (9.4)."""

UNENDING: Final = frozenset({S.EXECUTING, S.INDETERMINATE})
"""Statuses that no retention time ends (4.13)."""


class ImpossibleMove(Exception):
    """A move that the table in 4.1 lacks: a fault in the gateway, never of a caller."""


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """Why an effect has no result to show: `{"code", "message", "details"?}`; details is raw JSON text."""

    code: str
    message: str
    details: bytes | None = None


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """How an effect ended: succeeded with raw JSON text (or dropped, 4.12), failed or denied with a fault."""

    status: Status
    result: bytes | None = None
    dropped: bool = False
    fault: Fault | None = None


class Because(StrEnum):
    """Why an effect is held."""

    REPEAT = "repeat"
    """It repeats a success (4.9)."""
    POLICY = "policy"
    """A rule requires approval (7.3)."""


class OpenApproval(msgspec.Struct, frozen=True, array_like=True):
    """The approval of one effect: single-use, and bound to it (7.4). `at` is when it was opened or, once granted to
    whoever submits the effect, when that was (ms, ledger's clock; None: as of this write)."""

    id: bytes
    because: Because
    approvers: tuple[str, ...]
    """Roles and principals, as the rule names them."""
    timeout_ms: int | None = None
    """How long it stands from `at`; None: as long as its company's holds do."""
    message: str | None = None
    rule: str | None = None
    bundle: str = ""
    decided_by: str | None = None
    """Who granted or denied it; None while it is open, and where it lapsed."""
    at: int | None = None


class Effect(msgspec.Struct, frozen=True, array_like=True):
    """The record. What the first claim fixed (mode to verdict, 4.6) stays, whatever is registered later."""

    format: int
    effect_id: bytes
    company: str
    conversation: str
    kind: Kind
    target: str
    fingerprint: bytes
    tool_call_id: str | None
    turn: str | None
    step: int | None
    attempt: int
    occurrence: int
    fields: dict[str, int]
    mode: Mode
    tool_version: int
    endpoint: str
    status: Status
    tokens: tuple[bytes, ...] = ()
    lease_ms: int = 0
    first_at: int | None = None
    claimed_at: int | None = None
    settled_at: int | None = None
    was_unknown: bool = False
    slots: tuple[bytes, ...] = ()
    repeat_of: tuple[bytes, ...] = ()
    outcome: Outcome | None = None
    settled_by: bytes = b""
    arguments: str | None = None
    """As first sent; kept only while the gateway may have to send them again (6: the same bytes on every try)."""
    unavailable_means_not_executed: bool = False
    """As declared for the endpoint that the first claim fixed (4.6, 5.1)."""
    approval: OpenApproval | None = None
    """Of an effect that is, or was, held."""

    @property
    def hex(self) -> str:
        """The `effect_id` as the wire shows it: 64 hex digits."""
        return self.effect_id.hex()

    @property
    def place(self) -> Place:
        """Where the first request stood."""
        return Place(self.turn, self.step, self.attempt if self.turn is not None else None)

    @property
    def sent_again(self) -> bool:
        """Whether an unknown outcome is sent again at the next repeat (4.6). Past MAX_TOKENS tries it no longer is:
        from then on it is treated as under `at_most_once`."""
        return self.mode is Mode.SAFE_TO_RETRY and len(self.tokens) < MAX_TOKENS

    @property
    def submitted(self) -> bool:
        """Whether whoever asks runs it, and not the gateway (7.2)."""
        return not self.endpoint

    @property
    def granted(self) -> bool:
        """Held, and approved: its submission may claim it (4.1)."""
        return (
            self.status is Status.AWAITING_APPROVAL
            and self.approval is not None
            and self.approval.decided_by is not None
        )

    def expires_at(self, hold_ms: int) -> int | None:
        """When a hold lapses by the ledger's clock (7.4); None before its first write."""
        since = self.first_at if self.approval is None or self.approval.at is None else self.approval.at
        stands_ms = self.approval.timeout_ms if self.approval is not None else None
        return None if since is None else since + (hold_ms if stands_ms is None else stands_ms)

    def lease_left(self, now_ms: int) -> int:
        """Ms until its lease is over by the ledger's clock; all of it before its first write."""
        since = now_ms if self.claimed_at is None else self.claimed_at
        return since + self.lease_ms - now_ms

    def lapsed(self, now_ms: int) -> bool:
        """Executing, and its lease is over by the ledger's clock (4.5)."""
        return (
            self.status is Status.EXECUTING
            and self.claimed_at is not None
            and now_ms >= self.claimed_at + self.lease_ms
        )

    def overdue(self, now_ms: int, hold_ms: int) -> bool:
        """Held, and for longer than a hold may stand by the ledger's clock (7.4)."""
        ends = self.expires_at(hold_ms)
        return self.status is Status.AWAITING_APPROVAL and ends is not None and now_ms >= ends


def moved(effect: Effect, move: Move, to: Status, **changes: object) -> Effect:
    """The effect after `move`. Raises ImpossibleMove where TRANSITIONS has no such cell."""
    check_move(effect.status, move, to)
    return msgspec.structs.replace(effect, status=to, **changes)


def check_move(before: Status, move: Move, after: Status) -> None:
    """Raises ImpossibleMove unless the table in 4.1 lets `move` lead from `before` to `after`."""
    if after not in TRANSITIONS[before].get(move, frozenset()):
        raise ImpossibleMove(f"{before} does not become {after} by {move}")
