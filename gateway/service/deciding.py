"""Read, decide, swap: how every change to the ledger is made (step 5 of the walk)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

import msgspec

from gateway.core import decisions as d
from gateway.core.conversation import Event, View, Where, Writes, assumed_empty, narrowed
from gateway.core.errors import LedgerUnavailable
from gateway.core.ports import Ledger
from gateway.core.record import SETTLED, Effect
from gateway.core.requests import Claim, End, Grant, Request, Withdraw, where_of
from gateway.core.step import step

_log = logging.getLogger("oncegate.ledger")
_call_log = logging.getLogger("oncegate.calls")

_MOST_TRIES: Final = 400
"""Each lost swap means that somebody else's was applied; more than this is not contention but a fault."""
_HASTY_TRIES: Final = 4
_LONGEST_PAUSE_S: Final = 0.064

Decided: TypeAlias = Coroutine[Any, Any, tuple[d.Decision, View]]
"""When awaited: the decision, and what stands with it."""


class Decider:
    """Runs the pure `step` against the ledger until its decision holds there."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = lambda: 1.0,
        count_conflict: Callable[[str], None] = lambda _: None,
        on_unknown: Callable[[Effect], None] = lambda _: None,
    ) -> None:
        """`count_conflict` is told of each late success that contradicts the record, and what it contradicts (4.4):
        `absence`, `claim` or `outcome`, or that it is of a claim that the ledger forgot;
        `on_unknown` of every effect that this process makes indeterminate (5.4)."""
        self._ledger = ledger
        self._count_conflict = count_conflict
        self._on_unknown = on_unknown
        self._sleep = sleep
        self._jitter = jitter

    def claim(self, request: Claim, *, likely_new: bool = True) -> Decided:
        """Decide a claim. A likely new one is swapped in unseen, so that it costs one round trip (4.10).

        Raises LedgerUnavailable; its `may_have_run` says whether the claim may have landed.
        """
        where = request.where()
        return self._decide(request, where, assumed_empty(where)) if likely_new else self._look_first(request, where)

    def end(self, request: End, effect: Effect, seen: View | None = None) -> Decided:
        """Decide an end of `effect`; `seen` is the view that its claim left, where that is at hand."""
        where = where_of(effect)
        return self._look_first(request, where) if seen is None else self._decide(request, where, narrowed(seen, where))

    async def grant(self, request: Grant, effect: Effect) -> tuple[d.Decision, View]:
        """Decide an approval of `effect`. Raises as `claim` does, since it claims."""
        where = request.claim.where((effect.effect_id,))
        where = _widened(where, d.Need(slots=effect.slots))
        return await self._look_first(request, where)

    async def withdraw(self, claim: Claim) -> View:
        """Let a claim that may have landed, or may land yet, hold nothing (4.11)."""
        where = claim.where()
        _, view = await self._look_first(Withdraw(claim), where)
        return view

    async def _look_first(self, request: Request, where: Where) -> tuple[d.Decision, View]:
        return await self._decide(request, where, await self._ledger.read(where))

    async def _decide(self, request: Request, where: Where, view: View) -> tuple[d.Decision, View]:
        for lost in range(_MOST_TRIES):
            judged = step(view, request)
            if judged.writes is None and isinstance(judged.decision, d.Granted) and self._ledger.confirms:
                # It stands by an earlier try of this token, which may have found too few who have it.
                judged = d.Step(judged.decision, _confirmation(judged.decision.effect))
            if isinstance(judged.decision, d.Need):
                where = _widened(where, judged.decision)
                view = await self._ledger.read(where)
            elif judged.writes is not None:
                try:
                    swap = await self._ledger.swap(where, view, judged.writes)
                except LedgerUnavailable as lost_reply:
                    if judged.alarm and lost_reply.may_have_run:
                        # Said again, it finds its own success recorded and nothing to raise an alarm about.
                        self._alarm(judged.decision, request)
                    raise
                view = swap.view
                if swap.applied:
                    self._tell_unknown(judged.writes)
                    if judged.alarm:
                        self._alarm(judged.decision, request)
                if swap.applied and not isinstance(judged.decision, d.Again):
                    return _as_written(judged.decision, view), view
                if not swap.applied and lost >= _HASTY_TRIES:
                    # A crowd that tries again at once keeps losing to itself.
                    pause = min(_LONGEST_PAUSE_S, 0.001 * 2 ** min(lost - _HASTY_TRIES, 6))
                    await self._sleep(pause * self._jitter())
                    view = await self._ledger.read(where)
            elif view.now_ms is None:
                # Judged on a guess and nothing written: only a look at the ledger makes it true.
                view = await self._ledger.read(where)
            else:
                if judged.alarm:
                    self._alarm(judged.decision, request)
                return judged.decision, view
        raise LedgerUnavailable("too many others are changing this call at once", may_have_run=False)

    def _tell_unknown(self, writes: Writes) -> None:
        for event in writes.events:
            if event.type == "effect.indeterminate":
                effect = writes.effects.get(event.effect_id or b"")
                _log_unknown(event)
                if effect is not None:
                    self._on_unknown(effect)

    def _alarm(self, decision: d.Decision, request: Request) -> None:
        """A success came where the record says otherwise (4.4), or where it has been lost: a person has to look."""
        effect_id: bytes | None = getattr(request, "effect_id", None)
        stands = "absence"
        if isinstance(decision, d.Late):
            stands = "forgotten"
        elif isinstance(decision, d.Conflicting):
            stands = "outcome" if decision.effect.status in SETTLED else "claim"
        self._count_conflict(stands)
        said = {"effect_id": None if effect_id is None else effect_id.hex(), "against": stands}
        _log.critical("a late success contradicts the record", extra=said)


def _confirmation(stands: Effect) -> Writes:
    """A claim written as it is: only behind a write of its own does a server say who has what came before (4.14)."""
    return Writes(effects={stands.effect_id: stands}, confirms=True)


def _log_unknown(event: Event) -> None:
    """A call became indeterminate: somebody may have to ask the merchant. What the merchant wrote stays out."""
    said = {name: event.data[name] for name in ("reason", "http_status") if name in event.data}
    shown = None if event.effect_id is None else event.effect_id.hex()
    _call_log.warning("the outcome of a call is not known", extra={"effect_id": shown, **said})


def _widened(where: Where, need: d.Need) -> Where:
    return msgspec.structs.replace(
        where,
        effects=tuple(dict.fromkeys((*where.effects, *need.effects))),
        slots=tuple(dict.fromkeys((*where.slots, *need.slots))),
    )


def _as_written(decision: d.Decision, view: View) -> d.Decision:
    """The decision with its record as the ledger stamped it."""
    match decision:
        case (
            d.Granted(effect=effect)
            | d.Replay(effect=effect)
            | d.Blocked(effect=effect)
            | d.Settled(effect=effect)
            | d.Renewed(effect=effect)
            | d.Approved(effect=effect)
            | d.Reopened(effect=effect)
        ):
            written = view.effects.get(effect.effect_id)
        case d.Late(effect=Effect() as effect):
            written = view.effects.get(effect.effect_id)
        case _:
            return decision
    return decision if written is None else msgspec.structs.replace(decision, effect=written)
