"""What a step decides. The service turns each into an answer, a wait or another look at the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gateway.core.conversation import Writes
from gateway.core.record import Effect, Fault


@dataclass(frozen=True, slots=True)
class Granted:
    """The caller may send, as the holder of the token it claimed with."""

    effect: Effect
    matched: str | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """Answer with the stored outcome, or with "outcome unknown" for an indeterminate one."""

    effect: Effect
    matched: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Another holds it: wait for it, then judge again (4.8). `repeat_of` is kept for that (4.9)."""

    effect_id: bytes
    repeat_of: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class Blocked:
    """Held: a repeat of `first` (4.9)."""

    effect: Effect
    first: Effect | None


@dataclass(frozen=True, slots=True)
class Denied:
    """An answer, nothing stored: `prior_outcome_unknown` and refusals by policy or step."""

    fault: Fault
    first: Effect | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A problem, nothing stored and nothing sent: a code of section 8."""

    code: str
    message: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """The decision depends on records, or on slots of ids, that were not read."""

    effects: tuple[bytes, ...] = ()
    slots: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Again:
    """Write this first (a lapsed lease), then judge again."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome is recorded, now or before, under this token."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Conflicting:
    """A success came against another recorded end (4.4): kept as an event, and an alarm."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Late:
    """What came too late to change anything; `effect` is what stands (None: nothing does)."""

    effect: Effect | None


@dataclass(frozen=True, slots=True)
class Gone:
    """Released or resolved as absent: nothing stands, and the id may be used again."""


Decision: TypeAlias = (
    Granted | Replay | Wait | Blocked | Denied | Refused | Need | Again | Settled | Conflicting | Late | Gone
)


@dataclass(frozen=True, slots=True)
class Step:
    """A decision and what must be written, unchanged ledger permitting, before it may be acted on."""

    decision: Decision
    writes: Writes | None = None
    alarm: bool = False
