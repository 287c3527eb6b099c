"""What two callers ask in a small world, and what may go wrong in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from gateway.core import identity
from gateway.core.identity import Kind, Place, Scope
from gateway.core.record import Mode
from gateway.core.requests import Asks, Claim, OnRepeat, Terms
from tests.small_world.ledger import TICK_MS

LEASE_TICKS: Final = 1
FOREVER_MS: Final = 1_000_000 * TICK_MS


@dataclass(frozen=True)
class Ask:
    """One caller's request."""

    call: str | None = "call_1"
    sku: str = "A"
    turn: str | None = None
    step: int | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class Trouble:
    """How often each kind of trouble may come in one run; what is not listed may always come: a claim's, a settle's
    or a merchant's reply that is lost, a merchant that cannot be reached, refuses, or never answers."""

    crashes: int = 1
    resends: int = 0
    """Requests that a caller sends again, after no answer, an answer that it never got, or a problem."""
    delayed: int = 0
    """Swaps that reach the ledger only after their sender has given them up."""
    ticks: int = 1
    """How often the ledger's clock passes every lease that runs."""
    resolves: int = 0
    hasty: bool = False
    """The operator resolves as absent what may still arrive."""
    decisions: int = 0
    """Approvals that somebody grants or refuses, each at another gateway than the one before."""

    @property
    def told(self) -> str:
        named = {"crash": self.crashes, "resend": self.resends, "delay": self.delayed, "lapse": self.ticks}
        named["decision"] = self.decisions
        resolve = {"hasty resolve" if self.hasty else "resolve": self.resolves}
        return ", ".join(f"{times} {name}" for name, times in {**named, **resolve}.items() if times)


@dataclass(frozen=True)
class Situation:
    name: str
    asks: tuple[Ask, Ask]
    commits: int
    """How many orders the two callers mean."""
    mode: Mode = Mode.AT_MOST_ONCE
    on_repeat: OnRepeat = OnRepeat.HOLD
    trouble: Trouble = field(default_factory=Trouble)
    approvals: bool = False
    """Whether somebody decides what is held, in time: a hold stands for as long as a lease."""
    asks_policy: bool = False
    """Whether policy lets nothing run without an approval."""

    def claim(self, caller: int, token: int) -> Claim:
        ask = self.asks[caller]
        read = identity.read_arguments({"sku": ask.sku})
        return Claim(
            company="acme",
            conversation="c-1",
            tool_call_id=ask.call,
            kind=Kind.TOOL_CALL,
            target="place_order",
            arguments=read,
            fingerprint=identity.fingerprint(Kind.TOOL_CALL, "place_order", read.canonical),
            place=Place(ask.turn, ask.step, ask.attempt),
            scope=Scope.AUTO,
            terms=Terms(
                self.mode,
                self.on_repeat,
                LEASE_TICKS * TICK_MS,
                1,
                "https://shop.example/tools",
                FOREVER_MS,
                FOREVER_MS,
                TICK_MS if self.approvals else FOREVER_MS,
            ),
            token=b"token-%d" % token,
            asks=Asks(("operator",), TICK_MS, None) if self.asks_policy else None,
        )

    @property
    def searches(self) -> tuple[Trouble, ...]:
        """What a whole search goes through, each to its end: more at once would be tens of millions of states."""
        if self.approvals:
            late = Trouble(crashes=0, delayed=1, ticks=0, decisions=1)
            return (Trouble(decisions=1), Trouble(crashes=0, ticks=0, decisions=2), late)
        if self.trouble.hasty:
            return (self.trouble, Trouble(crashes=0, delayed=1, resolves=1, hasty=True))
        if self.on_repeat is OnRepeat.RUN or self.mode is Mode.SAFE_TO_RETRY:
            return (Trouble(), Trouble(crashes=0, resolves=1), Trouble(crashes=0, delayed=1, ticks=0))
        resent = (Trouble(resends=1, ticks=0), Trouble(crashes=0, resends=1)) if self.asks[0] == self.asks[1] else ()
        return (Trouble(delayed=1, ticks=2, resolves=1), *resent)

    @property
    def near(self) -> Trouble:
        """What a look of a few seconds goes through, to its end as well."""
        if self.approvals:
            return Trouble(crashes=int(not self.asks_policy), ticks=0, decisions=1)
        if self.on_repeat is OnRepeat.RUN or self.mode is Mode.SAFE_TO_RETRY:
            return Trouble(crashes=0, ticks=0)
        return Trouble(crashes=0, resolves=1, hasty=True) if self.trouble.hasty else Trouble()

    def under(self, trouble: Trouble) -> Situation:
        return replace(self, trouble=trouble)


_TURN: Final = {"turn": "t-1", "step": 1}
_SAME: Final = (Ask(), Ask())
_TWO_IDS: Final = (Ask("call_1"), Ask("call_2"))
_RERUN: Final = (Ask("call_1", attempt=1, **_TURN), Ask("call_9", attempt=2, **_TURN))  # type: ignore[arg-type]

SITUATIONS: Final = (
    Situation("the same call twice", _SAME, 1),
    Situation("two ids, one order, hold", _TWO_IDS, 1),
    Situation("two ids, one order, replay", _TWO_IDS, 1, on_repeat=OnRepeat.REPLAY),
    Situation("two ids, one order, run", _TWO_IDS, 2, on_repeat=OnRepeat.RUN),
    Situation("one id, two orders", (Ask(sku="A"), Ask(sku="B")), 1),
    Situation("a turn run over", _RERUN, 1),
    Situation("the same call twice, safe to retry", _SAME, 1, Mode.SAFE_TO_RETRY),
    Situation("two ids, one order, hold, safe to retry", _TWO_IDS, 1, Mode.SAFE_TO_RETRY),
    Situation("a turn run over, safe to retry", _RERUN, 1, Mode.SAFE_TO_RETRY),
    Situation("the same call twice, to be approved", _SAME, 1, approvals=True, asks_policy=True),
    Situation("two ids, one order, the second approved", _TWO_IDS, 2, approvals=True),
)
HASTY: Final = Situation("the same call twice, a hasty operator", _SAME, 2, trouble=Trouble(resolves=1, hasty=True))
