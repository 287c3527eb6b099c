"""The guards of the product, taken out one at a time: a simulator that lets one go unnoticed proves nothing.

Each guard names its promise, what is put in its place, and which histories to look for it in. `python -m
tests.faults --guards` says how many histories each needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from gateway.core import claim as claiming
from gateway.core import decisions as d
from gateway.core import identity, repeats, settlement
from gateway.core.granting import grant, take_up
from gateway.core.occurrences import Occurrence
from gateway.core.record import Effect, Status
from gateway.core.requests import Release
from gateway.service import answers, handle_call, running
from gateway.service.running import Running
from gateway.service.sweep import Sweep
from tests.faults.loop import OWNER
from tests.faults.plan import How, Plan
from tests.faults.run import World, run
from tests.faults.themes import plan_of

KEEP_MS: Final = 86_400_000
Change = tuple[Any, str, Any]


@dataclass(frozen=True)
class Guard:
    """One guard. `changes`: what stands in its place; `world`: the same for what a simulated part guards."""

    name: str
    promise: str
    changes: tuple[Change, ...] = ()
    world: Callable[[World], object] = field(default=lambda world: None)
    fits: Callable[[Plan], bool] = field(default=lambda plan: True)
    """Whether a history is worth running: one that cannot meet the guard is passed over."""


@contextmanager
def without(guard: Guard) -> Generator[None]:
    """The product without it, meanwhile."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in guard.changes]
    for owner, name, value in guard.changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@dataclass(frozen=True)
class Caught:
    """How a missing guard was noticed: the seed, after how many histories, and what broke."""

    seed: int
    histories: int
    broken: tuple[str, str]


def caught(guard: Guard, seeds: Iterable[int]) -> Caught | None:
    """The first of these histories that breaks without the guard; None if none does."""
    histories = 0
    with without(guard):
        for seed in seeds:
            plan = plan_of(seed)
            if not guard.fits(plan):
                continue
            histories += 1
            result = run(plan, change=guard.world)
            if result.broken:
                return Caught(seed, histories, result.broken[0])
    return None


def _theme(*names: str) -> Callable[[Plan], bool]:
    return lambda plan: plan.theme in names


# --- what stands in a guard's place ----------------------------------------------------------------------------

_known, _settle, _release, _lose = claiming._known, settlement._settle, settlement._release, settlement._lose
_judge, _match, _repeat = claiming._judge, identity.match, repeats.judge_repeat


def _any_claim_is_ours(view: Any, request: Any, effect_id: bytes, matched: str) -> d.Step:
    effect = view.effects.get(effect_id)
    if effect is not None and effect.status is Status.EXECUTING and not effect.lapsed(view.now_ms or 0):
        return d.Step(d.Granted(effect))
    return _known(view, request, effect_id, matched)


def _under_any_token(judge: Any) -> Any:
    def judged(view: Any, effect: Effect, request: Any) -> d.Step:
        last = effect.tokens[-1] if effect.tokens else b""
        return judge(view, effect, replace(request, token=last) if request.token is not None else request)

    return judged


def _lost_is_released(view: Any, effect: Effect, request: Any) -> d.Step:
    if request.token is None:
        return _lose(view, effect, request)
    return _release(view, effect, Release(effect.effect_id, request.token, request.reason, KEEP_MS))


def _lapse_is_release(view: Any, effect: Effect) -> d.Step:
    unread = tuple(slot for slot in effect.slots if slot not in view.slots)
    if unread:
        return d.Step(d.Need(slots=unread))
    request = Release(effect.effect_id, effect.tokens[-1], "lease lapsed", KEEP_MS)
    return d.Step(d.Again(), _release(view, effect, request).writes)


def _lapsed_by_wall_clock(effect: Effect, now_ms: int) -> bool:
    process: Any = OWNER.get()
    now_ms = process.clock.wall_ms() if process is not None else now_ms
    return effect.status is Status.EXECUTING and now_ms >= (effect.claimed_at or 0) + effect.lease_ms


def _any_fingerprint(bounds: Any, print_: bytes, place: Any, scope: Any) -> Any:
    return _match([replace(bound, fingerprint=print_) for bound in bounds], print_, place, scope)


_settled, _run_claimed = Running._settled, Running.run


async def _answer_first(self: Any, claim: Any, effect: Effect, view: Any, asked: Any, outcome: Any, key: Any) -> Any:
    async def later() -> None:
        await _settled(self, claim, effect, view, asked, outcome, key)

    self._spawn(later())
    return answers.of_effect(asked, replace(effect, status=outcome.status, outcome=outcome))


async def _whatever_the_lease(self: Any, claim: Any, effect: Any, *rest: Any, **more: Any) -> Any:
    before, after = rest[:-2], rest[-1:]
    return await _run_claimed(self, claim, effect, *before, float("inf"), *after, **more)


async def _never(self: Any, *rest: Any) -> int:
    return 0


def _without_unknown(view: Any, request: Any, own: Any, under_id: Any, held: Any) -> d.Step:
    known = tuple(k for k in view.identical.known if not k.was_unknown)
    return _repeat(replace(view, identical=replace(view.identical, known=known)), request, own, under_id, held)


def _unknown_runs_again(view: Any, request: Any, effect_id: bytes, matched: str) -> d.Step:
    effect = view.effects.get(effect_id)
    if effect is not None and effect.status is Status.INDETERMINATE:
        return take_up(view, request, effect, matched)
    return _known(view, request, effect_id, matched)


def _no_attempt_is_late(view: Any, request: Any) -> d.Step:
    return _judge(replace(view, highest_attempt=0), request)


def _numbers_go_on(view: Any, request: Any) -> Occurrence:
    within = request.numbered_within
    number = len({t.number for t in view.identical.taken if t.place == within})
    return Occurrence(number, request.effect_id(number))


_order, _key_of = running._order, handle_call.key_of


def _tried_again(claim: Any, effect: Effect, tool: Any) -> Any:
    return replace(_order(claim, effect, tool), again=True)


def _another_key(claim: Any, effect: Effect, tool: Any) -> Any:
    return replace(_order(claim, effect, tool), key=claim.token.hex() * 2)


def _late_is_nothing(view: Any, effect: Effect, request: Any) -> d.Step:
    if effect.tokens[-1:] == (request.token,) and effect.status is Status.EXECUTING:
        return _settle(view, effect, request)
    return d.Step(d.Late(effect))


def _no_conflict(effect: Effect, request: Any) -> d.Step:
    return d.Step(d.Late(effect))


def _a_success_runs_again(view: Any, request: Any, own: Any, effect_id: Any, kept: Any, held: Any) -> d.Step:
    return grant(view, request, own)


def _released_though_unknown(view: Any, effect: Effect, request: Any) -> d.Step:
    return _release(view, replace(effect, was_unknown=False), request)


def _key_of_anything(
    company: Any, conversation: Any, id_: Any, place: Any, scope: Any, tool: Any, arguments: Any
) -> Any:
    key = _key_of(company, conversation, id_, place, scope, tool, arguments)
    return None if key is None else (*key[:-1], b"")


def _whatever_stands(claim: Any, effect: Effect, decision: Any) -> Any:
    return decision.effect if isinstance(decision, d.Late) else None


def _blind(world: World) -> None:
    world.ledger.compares = False


def _uncounted(world: World) -> None:
    world.counts_replicas = False


def _begun_late(world: World) -> None:
    world.begins_in_time = False


def _no_keys(world: World) -> None:
    world.books.honours_keys = frozenset()


_FAILOVERS, _LATE = _theme("failovers"), _theme("late workers")
GUARDS: Final = (
    Guard("version check", "4.15", world=_blind),
    Guard("token check of a claim", "4.3", ((claiming, "_known", _any_claim_is_ours),)),
    Guard("token check of a settle", "4.4", ((settlement, "_settle", _under_any_token(_settle)),), fits=_LATE),
    Guard("token check of a release", "4.3", ((settlement, "_release", _under_any_token(_release)),), fits=_LATE),
    Guard("indeterminate rule", "5", ((settlement, "_lose", _lost_is_released),)),
    Guard(
        "a lapsed lease is unknown",
        "4.5",
        ((claiming, "lapse", _lapse_is_release), (repeats, "lapse", _lapse_is_release)),
    ),
    Guard(
        "lease on the ledger's clock",
        "4.5",
        ((Effect, "lapsed", _lapsed_by_wall_clock),),
        fits=lambda plan: any(fault.kind == "gateway clock jumps" for fault in plan.faults),
    ),
    Guard("lease covers the deadline", "4.5", ((Running, "run", _whatever_the_lease),)),
    Guard("nothing is begun late", "4.5", world=_begun_late),
    Guard("fingerprint check", "2.2", ((identity, "match", _any_fingerprint),)),
    Guard("fingerprint in the answers kept", "2.2", ((handle_call, "key_of", _key_of_anything),)),
    Guard("settled before it is answered", "4.2", ((Running, "_settled", _answer_first),)),
    Guard(
        "prior_outcome_unknown",
        "4.7",
        ((repeats, "judge_repeat", _without_unknown), (claiming, "judge_repeat", _without_unknown)),
    ),
    Guard("unknown never runs again by itself", "4.6", ((claiming, "_known", _unknown_runs_again),)),
    Guard("replicas are counted", "4.14", world=_uncounted, fits=_FAILOVERS),
    Guard("claims are withdrawn", "4.11", ((Running, "_withdraw", _never),)),
    Guard("settling goes on", "4.11", ((Running, "_keep_ending", _never),)),
    Guard("the sweeper comes by", "4.5", ((Sweep, "once", _never),)),
    Guard("repeats are counted", "4.9", ((repeats, "_counts", lambda known, view, request: False),)),
    Guard("a success is not repeated", "4.9", ((repeats, "_after_success", _a_success_runs_again),)),
    Guard("earlier attempts start nothing", "2.6", ((claiming, "_judge", _no_attempt_is_late),)),
    Guard("a re-run finds its effects", "2.5", ((claiming, "occurrence_of", _numbers_go_on),)),
    Guard(
        "an answered id is bound",
        "2.5",
        ((repeats, "bind", lambda *asked: None), (claiming, "bind", lambda *asked: None)),
        fits=lambda plan: any(ask.turn is None and ask.how is How.REISSUED for ask in plan.asks),
    ),
    Guard("one send a claim", "4.6", ((running, "_order", _tried_again),)),
    Guard("the key stays the same", "4.6", ((running, "_order", _another_key),)),
    Guard("the merchant honours keys", "4.6", world=_no_keys),
    Guard(
        "another call's outcome is not shown",
        "4.3",
        ((running, "_ours", _whatever_stands),),
        fits=_theme("settled twice", "late workers"),
    ),
    Guard("a late success counts", "4.4", ((settlement, "_settle", _late_is_nothing),), fits=_LATE),
    Guard("a conflict is kept", "4.4", ((settlement, "_conflict", _no_conflict),), fits=_LATE),
    Guard("what was unknown is not released", "4.1", ((settlement, "_release", _released_though_unknown),)),
)
"""But for those of the answers' table, which are in guards_of_answers."""
PLANNED: Final = {"withdrawal mark": "4.11: no mark is left yet; a claim that arrives after its withdrawal lapses"}
"""Guards that are not built, so that nothing can be taken out."""


MOST_SEEDS: Final = 12_000
"""How far to look for a history that notices."""


def seeds(limit: int) -> Iterable[int]:
    """Where guards are looked for: far from the seeds that `make faults` runs."""
    return itertools.islice(itertools.count(1_000_000), limit)
