"""What happens in a small world beside the requests: the sweeper, an operator, writes that come late, a crash, time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.core import decisions as d
from gateway.core.record import Effect, Outcome, Status
from gateway.core.requests import Claim, Expire, Grant, Lose, Resolve, where_of
from tests.small_world.ledger import TICK_MS
from tests.small_world.moves import NOBODY, OVER, Worker, over
from tests.small_world.shop import Shop, result_of
from tests.small_world.situations import FOREVER_MS
from tests.small_world.story import Broken
from tests.small_world.workers import REFUSED

if TYPE_CHECKING:
    from tests.small_world.world import Next, State, World

GATEWAYS: Final = "AB"


def sweeper(world: World, state: State) -> Iterator[Next]:
    if state.sweeper is None:
        for effect in world.ledger.effects(state.contents):
            if effect.lapsed(state.now * TICK_MS):
                lose = Lose(effect.effect_id, None, "lease lapsed")
                yield "the sweeper finds a lapsed lease", state._replace(sweeper=errand_of(world, state, lose, effect))
            if overdue(world, effect, state.now):
                expire = Expire(effect.effect_id, TICK_MS, FOREVER_MS)
                errand = errand_of(world, state, expire, effect)
                yield "the sweeper finds a hold that nobody decided", state._replace(sweeper=errand)
        return
    may_leave_it(world, state.sweeper)
    for told, contents, errand in goes_on(world, state, state.sweeper):
        after = state._replace(contents=contents, sweeper=errand)
        world.check(after, told := f"the sweeper {told}")
        yield told, after


def may_leave_it(world: World, errand: tuple[int, int, int]) -> None:
    request, _, seen = errand
    judged, view = world.machine.judge(request, seen), world.ledger.view(seen)
    effect = view.effects.get(world.machine.requests[request].effect_id)
    if effect is None or view.now_ms is None or judged.writes is not None or isinstance(judged.decision, d.Need):
        return
    if effect.lapsed(view.now_ms) or overdue(world, effect, view.now_ms // TICK_MS):
        world.doing = "the sweeper finds nothing to change"
        raise Broken("4.5, 7.4: the sweeper leaves what is due as it is")


def overdue(world: World, effect: Effect, now: int) -> bool:
    held = effect.status is Status.AWAITING_APPROVAL and world.situation.approvals
    return held and effect.overdue(now * TICK_MS, TICK_MS)


def operator(world: World, state: State) -> Iterator[Next]:
    trouble = world.situation.trouble
    if state.operator is not None:
        for told, contents, errand in goes_on(world, state, state.operator):
            after = state._replace(contents=contents, operator=errand)
            world.check(after, told := f"the operator {told}")
            yield told, after
    elif state.resolves < trouble.resolves:
        for effect in world.ledger.effects(state.contents):
            if effect.status is not Status.INDETERMINATE:
                continue
            for told, outcome in evidence(world, state, effect):
                resolve = Resolve(effect.effect_id, outcome, "ops", "", FOREVER_MS, token=effect.tokens[-1])
                errand = errand_of(world, state, resolve, effect)
                yield f"the operator {told}", state._replace(operator=errand, resolves=state.resolves + 1)


def evidence(world: World, state: State, effect: Effect) -> list[tuple[str, Outcome | None]]:
    """What an operator who looks at the shop may say of an unknown call."""
    shop: Shop = world.shops[state.shop]
    done = shop.committed(effect.effect_id)
    if done is not None:
        return [("finds the order in the shop", Outcome(Status.SUCCEEDED, result_of(done)))]
    if world.situation.trouble.hasty:
        return [("does not find the order, and does not wait", None)]
    if shop.expects(effect.effect_id) or may_still_send(world, state, effect):
        return []
    return [("finds that it never happened", None), ("finds that the shop refused it", REFUSED)]


def may_still_send(world: World, state: State, effect: Effect) -> bool:
    holders = (world.workers[number] for number in state.workers if number != NOBODY)
    return any(
        worker.phase == "granted"
        and world.machine.covered(worker, state.now)
        and world.machine.records[worker.effect].effect_id == effect.effect_id
        for worker in holders
    )


def errand_of(world: World, state: State, request: Lose | Resolve | Expire, effect: Effect) -> tuple[int, int, int]:
    where = where_of(effect)
    view = world.ledger.read(state.contents, where, state.now)
    return world.machine.request(request), world.machine.wheres.of(where), view


def goes_on(
    world: World, state: State, errand: tuple[int, int, int]
) -> Iterator[tuple[str, int, tuple[int, int, int] | None]]:
    """The next trip of an end that nobody waits for."""
    request, where, view = errand
    judged = world.machine.judge(request, view)
    if isinstance(judged.decision, d.Need):
        wider = world.machine.widened(where, judged.decision)
        seen = world.ledger.read(state.contents, world.machine.wheres[wider], state.now)
        yield "reads more", state.contents, (request, wider, seen)
    elif judged.writes is None:
        yield "finds nothing to change", state.contents, None
    else:
        applied, contents, seen = world.machine.swap(request, where, view, state.contents, state.now)
        left = None if applied or world.machine.judge(request, seen).writes is None else (request, where, seen)
        yield ("writes it" if applied else "finds that it changed meanwhile"), contents, left


def delayed(world: World, state: State) -> Iterator[Next]:
    if state.delayed is not None:
        world.doing = "what was under way reaches the ledger"
        applied, contents = world.machine.delivered(state.delayed, state.contents, state.now)
        if applied:
            not_withdrawn(world, state, state.delayed)
        after = state._replace(contents=contents, delayed=None)
        world.check(after, told := f"what was under way reaches the ledger{'' if applied else ', in vain'}")
        yield told, after


def not_withdrawn(world: World, state: State, delayed: tuple[int, int, int]) -> None:
    request = world.machine.requests[delayed[0]]
    request = request.claim if isinstance(request, Grant) else request
    claims = isinstance(request, Claim) and isinstance(world.machine.judge(*delayed[::2]).decision, d.Granted)
    started = [world.workers[number] for number in state.workers if number != NOBODY]
    if claims and any(w.phase == "over" and b"token-%d" % w.token == request.token for w in started):
        raise Broken("4.11: a claim landed that had been withdrawn")


def crashes(world: World, state: State) -> Iterator[Next]:
    if state.crashes >= world.situation.trouble.crashes:
        return
    for gateway in (0, 1):
        workers = [number if number == NOBODY else killed(world, number, gateway) for number in state.workers]
        if tuple(workers) != state.workers:
            yield (
                f"gateway {GATEWAYS[gateway]} crashes",
                state._replace(workers=tuple(workers), crashes=state.crashes + 1),
            )


def killed(world: World, number: int, gateway: int) -> int:
    worker: Worker = world.workers[number]
    if worker.gateway != gateway or worker.phase in OVER:
        return number
    return world.workers.of(over(worker, "dead"))


def time(world: World, state: State, alive: bool) -> Iterator[Next]:
    """Time matters where a lease runs, and goes on for as long as one does once nobody is left to end it."""
    standing = world.ledger.effects(state.contents)
    ends = [e for e in standing if e.status is Status.EXECUTING or (world.situation.approvals and _held(e))]
    if not ends or any(e.lapsed(state.now * TICK_MS) or overdue(world, e, state.now) for e in ends):
        return
    if state.ticks < world.situation.trouble.ticks or not alive:
        yield "what runs and what is held lapses", state._replace(now=state.now + 1, ticks=state.ticks + 1)


def _held(effect: Effect) -> bool:
    return effect.status is Status.AWAITING_APPROVAL
