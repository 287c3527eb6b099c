"""What a step decides. The service turns each into an answer, a wait or another look at the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from gateway.core.conversation import Writes
from gateway.core.record import Effect, Fault


class Granted(msgspec.Struct, frozen=True):
    """The caller may send, as the holder of the token it claimed with."""

    effect: Effect
    matched: str | None = None
    new: bool = False
    """Whether the effect began with it: what a limit counted for it stays counted (7.5)."""


class Replay(msgspec.Struct, frozen=True):
    """Answer with the stored outcome, or with "outcome unknown" for an indeterminate one."""

    effect: Effect
    matched: str


class Wait(msgspec.Struct, frozen=True):
    """Another holds it: wait for it, then judge again (4.8). `repeat_of` is kept for that (4.9)."""

    effect_id: bytes
    repeat_of: frozenset[bytes] = frozenset()


class Blocked(msgspec.Struct, frozen=True):
    """Held: a repeat of `first` (4.9)."""

    effect: Effect
    first: Effect | None


class Denied(msgspec.Struct, frozen=True):
    """An answer, nothing stored: `prior_outcome_unknown` and refusals by policy or step. `said`: which rule."""

    fault: Fault
    first: Effect | None = None
    said: Mapping[str, object] = msgspec.field(default_factory=dict)


class Refused(msgspec.Struct, frozen=True):
    """A problem, nothing stored and nothing sent: a code of section 8."""

    code: str
    message: str
    fields: tuple[str, ...] = ()
    recorded: tuple[str, int] = ("", 0)
    """Whose fields they are besides the request's own: the tool of the record, and its version; 0 for none."""


class Need(msgspec.Struct, frozen=True):
    """The decision depends on records, or on slots of ids, that were not read."""

    effects: tuple[bytes, ...] = ()
    slots: tuple[bytes, ...] = ()


class Again(msgspec.Struct, frozen=True):
    """Write this first (a lapsed lease, a hold that expired), then judge again."""


class Limited(msgspec.Struct, frozen=True):
    """It is new, and a limit has to be asked before it is claimed (7.5)."""


class Renewed(msgspec.Struct, frozen=True):
    """The lease counts anew."""

    effect: Effect


class Approved(msgspec.Struct, frozen=True):
    """The approval stands granted: now, or by the same principal before."""

    effect: Effect


class Reopened(msgspec.Struct, frozen=True):
    """What was to be approved has changed (7.4): another approval is open in its place."""

    effect: Effect


class Settled(msgspec.Struct, frozen=True):
    """The outcome is recorded, now or before, under this token."""

    effect: Effect


class Conflicting(msgspec.Struct, frozen=True):
    """A success came against another recorded end (4.4): kept as an event, and an alarm."""

    effect: Effect


class Late(msgspec.Struct, frozen=True):
    """What came too late to change anything; `effect` is what stands (None: nothing does)."""

    effect: Effect | None


class Gone(msgspec.Struct, frozen=True):
    """Released or resolved as absent: nothing stands, and the id may be used again."""


UNRECORDED: Final = Refused("unrecorded", "the ledger has no record of this call")
"""The refusal of a look-up that must start nothing: what is recorded is still judged in full (3.6)."""


Decision: TypeAlias = (
    Granted
    | Replay
    | Wait
    | Blocked
    | Denied
    | Refused
    | Need
    | Again
    | Limited
    | Renewed
    | Approved
    | Reopened
    | Settled
    | Conflicting
    | Late
    | Gone
)


class Step(msgspec.Struct, frozen=True):
    """A decision and what must be written, unchanged ledger permitting, before it may be acted on."""

    decision: Decision
    writes: Writes | None = None
    alarm: bool = False
