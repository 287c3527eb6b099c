"""What must hold at every write, every send and every answer of a history, whatever befell it.

The watch knows the truth: the ledger's records, the merchant's books and what is still on its way to them. What was
never promised (a claim that nobody waited for and a failover lost, an operator who was wrong) is excused by name and
counted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.core.conversation import Writes
from gateway.core.errors import GatewayError
from gateway.core.outcome import Seen, SeenKind
from gateway.core.ports import MerchantRequest
from gateway.core.record import Effect, Mode, Status
from tests.faults import endings, judged, judged_writes
from tests.faults.approvals import Approvals, same_work
from tests.faults.limited import Limited
from tests.faults.merchant import Order
from tests.faults.replies import UNAVAILABLE, Meaning, Reply
from tests.faults.shop import BY_NAME

if TYPE_CHECKING:
    from tests.faults.callers import Served
    from tests.faults.gateways import Process
    from tests.faults.plan import Job
    from tests.faults.run import World

_LOST: Final = "a claim that nobody waited for was lost by a failover"
SLACK_MS: Final = 2
MAX_TOKENS: Final = 64
"""Claims that an effect may issue while it stays unknown (4.6)."""


class Watch:
    """Everything that was seen in a history, and what of it must not be."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broken: list[tuple[str, str]] = []
        self.answers: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()
        self.excuses: dict[str, str] = {}
        """Keys for which at most once was not promised, and why."""
        self.forgotten: set[str] = set()
        """Keys of which a failover lost a write."""
        self.ledger_jumped = False
        self.latest_ms = 0
        """What the ledger's clock showed when it jumped."""
        self.said_wrongly: dict[str, str] = {}
        """Keys of which somebody said what need not be so: the kind of the fault."""
        self.alarms: Counter[str] = Counter()
        self.absences: Counter[str] = Counter()
        self.refused_for_room: set[str] = set()
        """Keys whose end found no room in the ledger, and no other fault in its way."""
        self.started: Counter[str] = Counter()
        self.senders: dict[str, set[int]] = {}
        self.stirred: set[str] = set()
        """Keys whose lease lapsed, or that somebody resolved: their worker may come too late."""
        self.told_nothing: set[str] = set()
        """Keys of which some exchange ended in an answer that means: unknown."""
        self.resolved: set[str] = set()
        self.conflicts: set[str] = set()
        self.told_done: dict[str, Process] = {}
        """Keys whose success a gateway saw, and which."""
        self.told_committed: dict[str, Process] = {}
        """The same, of what an honest status endpoint said."""
        self.claims_lost: set[bytes] = set()
        """Tokens of claims that a failover lost."""
        self.needs_alarm: dict[str, Process] = {}
        """Keys that were told as done and not recorded once a failover had lost their claim, and by which gateway."""
        self.bound: dict[tuple[str, str, str], str] = {}
        """What an id was answered with."""
        self.told_of_success: dict[tuple[str, str, str], set[str]] = {}
        """What was wanted and is said to be done, by what is identical."""
        self.said_failed: set[str] = set()
        self.writer: Served | None = None
        """The request whose write is applied just now."""
        self.approvals = Approvals(self)
        self.limits = Limited(self)
        self.granted_at: dict[str, float] = {}
        """When an approval was granted, by its id."""
        self.claimed_at: dict[tuple[str, bytes], float] = {}
        """When a token was given a claim."""
        self.repeatable: set[str] = set()
        """Keys of work that its runtime may do again: no harm is done by it."""
        self.submitted: dict[tuple[str, str], str] = {}
        """What a token without an id was answered with."""
        self.intents: dict[str, dict[tuple[str, int], str]] = {}
        """Of what is submitted without an id: by key and attempt, what was wanted."""
        self.firsts: dict[tuple[str, str], float] = {}
        self.undone: set[str] = set()
        """Keys that came to nothing, or were forgotten: their number may name another since."""

    def broke(self, promise: str, what: str) -> None:
        self.broken.append((promise, what))
        self.world.say("BROKEN", f"{promise}: {what}")
        self.world.loop.stopped = True

    def excuse(self, key: str, why: str) -> None:
        if self.excuses.setdefault(key, why) == why:
            self.excused[why] += 1

    # the ledger

    def written(self, before: dict[bytes, Effect | None], writes: Writes, now_ms: int) -> None:
        """A swap is applied: `before` is what stood."""
        for event in writes.events:
            if event.type in ("approval.granted", "approval.denied"):
                self.granted_at[str(event.data["approval"])] = self.world.loop.now
            said = ", ".join(f"{name} {value}" for name, value in event.data.items() if name != "seen")
            self.world.say("ledger", f"{event.type} {(event.effect_id or b'').hex()[:8]}: {said}")
            if event.effect_id is not None:
                stood = before.get(event.effect_id)
                becomes = writes.effects.get(event.effect_id)
                judge = judged_writes.JUDGES.get(event.type)
                if judge is not None:
                    judge(self, event.effect_id.hex(), stood, becomes, event, now_ms)
        self.approvals.written(before, writes)
        self.limits.written(writes)
        for effect in writes.effects.values():
            if effect is not None and len(effect.tokens) > MAX_TOKENS + self.absences[effect.hex]:
                self.broke("9.4", f"{effect.hex[:8]} keeps {len(effect.tokens)} tokens")

    def forgot(self, lost: list[Writes]) -> None:
        """A failover lost these. Claims are promised only where somebody waited for them (4.14)."""
        for writes in lost:
            self.forgotten.update(effect.hex() for effect in writes.effects)
            self.undone.update(effect.hex() for effect in writes.effects)
            for event in writes.events:
                if event.type == "effect.executing" and event.effect_id is not None:
                    self.started[event.effect_id.hex()] -= 1
                    lost_claim = writes.effects[event.effect_id]
                    self.claims_lost.add(lost_claim.tokens[-1] if lost_claim is not None else b"")
                    if not self.world.plan.waits:
                        self.excuse(event.effect_id.hex(), _LOST)
        self.approvals.forgot(lost)

    def must_not_happen(self, key: str, what: str) -> None:
        books = self.world.books
        if key not in self.excuses and key not in self.repeatable and (books.of(key) or books.pending(key)):
            done = "was done" if books.of(key) else "is still on its way"
            self.broke("5", f"{key[:8]} is {what}, but it {done}")

    def alarmed(self, against: str) -> None:
        """A gateway tells of a success that contradicts the record, or whose claim the ledger has lost."""
        self.alarms[against] += 1

    # those who say how an unknown outcome ended

    def asking(self, process: Process, key: str, request: MerchantRequest) -> None:
        """A status endpoint is asked about a call."""
        self.world.say(process.name, f"asks what became of {key[:8]}")
        if any(name == "idempotency-key" for name, _ in request.headers):
            self.broke("6", f"the question about {key[:8]} carries its key")

    def told(self, process: Process, key: str, body: bytes, *, honest: bool) -> None:
        """A gateway hears a status endpoint's answer."""
        if honest and b'"committed"' in body:
            self.told_committed[key] = process

    def not_resolved(self, effect: Effect, refused: GatewayError, *, lapsed: bool) -> None:
        """An operator is told that it cannot be resolved; `lapsed`: its lease was over when that was asked."""
        stands = (refused.details or {}).get("stands", {}).get("status")
        now = self.world.ledger.effect(effect.effect_id)
        same = now is not None and now.tokens == effect.tokens
        if stands == "executing" and lapsed and same and not self.ledger_jumped:
            self.broke("4.5", f"{effect.hex[:8]} is said to be executing, though its lease is over")

    # the runtimes that run effects themselves

    def runs(self, job: Job, key: str) -> None:
        """A runtime begins its work, as it was told that it may."""
        self.world.say("runtime", f"runs {key[:8]} ({job})")
        self.limits.runs(key)
        if not self.started[key] and key not in self.forgotten:
            self.broke("7.6", f"{key[:8]} is run by somebody for whom no effect.executing was written")

    # the merchant

    def sending(self, process: Process, served: Served | None, key: str) -> None:
        """A request is about to be sent, if the merchant can be reached."""
        effect = self.world.ledger.effect(bytes.fromhex(key))
        self.world.say(process.name, f"sends {key[:8]}, which the ledger has as {effect and effect.status}")
        assert served is not None, "nobody sends but for a request"
        served.sends += 1
        served.keys.add(key)
        self.limits.runs(key)
        if not served.token and effect is not None and effect.tokens:
            served.token = effect.tokens[-1]
        at_most_once = BY_NAME[served.ask.tool].mode is Mode.AT_MOST_ONCE
        if at_most_once and served.sends > 1:
            self.broke("4.6", f"{key[:8]} is sent twice under one claim")
        senders = self.senders.setdefault(key, set())
        senders.add(id(served))
        if len(senders) > self.started[key] and key not in self.forgotten:
            self.broke("7.6", f"{key[:8]} is sent by somebody for whom no effect.executing was written")

    def leaving(self, process: Process, served: Served | None, key: str, left_s: float) -> None:
        """A request leaves, and its exchange will end within `left_s`."""
        effect = self.world.ledger.effect(bytes.fromhex(key))
        assert served is not None
        if self.ledger_jumped or key in self.forgotten or effect is None:
            return
        at_most_once = effect.mode is Mode.AT_MOST_ONCE
        now_ms, ends = self.world.clock(), (effect.claimed_at or 0) + effect.lease_ms
        if effect.status is Status.EXECUTING and now_ms + left_s * 1000 > ends + SLACK_MS:
            self.broke("4.5", f"{key[:8]} is sent though its lease does not cover its deadline")
        if effect.status is not Status.EXECUTING and at_most_once:
            self.broke("4.5", f"{key[:8]} is sent though it is {effect.status}")

    def booked(self, order: Order) -> None:
        """The merchant did it: not after anybody was told that it would not happen."""
        effect = self.world.ledger.effect(bytes.fromhex(order.key))
        if order.key in self.excuses or order.key in self.forgotten:
            return
        status = None if effect is None else effect.status
        if effect is not None and not same_work(effect, order.tool, order.sku):
            self.broke("7.4", f"{order.key[:8]} is done with other arguments than it was asked for")
        if order.key in self.repeatable:
            return
        if status in (None, Status.FAILED, Status.ABSENT, Status.DENIED) or order.key in self.said_failed:
            self.broke("5", f"{order.key[:8]} is done though it was said not to be: {status}")

    def saw(
        self, process: Process, served: Served | None, key: str, seen: Seen, reply: Reply, order: Order | None
    ) -> None:
        """A gateway sees how an exchange ended."""
        assert served is not None
        meaning = reply.meaning
        if seen.kind is SeenKind.TIMEOUT:
            meaning = Meaning.UNKNOWN if seen.sent else Meaning.NOT_DONE
        elif BY_NAME[served.ask.tool].unavailable_means_not_executed and seen.status in UNAVAILABLE:
            meaning = Meaning.NOT_DONE
        served.meanings.append(meaning)
        if meaning is Meaning.UNKNOWN:
            self.told_nothing.add(key)
        if meaning is Meaning.DONE and order is not None:
            self.told_done[key] = process
        self.world.say(process.name, f"sees {seen.kind} {seen.status or ''}: {meaning}")

    # the runtime

    def answered(self, served: Served, answer: Any) -> None:
        """A gateway answers, at this very moment."""
        served.answered = True
        self.limits.answered(served, answer)
        if isinstance(answer, GatewayError):
            self.answers[answer.code] += 1
            self.world.say(f"gateway {served.gateway}", f"answers {served.ask.call}: {answer.code}")
            if served.judge is not None:
                served.judge(self, served, answer)
            else:
                judged.problem(self, served, answer)
        elif served.judge is not None:
            if isinstance(answer, dict):
                said = f"{answer.get('decision', 'report')}/{answer['status']}"
                self.answers[f"effects: {said}"] += 1
                self.world.say(f"gateway {served.gateway}", f"answers: {said} ({(answer['effect_id'] or '')[:8]})")
            served.judge(self, served, answer)
        else:
            self.answers[f"{answer.decision}/{answer.status}"] += 1
            self.world.say(f"gateway {served.gateway}", f"answers {served.ask.call}: {judged.told(answer)}")
            judged.answer(self, served, answer)

    def happened(self, key: str, result: bytes | None, dropped: bool) -> bool:
        orders = self.world.books.of(key)
        if dropped or result == b"null":
            return bool(orders)
        return any(result in (order.json, msgspec.json.encode(order.text.decode())) for order in orders)

    def ended(self) -> None:
        """Nothing is left to happen."""
        if not self.broken:
            endings.check(self.world, self)
