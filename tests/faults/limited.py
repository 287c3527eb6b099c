"""What must hold of rate limits, under every fault (7.5): what ran was counted, once, in a window that had room for it;
what came to nothing new is given back; who is refused has left nothing behind, and was nothing that is recorded.

A window is the ledger's, and what is counted in one may run in the next. Not held against the gateway: what a failover
lost, and rules that let pass what cannot be counted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from gateway.core.conversation import Writes
from gateway.core.errors import RateLimited
from gateway.core.ports import Counter, Taken
from gateway.core.record import Status
from tests.faults.limits import Bucket, Limit
from tests.faults.plan import PATIENT, Ask

if TYPE_CHECKING:
    from tests.faults.callers import Served
    from tests.faults.invariants import Watch

_LOST: Final = "a limit's count was lost by a failover"
_ROUNDED: Final = Decimal("0.0001")
"""How much more than its amount a call may be counted."""


@dataclass
class Count:
    """What was counted for one request, in one window."""

    limit: Limit
    bucket: Bucket
    amount: Decimal
    window: int
    key: bytes
    heard: bool = False
    """Whether its gateway knows."""
    given_back: bool = False
    effects: set[str] = field(default_factory=set)
    """What was new under it."""


class Limited:
    """Every count of a history."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._keys: dict[Bucket, bytes] = {}
        self._buckets: dict[bytes, Bucket] = {}
        self._counts: dict[tuple[bytes, int], list[Count]] = defaultdict(list)
        self._behind: dict[str, list[Count]] = {}
        """What was counted for an effect when it was new."""
        self._uncounted: set[str] = set()
        """Effects that a rule let pass uncounted."""
        self._ran: dict[tuple[bytes, int], dict[tuple[str, int], Decimal]] = defaultdict(dict)
        self._forgotten: set[bytes] = set()
        self._stuck: set[int] = set()
        """Requests that could not give back: what they had counted stays counted."""
        self._known: dict[tuple[str, str, str], tuple[float, str]] = {}
        """When an id, or a token, was first answered with an effect of its own."""
        self._refusals = 0
        self._waited: list[Ask] = []

    # the counters

    def counted(self, served: Served, counter: Counter, taken: Taken, window: int) -> None:
        """The server counts, or has no room."""
        watch, ask = self._watch, served.ask
        found = self._limit_of(served, counter)
        if found is None:
            watch.broke("7.5", f"{ask} is counted by a limit that no policy has")
            return
        limit, bucket = found
        amount = limit.amount(ask.sku) or Decimal(0)
        if self._keys.setdefault(bucket, counter.key) != counter.key:
            watch.broke("7.5", f"{ask} is counted apart from what its limit counts together")
        if self._buckets.setdefault(counter.key, bucket) != bucket:
            watch.broke("7.5", f"{ask} is counted together with what its limit counts apart")
        place = counter.key, window
        watch.world.say("ledger", f"{limit.name}: {amount} {'counted' if taken.granted else 'refused'} for {ask.call}")
        if taken.granted:
            count = Count(limit, bucket, amount, window, counter.key)
            self._counts[place].append(count)
            served.counts.append(count)
            return
        standing = [count for count in self._counts[place] if not count.given_back]
        total = sum((count.amount + _ROUNDED for count in standing), amount + _ROUNDED)
        if total <= limit.most and counter.key not in self._forgotten:
            watch.broke("7.5", f"{ask} is refused, though {limit.name} has room for it")

    def _limit_of(self, served: Served, counter: Counter) -> tuple[Limit, Bucket] | None:
        ask, phases = served.ask, self._watch.world.shelf.phases
        for name in phases.names_since(served.began):
            for limit in phases.limits(name, ask.tool):
                bucket = limit.bucket(ask.tool, ask.conversation, ask.turn, ask.sku)
                if bucket is not None and limit.window_s * 1000 == counter.window_ms:
                    return limit, bucket
        return None

    def heard(self, served: Served, counter: Counter) -> None:
        next(count for count in reversed(served.counts) if count.key == counter.key).heard = True

    def cannot_give_back(self, served: Served) -> None:
        self._stuck.add(id(served))

    def given_back(self, served: Served, counter: Counter) -> None:
        standing = [c for c in served.counts if c.key == counter.key and not c.given_back]
        if not standing:
            self._watch.broke("7.5", f"{served.ask} gives back what it had not taken")
        for count in standing[-1:]:
            count.given_back = True

    def forgot(self, keys: set[bytes]) -> None:
        """A failover lost some of what these had counted."""
        self._forgotten |= keys

    # effects

    def written(self, writes: Writes) -> None:
        for event in writes.events:
            if event.type == "effect.proposed" and event.effect_id is not None:
                effect = writes.effects.get(event.effect_id)
                if effect is not None:
                    self._begins(effect.hex)

    def _begins(self, key: str) -> None:
        """Something new: claimed, or held until it is approved."""
        watch, served = self._watch, self._watch.writer
        assert served is not None, "nothing begins but for a request"
        self._behind[key] = served.counts
        self._uncounted.discard(key)
        phases, ask = watch.world.shelf.phases, served.ask
        missing: list[Limit] = []
        for name in phases.names_since(served.began):
            lacks = [limit for limit in phases.limits(name, ask.tool) if not self._has(served, limit)]
            if not lacks or all(limit.lets_pass for limit in lacks):
                missing = []
                if lacks:
                    self._uncounted.add(key)
                break
            missing = lacks
        for limit in missing[:1]:
            watch.broke("7.5", f"{key[:8]} begins, and {limit.name} did not count it")
        for count in served.counts:
            count.effects.add(key)

    def _has(self, served: Served, limit: Limit) -> bool:
        return any(count.limit is limit and count.heard for count in served.counts)

    def runs(self, key: str) -> None:
        """It is sent, or its runtime begins: here it must be among what its window has room for."""
        watch = self._watch
        if key in watch.forgotten:
            return
        for count in self._latest(self._behind.get(key, [])):
            place = count.key, count.window
            if count.given_back:
                watch.broke("7.5", f"{key[:8]} runs, and what {count.limit.name} had counted for it was given back")
                return
            self._ran[place][key, id(count)] = count.amount
            total = sum(self._ran[place].values())
            if total <= count.limit.most:
                continue
            if count.key in self._forgotten:
                watch.excuse(count.key.hex(), _LOST)
            else:
                watch.broke("7.5", f"{total} ran in one window of {count.limit.name}, with {key[:8]}")

    def _latest(self, counts: list[Count]) -> list[Count]:
        """The last of each limit: a request that gave back may have counted anew."""
        return list({count.key: count for count in counts}.values())

    # answers

    def answered(self, served: Served, answer: Any) -> None:
        """A gateway answers."""
        refused = isinstance(answer, RateLimited) or _decision(answer) == "rate_limited"
        if refused:
            self._refused(served)
        else:
            self._answered(served, answer)
        if served.unheard or id(served) in self._stuck:
            return  # what may have landed, or could not be given back, stays counted
        for count in served.counts:
            if count.heard and not count.effects and not count.given_back:
                what = "refused" if refused else "nothing new"
                self._watch.broke("7.5", f"{served.ask} is {what}, and stays counted by {count.limit.name}")

    def _refused(self, served: Served) -> None:
        self._refusals += 1
        watch, ask = self._watch, served.ask
        left = {key for count in served.counts for key in count.effects}
        if left and not served.unheard:
            watch.broke("7.5", f"{ask} is limited, and has left a claim: {', '.join(key[:8] for key in left)}")
        at, key = self._known.get(_name(served), (served.began, ""))
        if at >= served.began or key in watch.undone or watch.world.has_outlived_records:
            return
        effect = watch.world.ledger.effect(bytes.fromhex(key))
        if effect is not None and effect.status is not Status.ABSENT:
            watch.broke("7.5", f"{ask} is limited, though it is recorded: {key[:8]}, {effect.status}")

    def _answered(self, served: Served, answer: Any) -> None:
        key = answer["effect_id"] if isinstance(answer, dict) else getattr(answer, "effect_id", None)
        if key and _decision(answer) in ("proceed", "replay") and _name(served)[1]:
            self._known.setdefault(_name(served), (self._watch.world.loop.now, key))

    def never_had_its_turn(self, ask: Ask) -> None:
        """The last answer to somebody who asked as often as it would."""
        self._waited.append(ask)

    def ended(self) -> None:
        """Of a history without faults."""
        watch, phases = self._watch, self._watch.world.shelf.phases
        logs = watch.world.ledger.logs.values()
        logged = sum(each.event.type == "effect.rate_limited" for log in logs for each in log)
        if logged != self._refusals:
            watch.broke("7.6", f"{self._refusals} were limited, and the log tells of {logged}")
        for ask in (ask for ask in self._waited if ask.tries >= PATIENT):
            limits = phases.limits(watch.world.plan.policy, ask.tool)
            countable = [limit.bucket(ask.tool, ask.conversation, ask.turn, ask.sku) for limit in limits]
            if None not in countable and all((limit.amount(ask.sku) or limit.most) <= limit.most for limit in limits):
                watch.broke("7.5", f"{ask} never had its turn, however long it waited")


def _decision(answer: Any) -> str:
    said = answer.get("decision") if isinstance(answer, dict) else getattr(answer, "decision", None)
    return said or ""


def _name(served: Served) -> tuple[str, str, str]:
    """Under what it is known: its token, or its id with its place."""
    ask = served.ask
    named = served.claim_token or (f"{ask.call} {ask.turn} {ask.step}" if ask.call else "")
    return ask.conversation, named, f"{ask.tool} {ask.sku}"
