"""The real decider in lockstep with a small model of section 4, and the trace of both against what must never be.

The model (`Model`) is written from the words of the semantics: it predicts every answer. `Trace` knows nothing of
the model: it sees only what was asked and answered, and holds the promises that no interleaving may break.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from dataclasses import dataclass, field, replace

import fakeredis._helpers
import fakeredis._socket._base
import fakeredis.commands_mixins.server_mixin
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from gateway.adapters import ledger_writes, redis_listings
from gateway.adapters.ledger_keys import Bucket, bucket_of
from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.core import decisions as d
from gateway.core import identity
from gateway.core.approving import APPROVAL_DENIED
from gateway.core.expiry import APPROVAL_EXPIRED, APPROVAL_LAPSED
from gateway.core.explain import status_of
from gateway.core.identity import Kind, Place, Scope
from gateway.core.record import Fault, Mode, Outcome, Status
from gateway.core.requests import (
    Asks,
    Claim,
    Expire,
    Grant,
    Lose,
    OnRepeat,
    Refuse,
    Release,
    Renew,
    Resolve,
    Ruled,
    Settle,
    Terms,
)
from gateway.service.deciding import Decider

CLOCKS = (fakeredis._helpers, fakeredis._socket._base, fakeredis.commands_mixins.server_mixin)
WINDOW_MS, LEASE_MS, HOLD_MS, KEEP_MS = 60_000, 15_000, 40_000, 86_400_000
SUCCEEDED, FAILED, DENIED, HELD = Status.SUCCEEDED, Status.FAILED, Status.DENIED, Status.AWAITING_APPROVAL
EXECUTING, UNKNOWN = Status.EXECUTING, Status.INDETERMINATE
FAILURE = Outcome(FAILED, fault=Fault("merchant_refused", "No."))
EXPIRED = Outcome(DENIED, fault=APPROVAL_EXPIRED)
LAPSED = Outcome(DENIED, fault=APPROVAL_LAPSED)
REFUSED = Outcome(DENIED, fault=APPROVAL_DENIED)


@dataclass(frozen=True)
class Ask:
    """One request, without its token."""

    call: str | None
    sku: str
    turn: str | None
    step: int | None
    attempt: int | None
    scope: Scope
    on_repeat: OnRepeat
    mode: Mode
    approvers: tuple[str, ...] | None = None
    """Whom a rule wants asked; None: no rule wants anybody."""
    version: int = 1
    submitted: bool = False


# --- the model ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Work:
    """One effect, as the semantics describe it."""

    key: tuple
    sku: str
    turn: str | None
    mode: Mode
    status: Status
    tokens: list = field(default_factory=list)
    claimed: int = 0
    moved: int = 0
    held: int = 0
    settled: int = 0
    was_unknown: bool = False
    repeat_of: frozenset = frozenset()
    outcome: Outcome | None = None
    settled_by: bytes = b""
    id: bytes | None = None
    submitted: bool = False
    version: int = 1
    born: int = 0
    because: str = ""
    approvers: tuple[str, ...] = ()
    approval: int = 0
    """Which of the approvals that were ever opened; 0: none."""
    decided_by: str | None = None


@dataclass(eq=False)
class Named:
    """An id that was answered with an effect (2.3)."""

    slot: tuple
    work: Work
    place: Place


class Model:
    def __init__(self):
        self.now = 0
        self.works = []  # in the order they came
        self.named = []
        self.numbers = []  # (place, attempt, sku, number, work)
        self.highest = {}
        self.marks = {}  # key -> the work that a resolution declared absent
        self.approvals = itertools.count(1)
        self.granting = False

    # what stands

    def tidy(self):
        """4.13: what is settled or held ends with the retention time."""
        for work in [*self.works]:
            settled = dict.fromkeys((SUCCEEDED, FAILED, DENIED), work.settled)
            since = {**settled, HELD: work.born}.get(work.status)
            if since is not None and self.now - since >= KEEP_MS:
                self.vanish(work)
        self.marks = {key: work for key, work in self.marks.items() if self.now - work.settled < KEEP_MS}

    def vanish(self, work):
        self.works.remove(work)
        self.named = [n for n in self.named if n.work is not work]
        self.numbers = [n for n in self.numbers if n[4] is not work]

    def lapse(self, work):
        """4.5"""
        if work.status is EXECUTING and self.now >= work.claimed + LEASE_MS:
            work.status, work.was_unknown, work.moved = UNKNOWN, True, self.now

    def expire(self, work):
        """7.4: a hold that nobody approved in time."""
        if work.status is HELD and self.now >= work.held + HOLD_MS:
            self.end(work, LAPSED if work.because == "policy" else EXPIRED, b"")

    # approvals

    def open(self, work, because):
        """7.4: of this tool and for these approvers, by the request that is judged."""
        ask = self.request[0]
        work.because, work.approvers, work.approval = because, ask.approvers or ("operator",), next(self.approvals)
        work.decided_by, work.held = None, self.now
        work.version, work.submitted = ask.version, ask.submitted

    def outdated(self, work):
        ask = self.request[0]
        others = ask.approvers is not None and ask.approvers != work.approvers
        return work.version != ask.version or others

    def reopen(self, work, because):
        self.open(work, because)
        work.mode = self.request[0].mode
        return "blocked", work

    def grant(self, work, approval, by, ask, token):
        """4.9, 7.4: judged anew; then run, or left for its submission."""
        self.tidy()
        if work is None or work.approval != approval:
            return "late"
        if work.key in self.marks:
            return "late"  # it was not sent, and is shown as decided: a new call is approved anew
        self.expire(work)
        if work.decided_by is not None and work.status is not DENIED:
            return "approved" if work.decided_by == by else "late"
        if work.status is not HELD:
            return "late"
        self.request = ask, token, 1
        if self.outdated(work):
            self.reopen(work, work.because)
            return "reopened"
        self.granting = True
        what, _ = self.judge(set(work.repeat_of), work)
        self.granting = False
        if what != "granted":
            return what
        work.decided_by = by
        if work.submitted:
            work.held = self.now
            return "approved"
        work.status, work.claimed, work.moved = EXECUTING, self.now, self.now
        work.tokens.append(token)
        return "granted"

    def refuse(self, work, approval, by):
        """7.4"""
        self.tidy()
        if work is None or work.approval != approval:
            return "late"
        self.expire(work)
        if work.status is DENIED and work.outcome == REFUSED:
            return "settled" if work.decided_by == by else "late"
        if work.status is not HELD or work.decided_by is not None:
            return "late"
        self.end(work, REFUSED, b"")
        work.decided_by = by
        return "settled"

    def renew(self, work, token):
        """7.2"""
        if work is None or work.key in self.marks:
            return "late"
        self.lapse(work)
        if work.status is not EXECUTING or work.tokens[-1] != token:
            return "late"
        work.claimed = self.now
        return "renewed"

    # a claim

    def claim(self, ask, token, kept):
        """(what, work) as the promises word it."""
        self.tidy()
        attempt = ask.attempt or self.highest.get(ask.turn, 0) or 1
        self.request = ask, token, attempt
        slot = (ask.call, ask.turn if ask.scope is Scope.TURN else None, ask.scope is Scope.TURN)
        place = Place(ask.turn, ask.step, attempt if ask.turn is not None else None)
        self.slot, self.place = slot, place
        same, other, repeats = self.under_id(ask, slot, place)
        if same:
            return self.known(self.likeliest(same, place).work)
        if other:
            return "reused", None
        number, own = self.own(ask, attempt)
        if own is not None:
            return self.known(own)
        if ask.turn is not None and attempt < self.highest.get(ask.turn, 0):
            return "superseded", None
        self.number = number
        return self.judge({n.work for n in repeats} | {w for w in self.works if w.id in kept}, None)

    @staticmethod
    def likeliest(same, place):
        """2.3, 2.5: at this very step, in this attempt if there is one; else, in a later attempt, in the order in
        which they came; else the latest."""
        here = [n for n in same if place.step is not None and n.place.step == place.step]
        here = [n for n in here if n.place.attempt == place.attempt] or here
        attempts = {n.place.attempt for n in same} | {place.attempt}
        others = None not in attempts and all(n.place.attempt != place.attempt for n in same)
        if not here and place.step is not None and others:
            return same[0]
        return (here or same)[-1]

    def under_id(self, ask, slot, place):
        """2.3"""

        def differ(one, two):
            return None not in (one, two) and one != two

        met = [
            n.work
            for n in self.named
            if n.slot == slot
            and n.work.sku == ask.sku
            and n.place.turn == place.turn
            and n.place.attempt == place.attempt is not None
            and differ(n.place.step, place.step)
        ]
        same, other, repeats = [], [], []
        for named in self.named if ask.call is not None else []:
            if named.slot != slot:
                continue
            turns, steps = differ(named.place.turn, place.turn), differ(named.place.step, place.step)
            auto = ask.scope is Scope.AUTO
            if named.work.sku != ask.sku:
                if not (auto and (turns or steps)):
                    other.append(named)
            elif (auto and (turns or (steps and not differ(named.place.attempt, place.attempt)))) or (
                auto and differ(named.place.attempt, place.attempt) and named.work in met
            ):
                repeats.append(named)
            else:
                same.append(named)
        return same, other, repeats

    def own(self, ask, attempt):
        """2.4, 2.5, 2.7: the lowest number free in this attempt, and what it names in any attempt."""
        within = ("turn", ask.turn) if ask.turn is not None else ("id", ask.call)
        self.within = within
        mine = [n for n in self.numbers if n[0] == within and n[2] == ask.sku]
        used = {n[3] for n in mine if n[1] == attempt}
        number = 0 if ask.call is None else next(n for n in itertools.count() if n not in used)
        natural = next((w for w in self.works if w.key == (within, ask.sku, number)), None)
        there = [n for n in mine if n[3] == number]
        if there and all(n[4] is not natural for n in there):
            # Also where its own effect is back from an absence (4.4): the number was free, and another took it.
            natural = max(there, key=lambda n: n[1])[4]
        return number, natural

    def known(self, work):
        _, token, _ = self.request
        self.lapse(work)
        self.expire(work)
        if work.status is HELD:
            return self.judge_held(work)
        if work.status is EXECUTING:
            if work.tokens[-1] == token:
                return "granted", work
            self.bind(work)
            return "wait", work
        if work.status is UNKNOWN and work.mode is Mode.SAFE_TO_RETRY and work.submitted is self.request[0].submitted:
            return self.take(work)
        self.bind(work)
        return "replay", work

    def judge(self, counted, held):
        """4.7 and 4.9"""
        ask, token, _ = self.request
        alike = [w for w in self.works if w.sku == ask.sku and w is not held]
        for work in alike:
            self.lapse(work)
            self.expire(work)
        unknown = [w for w in alike if w.was_unknown and w.status in (UNKNOWN, EXECUTING)]
        if unknown:
            first = unknown[-1]
            again = first.mode is Mode.SAFE_TO_RETRY and first.submitted is ask.submitted
            if first.mode is Mode.AT_MOST_ONCE or (first.status is UNKNOWN and not again):
                return "denied", first
            if self.granting:
                return "denied" if first.status is UNKNOWN else "wait", first
            if first.status is UNKNOWN:
                return self.take(first, alias=held is None)
            if first.tokens[-1] == token:
                return "granted", first
            if held is None:
                self.bind(first)
            return "wait", first
        repeats = [
            w
            for w in alike
            if w in counted
            or w.status in (EXECUTING, HELD)
            or w.was_unknown
            or (ask.turn is not None and w.turn == ask.turn)
            or self.now - w.moved < WINDOW_MS
        ]
        for first in sorted(repeats, key=lambda w: w.moved, reverse=True):
            if first.status in (FAILED, DENIED) or (first.status is HELD and held is not None):
                continue
            if first.status is HELD:
                return self.judge_held(first)
            if ask.on_repeat is OnRepeat.RUN:
                break
            if first.status is EXECUTING:
                return "wait", first
            if held is not None:
                return self.still_held(held)
            if ask.on_repeat is OnRepeat.REPLAY:
                self.bind(first)
                return "replay", first
            return "blocked", self.new(HELD, frozenset(repeats), "repeat")
        if held is not None:
            return self.hold_ended(held)
        if ask.approvers is not None:
            return "blocked", self.new(HELD, frozenset(), "policy")
        return "granted", self.new(EXECUTING, frozenset())

    def still_held(self, held):
        """4.9: a repeat of a success, which somebody may have approved for its submission."""
        if self.granting:
            return "granted", held
        if self.outdated(held):
            return self.reopen(held, "repeat")
        return self.use(held) if held.decided_by is not None else ("blocked", held)

    def hold_ended(self, held):
        """4.9: it runs, unless policy wants an approval that it has not."""
        if self.granting:
            return "granted", held
        ask = self.request[0]
        if ask.approvers is None:
            return self.take(held)
        if held.decided_by is not None and not self.outdated(held):
            return self.use(held)
        if held.because != "policy" or self.outdated(held):
            return self.reopen(held, "policy")
        return "blocked", held

    def use(self, held):
        """4.1: what is granted waits for its submission, and is no call's of the gateway."""
        return self.take(held) if self.request[0].submitted else ("blocked", held)

    def judge_held(self, work):
        what, found = self.judge(set(work.repeat_of), work)
        if what in ("blocked", "wait"):
            self.bind(work)
        return what, found

    def new(self, status, repeat_of, because=""):
        ask, token, attempt = self.request
        key = (self.within, ask.sku, self.number)
        work = Work(key, ask.sku, ask.turn, ask.mode, status, moved=self.now, held=self.now, repeat_of=repeat_of)
        work.born, work.submitted, work.version = self.now, ask.submitted, ask.version
        if because:
            self.open(work, because)
        if key in self.marks:
            work.tokens = self.marks.pop(key).tokens
        if status is EXECUTING:
            work.tokens.append(token)
            work.claimed = self.now
        self.works.append(work)
        if ask.call is not None:
            self.named.append(Named(self.slot, work, self.place))
        self.numbers.append((self.within, attempt, ask.sku, self.number, work))
        return work

    def take(self, work, alias=True):
        ask, token, _ = self.request
        if work.status is HELD:
            work.mode, work.submitted, work.version = ask.mode, ask.submitted, ask.version
        work.status, work.claimed, work.moved = EXECUTING, self.now, self.now
        work.tokens.append(token)
        if alias:
            self.bind(work)
        return "granted", work

    def bind(self, work):
        """2.4, 2.5"""
        ask, _, attempt = self.request
        within = ("turn", ask.turn) if ask.turn is not None else ("id", ask.call)
        mine = [n for n in self.named if n.slot == self.slot and n.work is work]
        anew = not [
            n
            for n in mine
            if n in self.under_id(ask, self.slot, self.place)[0]
            and (ask.scope is not Scope.AUTO or None in (ask.turn, ask.step) or n.place == self.place)
        ]
        if ask.call is None or anew or any(n.place.turn == ask.turn for n in mine):
            taken = [n for n in self.numbers if n[0] == within and n[2] == ask.sku]
            here = {n[3] for n in taken if n[1] == attempt}
            if not any(n[1] == attempt and n[4] is work for n in taken):
                elsewhere = [n[3] for n in taken if n[4] is work and n[3] not in here]
                lowest = next(n for n in itertools.count() if n not in here)
                number = elsewhere[0] if elsewhere else lowest
                self.numbers.append((within, attempt, ask.sku, number, work))
        if ask.call is not None and anew:
            self.named.append(Named(self.slot, work, self.place))

    def seen(self, what):
        """2.6: refusals and denials store nothing, not even this."""
        ask, _, attempt = self.request
        if ask.turn is not None and what in ("granted", "replay", "blocked", "wait"):
            self.highest[ask.turn] = max(attempt, self.highest.get(ask.turn, 0))

    # an end

    def standing(self, key):
        """What stands under an effect's key: the effect, or the mark of one that was resolved as absent."""
        self.tidy()
        return next((work for work in self.works if work.key == key), self.marks.get(key))

    def settle(self, work, token, outcome):
        """4.1, 4.3, 4.4"""
        success = outcome.status is SUCCEEDED
        if work is None or token not in work.tokens:
            return "late"
        if work.key in self.marks:
            if not success:
                return "late"
            self.works.append(self.marks.pop(work.key))
            self.end(work, outcome, token)
            return "settled"
        if work.status in (SUCCEEDED, FAILED, DENIED):
            if work.outcome == outcome and (work.settled_by == token or work.mode is Mode.SAFE_TO_RETRY):
                return "settled"
            if success and not work.settled_by and work.outcome == outcome:
                return "settled"  # resolved meanwhile, and rightly
            return "conflict" if success else "late"
        current = work.status is EXECUTING and work.tokens[-1] == token
        retried = work.status is EXECUTING and work.mode is Mode.SAFE_TO_RETRY
        if current or (success and (retried or work.status is UNKNOWN)):
            self.end(work, outcome, token)
            return "settled"
        return "conflict" if success and work.status in (EXECUTING, HELD) else "late"

    def end(self, work, outcome, token):
        work.status, work.outcome, work.settled_by = outcome.status, outcome, token
        work.settled = work.moved = self.now

    def release(self, work, token):
        if work is None or work.key in self.marks:
            return "gone"
        if work.status is EXECUTING and work.tokens[-1] == token:
            work.tokens = work.tokens[:-1]
            if work.was_unknown:
                work.status, work.moved = UNKNOWN, self.now
                return "late"
            return self.give_back(work)
        if work.status is UNKNOWN and work.tokens == [token]:
            work.tokens = []
            return self.give_back(work)
        return "late"

    def give_back(self, work):
        """4.4, 7.4: older tokens stay behind, and what somebody decided."""
        self.vanish(work)
        if work.tokens or work.decided_by is not None:
            work.settled = self.now
            self.marks[work.key] = work
        return "gone"

    def lose(self, work, token):
        if work is not None and work.key in self.marks:
            return "late"
        if work is not None and work.status is EXECUTING and work.tokens[-1] == token:
            work.status, work.was_unknown, work.moved = UNKNOWN, True, self.now
        return "late"

    def resolve(self, work, outcome, by_merchant):
        """5.4, 5.5: what the merchant itself says was done is as good as a success under a token (4.4)."""
        if work is None:
            return "late"
        committed = by_merchant and outcome is not None and outcome.status is SUCCEEDED
        if work.key in self.marks:
            if committed:
                self.works.append(self.marks.pop(work.key))
                self.end(work, outcome, b"")
                return "settled"
            return "gone" if outcome is None else "late"
        self.lapse(work)
        if work.status is not UNKNOWN:
            if outcome is not None and work.outcome == outcome:
                return "settled"
            if committed and work.status is EXECUTING and work.mode is Mode.SAFE_TO_RETRY:
                self.end(work, outcome, b"")
                return "settled"
            return "conflict" if committed and work.status in (EXECUTING, HELD, FAILED, DENIED) else "late"
        if outcome is None:
            self.vanish(work)
            work.settled = self.now
            self.marks[work.key] = work
            return "gone"
        self.end(work, outcome, b"")
        return "settled"


# --- the trace ------------------------------------------------------------------------------------------------


class Trace:
    """What was asked and answered, and what must never be seen in it."""

    def __init__(self):
        self.open = {}  # effect -> the token that was granted and has not ended
        self.unknown = set()  # at_most_once effects whose outcome is not known
        self.outcomes = {}  # effect -> how it ended
        self.answers = {}  # the same call -> its effect
        self.places = {}  # (id, work, whether it names within its turn) -> where it was asked for
        self.kin = {}  # effect -> (sku, turn)
        self.modes = {}

    def granted(self, ask, effect, token):
        assert effect.effect_id not in self.open or self.open[effect.effect_id] == token, "two hold one effect"
        assert effect.effect_id not in self.unknown, "an unknown outcome was sent again"
        assert effect.effect_id not in self.outcomes, "a settled effect was sent again"
        if effect.effect_id not in self.kin and ask.turn is not None:
            alike = [e for e, kin in self.kin.items() if kin == (ask.sku, ask.turn)]
            busy = [e for e in alike if e in self.open or e in self.unknown]
            done = [e for e in alike if e in self.outcomes and self.outcomes[e].status is SUCCEEDED]
            assert ask.on_repeat is OnRepeat.RUN or not busy + done, "a second for one work, unasked"
            assert not [e for e in alike if e in self.unknown], "a second while the first is unknown"
        self.open[effect.effect_id] = token
        self.kin.setdefault(effect.effect_id, (effect.arguments_sku, effect.turn))
        self.modes.setdefault(effect.effect_id, effect.mode)

    def asked(self, ask):
        self.places.setdefault((ask.call, ask.sku, ask.scope is Scope.TURN), set()).add(
            (ask.turn, ask.step, ask.attempt)
        )

    def answered(self, ask, effect_id):
        """2.1. What a request leaves out may come to mean a call that was stated since (2.3: the latest)."""
        place = (ask.turn, ask.step, ask.attempt)
        if None in place and len(self.places[ask.call, ask.sku, ask.scope is Scope.TURN]) > 1:
            return
        key = (ask.call, ask.sku, ask.scope, *place)
        assert self.answers.setdefault(key, effect_id) == effect_id, "the same call, another effect"

    def settled(self, effect):
        self.open.pop(effect.effect_id, None)
        self.unknown.discard(effect.effect_id)
        assert self.outcomes.setdefault(effect.effect_id, effect.outcome) == effect.outcome, "an outcome changed"

    def lost(self, effect_id):
        self.open.pop(effect_id, None)
        if self.modes.get(effect_id) is Mode.AT_MOST_ONCE:
            self.unknown.add(effect_id)

    def vanished(self, effect_id):
        for kept in (self.open, self.outcomes, self.kin, self.modes):
            kept.pop(effect_id, None)
        self.unknown.discard(effect_id)
        self.answers = {key: effect for key, effect in self.answers.items() if effect != effect_id}


# --- the machine ----------------------------------------------------------------------------------------------


class Clock:
    """Stands in for the time module inside fakeredis."""

    def __init__(self):
        self.ms = 1_800_000_000_000

    def time(self):
        return self.ms / 1000

    def __getattr__(self, name):
        return getattr(time, name)


@dataclass(frozen=True)
class Seen:
    """An effect as the trace keeps it."""

    effect_id: bytes
    turn: str | None
    mode: Mode
    outcome: Outcome | None
    arguments_sku: str


CALLS = st.sampled_from(["a", "a", "b", "c", None])
OUTCOMES = st.sampled_from([Outcome(SUCCEEDED, b'"MO-1"'), Outcome(SUCCEEDED, b'"MO-2"'), FAILURE])


def mended(ask):
    """Without what the API refuses (2.3, 2.7), so that none has to be thrown away."""
    if ask.turn is None:
        ask = replace(ask, step=None, attempt=None, scope=Scope.AUTO)
    if ask.call is None and ask.submitted:
        ask = replace(ask, call="b")  # by its token alone: tests/contracts/test_submissions.py
    return replace(ask, call="c") if ask.call is None and ask.attempt is None else ask


ASKS = st.builds(
    Ask,
    CALLS,
    st.sampled_from(["A", "A", "A", "B"]),
    st.sampled_from([None, "t1", "t1", "t2"]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([Scope.AUTO, Scope.AUTO, Scope.AUTO, Scope.TURN]),
    st.sampled_from(OnRepeat),
    st.sampled_from(Mode),
    st.sampled_from([None, None, None, ("operator",), ("anna",)]),
    st.sampled_from([1, 1, 1, 2]),
    st.sampled_from([False, False, True]),
).map(mended)
BY = st.sampled_from(["ops", "ops", "anna"])


class CallMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.before = [module.time for module in CLOCKS]
        for module in CLOCKS:
            module.time = self.clock
        self.kept = ledger_writes.HOLD_MS, redis_listings.BUCKETS
        # One conversation, so one bucket: a sweep of all would take longer than everything else.
        self.number = bucket_of(identity.conversation_digest("acme", "c-1"))
        ledger_writes.HOLD_MS, redis_listings.BUCKETS = HOLD_MS, self.number + 1
        self.loop = asyncio.new_event_loop()
        self.client = open_client(parse_ledger_url("memory"))
        # A machine that stands still for seconds under load is not what is looked for here.
        self.commands = Commands(self.client, connect_timeout_s=600, command_timeout_s=600)
        self.ledger = RedisLedger(self.commands)
        self.decider = Decider(self.ledger)
        self.model = Model()
        self.trace = Trace()
        self.tokens = itertools.count()
        self.bucket = Bucket.of(identity.conversation_digest("acme", "c-1"))
        self.grants = []  # (work, effect, token), every one ever issued
        self.waits = {}
        self.holds = []  # (work, effect, approval of the model, approval of the ledger), every one ever opened

    def teardown(self):
        self.loop.run_until_complete(self.commands.close())
        self.loop.run_until_complete(self.client.aclose())
        self.loop.close()
        for module, was in zip(CLOCKS, self.before, strict=True):
            module.time = was
        ledger_writes.HOLD_MS, redis_listings.BUCKETS = self.kept

    def tick(self, ms=1):
        """No two things at the same moment, so that "the latest" means one."""
        self.clock.ms += ms
        self.model.now = self.clock.ms

    def do(self, *command):
        return self.loop.run_until_complete(self.commands.do(*command))

    def request(self, ask, token, kept):
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
            scope=ask.scope,
            terms=Terms(
                ask.mode,
                ask.on_repeat,
                LEASE_MS,
                ask.version,
                "" if ask.submitted else "https://shop.example/",
                WINDOW_MS,
                KEEP_MS,
                HOLD_MS,
            ),
            token=token,
            repeat_of=kept,
            submitted=ask.submitted,
            asks=None if ask.approvers is None else Asks(ask.approvers, HOLD_MS),
            ruled=None if ask.approvers is None else Ruled("b1", "r"),
            seed=b"seed-%d" % next(self.tokens),
        )

    def ask_ledger(self, ask, token, kept):
        request = self.request(ask, token, kept)
        decision, _ = self.loop.run_until_complete(self.decider.claim(request))
        return decision

    def end_ledger(self, request, effect):
        decision, _ = self.loop.run_until_complete(self.decider.end(request, effect))
        return decision

    def seen(self, effect):
        sku = next(w.sku for w in [*self.model.works, *self.model.marks.values()] if w.id == effect.effect_id)
        return Seen(effect.effect_id, effect.turn, effect.mode, effect.outcome, sku)

    # claims

    @rule(ask=ASKS)
    def claim(self, ask):
        self.tick()
        self.judge(ask, b"token-%d" % next(self.tokens), frozenset())

    @precondition(lambda self: self.waits)
    @rule(data=st.data())
    def ask_again_after_a_wait(self, data):
        self.tick()
        ask, kept = data.draw(st.sampled_from(list(self.waits.items())), "wait")
        del self.waits[ask]
        self.judge(ask, b"token-%d" % next(self.tokens), kept)

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def send_a_claim_again(self, data):
        """4.3: its reply was lost."""
        self.tick()
        _, _, token, ask = self.grants[data.draw(st.integers(0, len(self.grants) - 1), "claim")]
        self.judge(ask, token, frozenset())

    @precondition(lambda self: self.having(SUCCEEDED))
    @rule(ask=ASKS, data=st.data())
    def repeat_what_succeeded(self, ask, data):
        """4.9: left to chance, few calls would ever be held."""
        self.tick()
        work = data.draw(st.sampled_from(self.having(SUCCEEDED)), "success")
        self.judge(replace(ask, sku=work.sku, on_repeat=OnRepeat.HOLD), b"token-%d" % next(self.tokens), frozenset())

    @precondition(lambda self: self.having(HELD))
    @rule(ask=ASKS, data=st.data(), left=st.sampled_from([-1, 0, 0, 1]))
    def meet_a_hold_at_its_end(self, ask, data, left):
        """7.4"""
        work = data.draw(st.sampled_from(self.having(HELD)), "hold")
        self.tick(max(1, work.held + HOLD_MS - left - self.clock.ms))
        self.judge(replace(ask, sku=work.sku), b"token-%d" % next(self.tokens), frozenset())

    def having(self, status):
        return [work for work in self.model.works if work.status is status]

    def judge(self, ask, token, kept):
        lapsed = [w for w in self.model.works if w.status is EXECUTING and self.model.now >= w.claimed + LEASE_MS]
        what, work = self.model.claim(ask, token, kept)
        self.model.seen(what)
        for one in lapsed:
            if one.status is UNKNOWN or one.tokens[-1] == token:
                self.trace.lost(one.id)
        decision = self.ask_ledger(ask, token, kept)
        self.trace.asked(ask)
        match decision:
            case d.Granted(effect=effect):
                answer, found = "granted", effect.effect_id
            case d.Replay(effect=effect):
                answer, found = "replay", effect.effect_id
            case d.Blocked(effect=effect):
                answer, found = "blocked", effect.effect_id
            case d.Wait(effect_id=found):
                answer = "wait"
                self.waits[ask] = kept | decision.repeat_of
            case d.Denied(first=effect):
                answer, found = "denied", effect.effect_id
            case d.Refused(code=code):
                answer = {"tool_call_id_reused": "reused", "attempt_superseded": "superseded"}[code]
                found = None
        assert answer == what, f"the ledger says {answer}, the model {what}"
        if work is None:
            return
        if work.id is None:
            assert all(other.id != found for other in self.model.works), "a new effect under an old key"
            work.id = found
        assert found == work.id, "another effect than the model's"
        if answer == "granted":
            assert effect.tokens[-1] == token
            assert list(effect.tokens) == work.tokens
            self.trace.granted(ask, self.seen(effect), token)
            self.grants.append((work, effect, token, ask))
        elif answer == "blocked":
            self.opened(work, effect)
        elif answer == "replay":
            assert effect.status is work.status
            assert effect.outcome == work.outcome
            if effect.status is not UNKNOWN:
                self.trace.settled(self.seen(effect))
        named = any(n.work is work and n.slot == self.model.slot for n in self.model.named)
        if answer in ("granted", "replay", "blocked") and ask.call is not None and named:
            self.trace.answered(ask, work.id)

    # approvals

    def opened(self, work, effect):
        approval = effect.approval
        assert (approval.approvers, approval.because.value) == (work.approvers, work.because)
        assert (approval.decided_by, effect.tool_version) == (work.decided_by, work.version)
        known = [hold for hold in self.holds if hold[0] is work and hold[2] == work.approval]
        assert all(hold[3] == approval.id for hold in known), "one approval, two names"
        assert known or all(hold[3] != approval.id for hold in self.holds), "a name that was another's"
        if not known:
            self.holds.append((work, effect, work.approval, approval.id))

    def lapsing(self, sku):
        """Leases that a look at these will find lapsed."""
        return [
            w
            for w in self.model.works
            if w.sku == sku and w.status is EXECUTING and self.model.now >= w.claimed + LEASE_MS
        ]

    @precondition(lambda self: self.holds)
    @rule(
        data=st.data(),
        by=BY,
        approvers=st.sampled_from([None, ("operator",), ("anna",)]),
        version=st.sampled_from([1, 1, 2]),
        faithful=st.booleans(),
    )
    def grant(self, data, by, approvers, version, faithful):
        """4.9, 7.4: now and then of what the registry or the policy has changed since."""
        self.tick()
        work, effect, approval, name = self.holds[data.draw(st.integers(0, len(self.holds) - 1), "hold")]
        if faithful:
            approvers, version = work.approvers if work.because == "policy" else None, work.version
        ask = Ask(
            effect.tool_call_id,
            work.sku,
            effect.turn,
            effect.step,
            effect.attempt if effect.turn is not None else None,
            Scope.CONVERSATION,
            OnRepeat.HOLD,
            work.mode,
            approvers,
            version,
            work.submitted,
        )
        token, lapsed = b"token-%d" % next(self.tokens), self.lapsing(work.sku)
        work = self.model.standing(work.key)
        expected = self.model.grant(work, approval, by, ask, token)
        for one in lapsed:
            if one.status is UNKNOWN:
                self.trace.lost(one.id)
        asked = Grant(effect.effect_id, name, by, self.request(ask, token, frozenset()))
        decision, _ = self.loop.run_until_complete(self.decider.grant(asked, effect))
        kinds = {
            "late": d.Late,
            "approved": d.Approved,
            "reopened": d.Reopened,
            "wait": d.Wait,
            "denied": d.Denied,
            "granted": d.Granted,
        }
        assert isinstance(decision, kinds[expected]), f"the ledger says {decision}, the model {expected}"
        if expected == "reopened":
            self.opened(work, decision.effect)
        elif expected == "granted":
            assert list(decision.effect.tokens) == work.tokens
            self.trace.open[work.id] = token
            self.trace.kin.setdefault(work.id, (work.sku, work.turn))
            self.trace.modes.setdefault(work.id, work.mode)
            self.grants.append((work, decision.effect, token, ask))

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), by=BY)
    def deny(self, data, by):
        """7.4"""
        self.tick()
        work, effect, approval, name = self.holds[data.draw(st.integers(0, len(self.holds) - 1), "hold")]
        work = self.model.standing(work.key)
        expected = self.model.refuse(work, approval, by)
        decision = self.end_ledger(Refuse(effect.effect_id, name, by, HOLD_MS, KEEP_MS), effect)
        self.expect(decision, expected)
        if expected == "settled":
            self.trace.settled(self.seen(decision.effect))

    # ends

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), ms=st.sampled_from([1, LEASE_MS - 1, LEASE_MS]))
    def renew(self, data, ms):
        """7.2: now and then just in time, or just too late."""
        self.tick(ms)
        work, effect, token = self.drawn(data)
        lapsed = work is not None and work.status is EXECUTING and self.model.now >= work.claimed + LEASE_MS
        expected = self.model.renew(work, token)
        if lapsed:
            self.trace.lost(effect.effect_id)
        decision = self.end_ledger(Renew(effect.effect_id, token, LEASE_MS), effect)
        assert isinstance(decision, d.Renewed if expected == "renewed" else d.Late), decision

    def drawn(self, data):
        """A claim that was granted once, and what stands under its key by now."""
        self.tick()
        work, effect, token, _ = self.grants[data.draw(st.integers(0, len(self.grants) - 1), "grant")]
        return self.model.standing(work.key), effect, token

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), outcome=OUTCOMES)
    def settle(self, data, outcome):
        work, effect, token = self.drawn(data)
        expected = self.model.settle(work, token, outcome)
        decision = self.end_ledger(Settle(effect.effect_id, token, outcome, KEEP_MS), effect)
        self.expect(decision, expected)
        if isinstance(decision, d.Settled):
            self.trace.settled(self.seen(decision.effect))

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def release(self, data):
        work, effect, token = self.drawn(data)
        expected = self.model.release(work, token)
        self.expect(self.end_ledger(Release(effect.effect_id, token, "not sent", KEEP_MS), effect), expected)
        if work is not None and work not in self.model.works:
            self.trace.vanished(effect.effect_id)
        elif work is not None and work.status is UNKNOWN:
            self.trace.lost(effect.effect_id)

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def withdraw(self, data):
        """4.11: whether it was granted or not, its token holds nothing from then on."""
        self.tick()
        self.model.tidy()
        _, _, token, ask = self.grants[data.draw(st.integers(0, len(self.grants) - 1), "claim")]
        work = next((w for w in self.having(EXECUTING) + self.having(UNKNOWN) if token in w.tokens), None)
        self.model.release(work, token)
        self.loop.run_until_complete(self.decider.withdraw(self.request(ask, token, frozenset())))
        if work is not None and work not in self.model.works:
            self.trace.vanished(work.id)
        elif work is not None and work.status is UNKNOWN:
            self.trace.lost(work.id)
        assert not any(w.tokens[-1:] == [token] for w in self.having(EXECUTING))

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def lose(self, data):
        work, effect, token = self.drawn(data)
        expected = self.model.lose(work, token)
        self.expect(self.end_ledger(Lose(effect.effect_id, token, "timeout"), effect), expected)
        if work in self.model.works and work.status is UNKNOWN:
            self.trace.lost(effect.effect_id)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), outcome=OUTCOMES | st.none(), by_merchant=st.booleans())
    def resolve(self, data, outcome, by_merchant):
        work, effect, _ = self.drawn(data)
        lapsed = work is not None and work.status is EXECUTING and self.model.now >= work.claimed + LEASE_MS
        expected = self.model.resolve(work, outcome, by_merchant)
        if lapsed:
            self.trace.lost(effect.effect_id)
        said = Resolve(effect.effect_id, outcome, "ops", "", KEEP_MS, said_by_merchant=by_merchant)
        decision = self.end_ledger(said, effect)
        self.expect(decision, expected)
        if expected == "gone":
            self.trace.vanished(effect.effect_id)
        elif isinstance(decision, d.Settled):
            self.trace.settled(self.seen(decision.effect))

    @rule()
    def sweep(self):
        """4.5, 7.4, 4.13: what ended with its retention is no longer looked for."""
        self.tick()
        lapsed = [w for w in self.model.works if w.status is EXECUTING and self.model.now >= w.claimed + LEASE_MS]
        overdue = [w for w in self.having(HELD) if self.model.now >= w.held + HOLD_MS]
        page = self.loop.run_until_complete(self.ledger.due(1_000, f"{self.number}:"))
        assert {effect.effect_id for effect in page.effects} == {w.id for w in lapsed + overdue}
        listed = {w.id[:16] for w in self.having(EXECUTING) + self.having(HELD)}
        assert set(self.do("ZRANGE", self.bucket.due, 0, -1)) == listed
        for effect in page.effects:
            if effect.status is HELD:
                self.end_ledger(Expire(effect.effect_id, HOLD_MS, KEEP_MS), effect)
        for work in overdue:
            self.model.expire(work)
        for effect_id in [w.id for w in lapsed]:
            effect = next(effect for _, effect, *_ in reversed(self.grants) if effect.effect_id == effect_id)
            self.end_ledger(Lose(effect_id, None, "lease lapsed"), effect)
        for work in lapsed:
            self.model.lapse(work)
            self.trace.lost(work.id)

    @rule(ms=st.sampled_from([LEASE_MS - 10, LEASE_MS, HOLD_MS, WINDOW_MS]))
    def time_passes(self, ms):
        self.tick(ms)

    @rule()
    def the_retention_passes(self):
        self.tick(2 * KEEP_MS)
        ended = [w.id for w in self.model.works if w.status in (SUCCEEDED, FAILED, DENIED, HELD)]
        self.model.tidy()
        for effect_id in ended:
            self.trace.vanished(effect_id)
        self.model.highest.clear()

    def expect(self, decision, expected):
        kinds = {"settled": d.Settled, "late": d.Late, "conflict": d.Conflicting, "gone": d.Gone}
        assert isinstance(decision, kinds[expected]), f"the ledger says {decision}, the model {expected}"

    @invariant()
    def the_indexes_are_true(self):
        """4.15: no key is without an end unless something runs or is unknown."""
        unknown = [w for w in self.model.works if w.status is UNKNOWN]
        assert set(self.do("ZRANGE", self.bucket.unknown, 0, -1)) == {w.id[:16] for w in unknown}
        if not any(w.status in (UNKNOWN, EXECUTING) for w in self.model.works):
            # What is held is due for as long, and what is not sealed yet is marked; the sweep ends both (4.13, 7.6).
            keys = [key for key in self.do("KEYS", "*") if key not in (self.bucket.due, self.bucket.unsealed)]
            assert all(self.do("PTTL", key) > 0 for key in keys)

    @invariant()
    def the_events_alone_tell_where_every_effect_stands(self):
        """7.6"""
        digest = identity.conversation_digest("acme", "c-1")
        logged = self.loop.run_until_complete(self.ledger.events(digest, 0, 100_000))
        told = {}
        for each in logged:
            event = each.event
            told.setdefault(event.effect_id, []).append({"type": event.type, "effect_id": "", **event.data})
        for work in self.model.works:
            if work.id is not None:
                assert status_of(told[work.id]) == work.status.value


SEARCH = settings(
    max_examples=int(os.environ.get("ONCEGATE_MACHINE_EXAMPLES", "250")),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
"""A few seconds in `make test`; ONCEGATE_MACHINE_EXAMPLES asks for more, and `make test-full` takes a few minutes."""


def test_the_ledger_and_the_model_never_part():
    """2.1, 2.3, 2.4, 2.5, 2.6, 2.7, 4.1, 4.3, 4.4, 4.5, 4.6, 4.7, 4.9, 4.11, 4.13, 4.15, 5.4, 5.5, 7.2, 7.3, 7.4, 7.6"""
    run_state_machine_as_test(CallMachine, settings=SEARCH)


@pytest.mark.slow
def test_the_ledger_and_the_model_never_part_in_a_long_search():
    """The same, over conversations twice as long."""
    longer = settings(SEARCH, max_examples=3_000, stateful_step_count=80)
    run_state_machine_as_test(CallMachine, settings=longer)
