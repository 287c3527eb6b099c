"""One request inside a gateway, as an explicit machine: every move is one trip to the ledger, as `service/deciding`,
`service/handle_call` and `service/running` make them.

Whatever happens between two trips (judging, answering) belongs to the trip before it: nobody else can tell.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.core import decisions as d
from gateway.core import step as steps
from gateway.core.conversation import Where, Writes, assumed_empty, narrowed
from gateway.core.record import Effect, Fault, Outcome, Status
from gateway.core.requests import Claim, End, Grant, Lose, Refuse, Release, Settle, Withdraw, where_of
from gateway.service.decide_approval import TRIES as GRANT_TRIES
from gateway.service.running import SETTLE_TRIES
from tests.small_world import answers
from tests.small_world.answers import Answer
from tests.small_world.asked import Asked, as_written, decided_at, key_of, named, plain, widened
from tests.small_world.ledger import Ledger
from tests.small_world.moves import UNREAD, Move, Worker, over
from tests.small_world.numbers import Numbers
from tests.small_world.situations import FOREVER_MS, LEASE_TICKS, Situation
from tests.small_world.story import Broken

REFUSED: Final = Outcome(Status.FAILED, fault=Fault("merchant_refused", "No."))
DECIDER: Final = "ops"


class Machine:
    """All workers of one situation, over one ledger. `settles_first` is off only to see that it matters (4.2)."""

    def __init__(self, situation: Situation, ledger: Ledger, *, settles_first: bool = True) -> None:
        self.situation = situation
        self.ledger = ledger
        self.settles_first = settles_first
        self.requests = Numbers()
        self.wheres = Numbers()
        self.records = Numbers()
        self._judged: dict[tuple[int, int], d.Step] = {}
        self._moves: dict[tuple[Worker, int, int], list[Move]] = {}

    # starting

    def begun(self, caller: int, token: int, gateway: int, now: int) -> list[tuple[str, Worker]]:
        """A request that came in: swapped in unseen, or looked up first where the id came lately."""
        claim = self.situation.claim(caller, token)
        request, where = self.request(claim), self.wheres.of(claim.where())
        guess = self.ledger.keep(assumed_empty(claim.where()))
        worker = Worker(caller, token, gateway, "claiming", request, where, since=now)
        return [("takes the call for new", worker._replace(view=guess)), ("will look first", worker)]

    def decides(self, held: Effect, caller: int, token: int, gateway: int, now: int, *, grants: bool) -> Worker:
        """Somebody who has seen an approval and decides it; `caller`: whose call it is of."""
        assert held.approval is not None
        claim = self.situation.claim(caller, token)
        decision: Grant | Refuse
        if grants:
            decision = Grant(held.effect_id, held.approval.id, DECIDER, claim)
        else:
            hold_ms = claim.terms.hold_ms
            decision = Refuse(held.effect_id, held.approval.id, DECIDER, hold_ms, FOREVER_MS)
        where = self.wheres.of(decided_at(held, claim))
        return Worker(caller, token, gateway, "deciding", self.request(decision), where, since=now)

    def request(self, request: Asked) -> int:
        return self.requests.of(msgspec.msgpack.encode((type(request).__name__, plain(request))), request)

    def judge(self, request: int, view: int) -> d.Step:
        key = (request, view)
        if key not in self._judged:
            self._judged[key] = steps.step(self.ledger.view(view), self.requests[request])
        return self._judged[key]

    # moves

    def moves(self, worker: Worker, contents: int, now: int) -> list[Move]:
        """Every trip to the ledger that this worker may make now, and every way in which it may go."""
        key = (worker, contents, now)
        found = self._moves.get(key)
        if found is None:
            found = self._moves[key] = list(self._ways(worker, contents, now))
        return found

    def _ways(self, worker: Worker, contents: int, now: int) -> list[Move]:
        match worker.phase:
            case "claiming" | "ending" | "deciding":
                return self._trip(worker, contents, now)
            case "waiting":
                claim: Claim = self.requests[worker.request]
                again = worker._replace(phase="claiming", where=self.wheres.of(claim.where()), since=now)
                late = self._over(worker, contents, "waited as long as it may", Answer("call_in_flight"))
                return [late, self._read(again, contents, now)]
        return []

    def _trip(self, worker: Worker, contents: int, now: int) -> list[Move]:
        if worker.view == UNREAD or self._needs_read(worker):
            lost = self._failed(worker, contents, "reads; no answer comes", None, may_have_run=False)
            return [self._read(worker, contents, now), *lost]
        judged = self.judge(worker.request, worker.view)
        assert judged.writes is not None
        applied, after, seen = self.swap(worker.request, worker.where, worker.view, contents, now)
        what = f"swaps ({named(judged.decision)})"
        there = f"{what}: {'written' if applied else 'something changed, nothing is written'}"
        arrived = worker._replace(view=seen)
        if not applied or isinstance(judged.decision, d.Again):
            moves = [self._concluded(arrived, after, now, there)]
        else:
            decision = as_written(judged.decision, self.ledger.view(seen))
            moves = [self._decided(arrived, after, now, decision, there)]
        delayed = (worker.request, worker.where, worker.view)
        # A withdrawal writes anew at each try: how often it is not heard has to have an end.
        endless = isinstance(self.requests[worker.request], Withdraw) and worker.tries > 0
        if applied and not endless:
            moves += self._failed(worker, after, f"{there}, but no answer comes", None)
        moves += self._failed(worker, contents, f"{what}: under way, no answer comes", delayed)
        return moves

    def widened(self, where: int, need: d.Need) -> int:
        """A where that has what a decision lacked."""
        return self.wheres.of(widened(self.wheres[where], need))

    def _needs_read(self, worker: Worker) -> bool:
        judged = self.judge(worker.request, worker.view)
        return isinstance(judged.decision, d.Need) or judged.writes is None

    def swap(self, request: int, where: int, view: int, contents: int, now: int) -> tuple[bool, int, int]:
        writes: Writes | None = self.judge(request, view).writes
        assert writes is not None
        swapped = self.ledger.swap(contents, self.wheres[where], self.ledger.view(view), writes, now)
        return swapped.applied, swapped.contents, swapped.view

    def delivered(self, delayed: tuple[int, int, int], contents: int, now: int) -> tuple[bool, int]:
        """A swap that its sender has given up arrives."""
        applied, after, _ = self.swap(*delayed, contents, now)
        return applied, after

    def _read(self, worker: Worker, contents: int, now: int) -> Move:
        where: Where = self.wheres[worker.where]
        if worker.view != UNREAD:
            judged = self.judge(worker.request, worker.view)
            if isinstance(judged.decision, d.Need):
                where = widened(where, judged.decision)
        seen = self.ledger.read(contents, where, now)
        return self._concluded(
            worker._replace(where=self.wheres.of(where), view=seen), contents, now, "reads the ledger"
        )

    def _concluded(self, worker: Worker, contents: int, now: int, told: str) -> Move:
        """Judge what was seen; what needs another trip waits for it."""
        judged = self.judge(worker.request, worker.view)
        pending = isinstance(judged.decision, d.Need) or judged.writes is not None
        if pending or self.ledger.view(worker.view).now_ms is None:
            return Move(told, contents, worker)
        return self._decided(worker, contents, now, judged.decision, told)

    def _failed(
        self, worker: Worker, contents: int, told: str, delayed: Any, *, may_have_run: bool = True
    ) -> list[Move]:
        """A trip whose answer did not come: a claim is withdrawn, an end tried again (4.11)."""
        if worker.phase == "claiming":
            answer = Answer("ledger_unavailable")
            if not may_have_run:
                return [self._over(worker, contents, told, answer)]
            return [Move(told, contents, self._taking_back(worker, self.requests[worker.request]), answer, delayed)]
        if worker.phase == "deciding":
            return self._decision_failed(worker, contents, told, delayed, may_have_run=may_have_run)
        tries = min(SETTLE_TRIES, worker.tries + 1)
        again = worker._replace(tries=tries, view=UNREAD, where=self._end_where(worker))
        if tries < SETTLE_TRIES or worker.answered:
            return [Move(told, contents, again, None, delayed)]
        return [
            Move(
                told,
                contents,
                again._replace(answered=True),
                answers.unrecorded(self.requests[worker.request]),
                delayed,
            )
        ]

    def _taking_back(self, worker: Worker, claim: Claim) -> Worker:
        back = Worker(
            worker.caller, worker.token, worker.gateway, "ending", self.request(Withdraw(claim)), answered=True
        )
        return back._replace(where=self.wheres.of(claim.where()))

    def _decision_failed(
        self, worker: Worker, contents: int, told: str, delayed: Any, *, may_have_run: bool
    ) -> list[Move]:
        """A refusal is not said again by the gateway; a grant is, once it may have landed, and then taken back."""
        decision: Grant | Refuse = self.requests[worker.request]
        unheard = Answer("ledger_unavailable")
        if isinstance(decision, Refuse) or not (may_have_run or worker.tries):
            return [Move(told, contents, over(worker), unheard, delayed)]
        if worker.tries + 1 < GRANT_TRIES:
            return [Move(told, contents, worker._replace(tries=worker.tries + 1, view=UNREAD), None, delayed)]
        return [Move(told, contents, self._taking_back(worker, decision.claim), unheard, delayed)]

    def _over(self, worker: Worker, contents: int, told: str, answer: Answer | None) -> Move:
        return Move(told, contents, over(worker), answer)

    # decisions

    def _decided(self, worker: Worker, contents: int, now: int, decision: d.Decision, told: str) -> Move:
        if worker.phase == "ending":
            return self._ended(worker, contents, decision, told)
        if worker.phase == "deciding":
            return self._approval(worker, contents, decision, told)
        match decision:
            case d.Granted(effect=effect):
                # What it saw goes with it into its end, narrowed to what an end reads.
                granted = worker._replace(phase="granted", effect=self.records.of(key_of(effect), effect))
                return Move(f"{told}; granted", contents, granted)
            case d.Wait(repeat_of=kept):
                claim: Claim = self.requests[worker.request]
                kept_too = msgspec.structs.replace(claim, repeat_of=claim.repeat_of | kept)
                waiting = worker._replace(phase="waiting", request=self.request(kept_too), where=UNREAD, view=UNREAD)
                return Move(f"{told}; waits", contents, waiting._replace(since=0))
        return self._over(worker, contents, told, answers.of_claim(decision))

    def _approval(self, worker: Worker, contents: int, decision: d.Decision, told: str) -> Move:
        """What `service/decide_approval` makes of a decision on an approval."""
        if isinstance(decision, d.Granted):
            grant: Grant = self.requests[worker.request]
            key = self.records.of(key_of(decision.effect), decision.effect)
            runs = worker._replace(phase="granted", effect=key, request=self.request(grant.claim), tries=0)
            return Move(f"{told}; granted", contents, runs)
        return self._over(worker, contents, told, answers.of_approval(decision))

    def _ended(self, worker: Worker, contents: int, decision: d.Decision, told: str) -> Move:
        """What `service/running` makes of a decision on an end."""
        end: End | Withdraw = self.requests[worker.request]
        if isinstance(end, Settle) and end.outcome.status is Status.SUCCEEDED and isinstance(decision, d.Late):
            raise Broken("4.4: a success that came late was passed over in silence")
        if worker.answered:
            return self._over(worker, contents, told, None)
        return self._over(worker, contents, told, answers.of_end(end, decision))

    # ends

    def covered(self, worker: Worker, now: int) -> bool:
        """Whether the lease, on the worker's own clock, covers what is left of the deadline (4.5)."""
        return now < worker.since + LEASE_TICKS

    def ends(self, worker: Worker, what: str, result: bytes | None = None) -> Worker:
        """The worker about to write how its call ended: "succeeded", "refused", "not ready", "lost" or "too short"."""
        effect: Effect = self.records[worker.effect]
        claim: Claim = self.requests[worker.request]
        end: End
        if what == "succeeded":
            end = Settle(effect.effect_id, claim.token, Outcome(Status.SUCCEEDED, result), FOREVER_MS)
        elif what == "refused":
            end = Settle(effect.effect_id, claim.token, REFUSED, FOREVER_MS)
        elif what == "lost":
            end = Lose(effect.effect_id, claim.token, "timed_out")
        else:
            reason = "lease too short" if what == "too short" else "not ready"
            end = Release(effect.effect_id, claim.token, reason, FOREVER_MS)
        where = where_of(effect)
        seen = self.ledger.keep(narrowed(self.ledger.view(worker.view), where))
        ending = worker._replace(phase="ending", request=self.request(end), where=self.wheres.of(where), view=seen)
        # A view that was narrowed to what an end reads may leave nothing to decide: then it is judged at once.
        return ending._replace(since=0, sends=0, reply=None, unknown=False)

    def settles_early(self, worker: Worker) -> tuple[Worker, Answer | None]:
        """With the order of 4.2 turned round: answered first, recorded after."""
        end: End = self.requests[worker.request]
        if self.settles_first or not isinstance(end, Settle):
            return worker, None
        return worker._replace(answered=True), Answer(
            "proceed", end.outcome.status.value, end.outcome.result, end.effect_id
        )

    def _end_where(self, worker: Worker) -> int:
        asked = self.requests[worker.request]
        if isinstance(asked, Withdraw):
            return self.wheres.of(asked.claim.where())
        return self.wheres.of(where_of(self.records[worker.effect]))
