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

from gateway.adapters.claim_wait import ClaimWait
from gateway.core import claim as claiming
from gateway.core import decisions as d
from gateway.core import identity, record, repeats, settlement
from gateway.core import step as stepping
from gateway.core.conversation import Writes
from gateway.core.granting import grant, take_up
from gateway.core.occurrences import Occurrence
from gateway.core.record import Effect, Outcome, Status
from gateway.core.requests import Release
from gateway.core.status_reply import NOT_EXECUTED, Said, Told
from gateway.service import answers, deciding, handle_call, running, status_question
from gateway.service.asking import Asking
from gateway.service.running import Running
from gateway.service.status_question import StatusQuestion
from gateway.service.sweep import Sweep
from tests.faults.loop import OWNER
from tests.faults.plan import How, Plan
from tests.faults.resolvers import BY_HAND
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
_resolve, _withdraw, step, _standing = settlement._resolve, stepping.withdraw, deciding.step, running._standing
status_question_told = status_question.told_by
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


def _tried_again(claim: Any, effect: Effect) -> Any:
    return replace(_order(claim, effect), again=True)


def _another_key(claim: Any, effect: Effect) -> Any:
    return replace(_order(claim, effect), key=claim.token.hex() * 2)


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


def _whatever_stands(asked: Any, claim: Any, effect: Effect, decision: Any) -> Any:
    after = decision.effect if isinstance(decision, d.Late) else None
    return None if after is None else _standing(asked, replace(claim, token=after.tokens[-1]), after, decision)


def _told_as_done(asked: Any, claim: Any, effect: Effect, decision: Any) -> Any:
    after = decision.effect if isinstance(decision, d.Late) else None
    if after is not None and after.status in (Status.ABSENT, Status.AWAITING_APPROVAL):
        return answers.of_effect(asked, after)
    return _standing(asked, claim, effect, decision)


def _no_mark(view: Any, request: Any) -> d.Step:
    judged = _withdraw(view, request)
    return judged if judged.writes is None or judged.writes.effects else d.Step(d.Gone())


def _takes_room(view: Any, request: Any) -> d.Step:
    judged = step(view, request)
    return judged if judged.writes is None else replace(judged, writes=replace(judged.writes, though_full=False))


def _resolves_what_runs(view: Any, effect: Effect, request: Any) -> d.Step:
    lost = replace(effect, status=Status.INDETERMINATE) if effect.status is Status.EXECUTING else effect
    return _resolve(view, lost, request)


def _asked_anywhere(self: Any, effect: Effect) -> Any:
    tool = self._registry.tool(effect.company, effect.target)
    return None if tool is None or tool.status_endpoint is None else tool


def _told_by(becomes: Outcome | None, matches: Callable[[Any, Any], bool]) -> Any:
    """Answers of status endpoints, some of them read as another outcome."""

    def told(seen: Any, **more: Any) -> Any:
        right = status_question_told(seen, **more)
        return Told(Said.VOID, becomes) if matches(seen, right) else right

    return told


def _blind(world: World) -> None:
    world.ledger.compares = False


def _begun_late(world: World) -> None:
    world.begins_in_time = False


def _no_keys(world: World) -> None:
    world.books.honours_keys = frozenset()


_FAILOVERS, _LATE = _theme("failovers"), _theme("late workers")
VOID: Final = Outcome(Status.FAILED, fault=NOT_EXECUTED)


def _resolved(plan: Plan) -> bool:
    return any(fault.kind == BY_HAND for fault in plan.faults)


def _asked(plan: Plan) -> bool:
    return plan.status


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
    Guard("replicas are counted", "4.14", ((ClaimWait, "missing", lambda self, reply: ""),), fits=_FAILOVERS),
    Guard("claims wait", "4.14", ((Writes, "claims", False),), fits=_FAILOVERS),
    Guard("a success that the ledger forgot is told", "4.14", ((settlement, "_forgotten", lambda *asked: False),)),
    Guard("claims are withdrawn", "4.11", ((Running, "_withdraw", _never),)),
    Guard(
        "withdrawal mark",
        "4.11",
        ((stepping, "withdraw", _no_mark),),
        fits=lambda plan: any(fault.kind == "claim delivered after its withdrawal" for fault in plan.faults),
    ),
    Guard(
        "outcomes find room in a full ledger",
        "4.11",
        ((deciding, "step", _takes_room),),
        fits=lambda plan: any(fault.kind == "out of memory at settle" for fault in plan.faults),
    ),
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
        ((running, "_standing", _whatever_stands),),
        fits=_theme("settled twice", "late workers"),
    ),
    Guard("an absence is not told as done", "4.4", ((running, "_standing", _told_as_done),), fits=_LATE),
    Guard("claims of one call are bounded", "4.6", ((record, "MAX_TOKENS", 10_000),), fits=_theme("stubborn")),
    Guard("only what is unknown is resolved", "4.1", ((settlement, "_resolve", _resolves_what_runs),), fits=_resolved),
    Guard(
        "a lease lapses before it is resolved",
        "4.5",
        ((settlement, "lapse", lambda view, effect: d.Step(d.Late(effect))),),
        fits=_resolved,
    ),
    Guard(
        "asked only where the call was sent",
        "5.4",
        ((StatusQuestion, "_tool", _asked_anywhere),),
        fits=lambda plan: plan.status and any("elsewhere" in fault.kind for fault in plan.faults),
    ),
    Guard("asking goes on", "5.4", ((Asking, "once", _never),), fits=_asked),
    Guard(
        "a 404 is no void",
        "5.4",
        ((status_question, "told_by", _told_by(VOID, lambda seen, told: seen.status == 404)),),
        fits=_asked,
    ),
    Guard(
        "in_progress is no void",
        "5.4",
        ((status_question, "told_by", _told_by(VOID, lambda seen, told: told.said is Said.IN_PROGRESS)),),
        fits=_asked,
    ),
    Guard(
        "no answer is no void",
        "5.4",
        ((status_question, "told_by", _told_by(VOID, lambda seen, told: seen.status is None)),),
        fits=_asked,
    ),
    Guard(
        "committed is no void",
        "5.4",
        ((status_question, "told_by", _told_by(VOID, lambda seen, told: told.said is Said.COMMITTED)),),
        fits=_asked,
    ),
    Guard(
        "what the merchant says late counts",
        "4.4",
        ((settlement, "_contradicted", lambda view, effect, request: d.Step(d.Late(effect))),),
        fits=_asked,
    ),
    Guard("a late success counts", "4.4", ((settlement, "_settle", _late_is_nothing),), fits=_LATE),
    Guard("a conflict is kept", "4.4", ((settlement, "_conflict", _no_conflict),), fits=_LATE),
    Guard("what was unknown is not released", "4.1", ((settlement, "_release", _released_though_unknown),)),
)
"""But for those of the answers' table, which are in guards_of_answers."""


MOST_SEEDS: Final = 12_000
"""How far to look for a history that notices."""


def seeds(limit: int) -> Iterable[int]:
    """Where guards are looked for: far from the seeds that `make faults` runs."""
    return itertools.islice(itertools.count(1_000_000), limit)
