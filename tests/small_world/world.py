"""The whole world, and everything that can happen next in it: two callers, two gateways, a merchant, a sweeper, an
operator, a clock, and messages under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.core.record import Effect, Mode, Status
from tests.small_world import behind
from tests.small_world.answers import Answer
from tests.small_world.behind import GATEWAYS
from tests.small_world.ledger import Ledger
from tests.small_world.moves import NOBODY, OVER, Move, Worker
from tests.small_world.numbers import Numbers
from tests.small_world.promises import Promises
from tests.small_world.shop import Shop, result_of
from tests.small_world.situations import Situation
from tests.small_world.workers import Machine

MOST_SENDS: Final = 2
"""Tries of one request at the merchant under safe_to_retry."""


class State(NamedTuple):
    """Numbers of what `World` has met. `workers` by token: the callers' first requests, then what they send again."""

    contents: int
    now: int
    shop: int
    workers: tuple[int, ...]
    sweeper: tuple[int, int, int] | None = None
    operator: tuple[int, int, int] | None = None
    delayed: tuple[int, int, int] | None = None
    crashes: int = 0
    resends: int = 0
    delays: int = 0
    ticks: int = 0
    resolves: int = 0
    decisions: int = 0


Next = tuple[str, State]


class World:
    """One situation. Successors check every promise on their way, and raise Broken."""

    def __init__(self, situation: Situation, *, compares: bool = True, settles_first: bool = True) -> None:
        self.situation = situation
        self.ledger = Ledger(compares=compares, approved=situation.asks_policy)
        self.machine = Machine(situation, self.ledger, settles_first=settles_first)
        self.workers = Numbers()
        self.shops = Numbers()
        self.promises = Promises(situation, self.ledger)
        self.doing = ""
        """What was going on when a promise broke."""

    def start(self) -> State:
        tokens = 2 + self.situation.trouble.resends + self.situation.trouble.decisions
        return State(self.ledger.empty(), 1, self.shops.of(Shop()), (NOBODY,) * tokens)

    def next(self, state: State) -> Iterator[Next]:
        """Everything that can happen now, and what it leads to."""
        alive = False
        for token, number in enumerate(state.workers):
            if number == NOBODY:
                yield from self._asks(state, token)
                continue
            worker: Worker = self.workers[number]
            if worker.phase in OVER:
                continue
            alive = True
            self.doing = f"{self._who(worker)} swaps"
            for move in self.machine.moves(worker, state.contents, state.now):
                yield from self._moved(state, token, move)
            if worker.phase == "granted":
                yield from self._sends(state, token, worker)
            elif worker.phase == "sent":
                yield from self._hears(state, token, worker)
        yield from self._merchant(state)
        yield from behind.sweeper(self, state)
        yield from behind.operator(self, state)
        yield from behind.delayed(self, state)
        yield from behind.crashes(self, state)
        yield from behind.time(self, state, alive)

    def settled(self, state: State) -> bool:
        """Nothing stirs any more; then nothing may be left in the middle."""
        begun = (*state.workers[:2], *(number for number in state.workers[2:] if number != NOBODY))
        return all(number != NOBODY and self.workers[number].phase in OVER for number in begun)

    # requests

    def _asks(self, state: State, token: int) -> Iterator[Next]:
        """A caller's first request; or one that it sends again, whatever became of the one before."""
        if token < 2:
            callers = [token]
        elif token >= 2 + self.situation.trouble.resends:
            yield from self._decides(state, token)
            return
        elif token == 2 + state.resends:
            callers = [caller for caller in (0, 1) if state.workers[caller] != NOBODY]
        else:
            return
        for caller in callers:
            gateway = caller if token < 2 else 1 - caller
            for how, worker in self.machine.begun(caller, token, gateway, state.now):
                told = (
                    f"caller {caller + 1} asks gateway {GATEWAYS[gateway]}{' again' if token >= 2 else ''}, which {how}"
                )
                after = self._with(state, token, worker)
                yield told, after._replace(resends=state.resends + (token >= 2))

    def _decides(self, state: State, token: int) -> Iterator[Next]:
        """Somebody has looked at what is held, and goes to decide it."""
        number = token - 2 - self.situation.trouble.resends
        if number != state.decisions:
            return
        for held in self.ledger.effects(state.contents):
            if held.status is not Status.AWAITING_APPROVAL or held.approval is None or held.granted:
                continue
            caller = next(n for n, ask in enumerate(self.situation.asks) if ask.call == held.tool_call_id)
            for grants in (True, False):
                worker = self.machine.decides(held, caller, token, number % 2, state.now, grants=grants)
                told = f"somebody will {'grant' if grants else 'refuse'} it at gateway {GATEWAYS[number % 2]}"
                yield told, self._with(state, token, worker)._replace(decisions=state.decisions + 1)

    def _with(self, state: State, token: int, worker: Worker) -> State:
        workers = state.workers
        return state._replace(workers=(*workers[:token], self.workers.of(worker), *workers[token + 1 :]))

    def _who(self, worker: Worker) -> str:
        return f"gateway {GATEWAYS[worker.gateway]} (request {worker.token + 1})"

    def _moved(self, state: State, token: int, move: Move) -> Iterator[Next]:
        after = self._with(state, token, move.worker)
        told = f"{self._who(move.worker)} {move.told}"
        if move.contents != state.contents:
            after = after._replace(contents=move.contents)
        if move.answer is not None:
            told, after = self._answered(after, move.worker, move.answer, told)
        self.check(after, told)
        yield told, after
        if move.delayed is not None and state.delayed is None and state.delays < self.situation.trouble.delayed:
            yield f"{told} (yet)", after._replace(delayed=move.delayed, delays=state.delays + 1)

    def _answered(self, state: State, worker: Worker, answer: Answer, told: str) -> tuple[str, State]:
        shop = self.shops[state.shop]
        self.doing = said = f"{told}; answers {answer.said}{f' ({answer.status})' if answer.status else ''}"
        denied = self.promises.answered(state.contents, shop, worker, answer)
        return said, state._replace(shop=self._shop(shop.denied(worker.token))) if denied else state

    def _shop(self, shop: Shop) -> int:
        return self.shops.of(shop)

    def check(self, state: State, doing: str) -> None:
        self.doing = doing
        self.promises.hold(state.contents, self.shops[state.shop])

    # the merchant

    def _sends(self, state: State, token: int, worker: Worker) -> Iterator[Next]:
        who = self._who(worker)
        if not self.machine.covered(worker, state.now):
            # A first try is not made; a later one finds that its deadline has passed, and does not leave either.
            first, later = "too short", "lost" if worker.unknown else "not ready"
            short = self.machine.ends(worker, first if not worker.sends else later)
            yield f"{who} sees that it is too late to send", self._with(state, token, short)
            return
        effect: Effect = self.machine.records[worker.effect]
        shop: Shop = self.shops[state.shop]
        sent = worker._replace(phase="sent", sends=worker.sends + 1, reply=None)
        posted = self._shop(shop.posted(token, sent.sends, effect.effect_id))
        yield f"{who} sends the order", self._with(state, token, sent)._replace(shop=posted)
        unreached = worker._replace(sends=worker.sends + 1)
        yield from self._not_known(state, token, unreached, "cannot reach the merchant", "not ready")

    def _hears(self, state: State, token: int, worker: Worker) -> Iterator[Next]:
        who = self._who(worker)
        if worker.reply is not None:
            what, _, number = worker.reply.partition(":")
            if what == "not ready":
                yield from self._not_known(state, token, worker, "hears that nothing was done", what)
                return
            ending = self.machine.ends(worker, what, result_of(int(number)) if number else None)
            yield from self._ending(state, token, ending, f"{who} hears that it was {worker.reply}")
        yield from self._not_known(state, token, worker, "gets a 500, a broken connection or nothing in time", "lost")

    def _not_known(self, state: State, token: int, worker: Worker, told: str, what: str) -> Iterator[Next]:
        again = self.situation.mode is Mode.SAFE_TO_RETRY and worker.sends < MOST_SENDS
        if again and self.machine.covered(worker, state.now):
            unknown = worker.unknown or what == "lost"
            back = worker._replace(phase="granted", reply=None, unknown=unknown)
            yield f"{self._who(worker)} {told}, and tries again", self._with(state, token, back)
        ending = self.machine.ends(worker, "lost" if worker.unknown else what)
        yield from self._ending(state, token, ending, f"{self._who(worker)} {told}")

    def _ending(self, state: State, token: int, ending: Worker, told: str) -> Iterator[Next]:
        ending, early = self.machine.settles_early(ending)
        after = self._with(state, token, ending)
        if early is not None:
            told, after = self._answered(after, ending, early, told)
        yield told, after

    def _merchant(self, state: State) -> Iterator[Next]:
        shop: Shop = self.shops[state.shop]
        keyed = self.situation.mode is Mode.SAFE_TO_RETRY
        for post in shop.wire:
            for told, after, reply in shop.takes(post, self._sku(state, post.token), keyed=keyed):
                then = state._replace(shop=self._shop(after))
                worker: Worker = self.workers[state.workers[post.token]]
                if worker.phase == "sent" and worker.sends == post.tried:
                    then = self._with(then, post.token, worker._replace(reply=reply))
                told = f"the merchant {told} (request {post.token + 1})"
                self.check(then, told)
                yield told, then

    def _sku(self, state: State, token: int) -> str:
        worker: Worker = self.workers[state.workers[token]]
        return self.situation.asks[worker.caller].sku
