"""Counts and times for operators: a fixed number of series, whatever callers name their tools and ids (9.5)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.core.answer import Answer

OTHER: Final = "other"
DECISIONS: Final = frozenset({"proceed", "replay", "denied", "rate_limited", "blocked"})
STATUSES: Final = frozenset({"awaiting_approval", "executing", "succeeded", "failed", "denied", "indeterminate"})
CONFLICTS: Final = frozenset({"absence", "claim", "forgotten", "outcome"})
OUTCOMES: Final = frozenset({"succeeded", "failed", "not_sent", "unknown"})
STATUS_ANSWERS: Final = frozenset({"committed", "void", "in_progress", "nothing"})
BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class _Count:
    """A series, and what is to be added to it when it is next read: looking it up, and its lock, cost more than an
    addition, and there are three of these a call."""

    __slots__ = ("series", "waiting")

    def __init__(self, series: Counter) -> None:
        self.series = series
        self.waiting = 0


class _Seconds:
    """Times by bucket, the last without an upper bound."""

    __slots__ = ("by_bucket", "sum")

    def __init__(self) -> None:
        self.by_bucket = [0] * (len(BUCKETS_S) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.by_bucket[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum += seconds


class _CallSeconds(Collector):
    """The histogram of calls, by decision."""

    def __init__(self) -> None:
        self._of: dict[str, _Seconds] = {}

    def of(self, decision: str) -> _Seconds:
        return self._of.setdefault(decision, _Seconds())

    def collect(self) -> Iterator[Metric]:
        said = "From a call's body to its answer."
        family = HistogramMetricFamily("oncegate_call_seconds", said, labels=("decision",))
        for decision, seconds in self._of.items():
            bounds = (*(str(bound) for bound in BUCKETS_S), "+Inf")
            family.add_metric(
                [decision], list(zip(bounds, accumulate(seconds.by_bucket), strict=True)), sum_value=seconds.sum
            )
        yield family


class Metrics:
    """One registry a gateway. Every label has a closed set of values; what is outside it counts as `other`."""

    content_type: Final = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        made = self._registry
        self._calls = Counter(
            "oncegate_calls", "Calls answered.", ("decision", "status", "side_effecting"), registry=made
        )
        self._seconds = _CallSeconds()
        made.register(self._seconds)
        self._in_flight = Gauge("oncegate_calls_in_flight", "Calls being answered now.", registry=made)
        self._problems = Counter(
            "oncegate_problems", "Requests and calls answered by a problem.", ("code",), registry=made
        )
        self._requests = Counter(
            "oncegate_requests", "Requests answered.", ("route", "method", "status"), registry=made
        )
        self._outcomes = Counter(
            "oncegate_merchant_outcomes", "What merchants' answers meant.", ("outcome",), registry=made
        )
        self._status_answers = Counter(
            "oncegate_status_answers", "What merchants' status endpoints said.", ("said",), registry=made
        )
        self._conflicts = Counter(
            "oncegate_conflicts", "Late successes that contradict the record.", ("against",), registry=made
        )
        for against in sorted(CONFLICTS):
            self._conflicts.labels(against)  # shown before the first, so that an alert on its rise can work
        self._calls_known: dict[tuple[str, str | None, bool], tuple[_Count, _Seconds]] = {}
        self._requests_known: dict[tuple[str, str, int], _Count] = {}
        self._outcomes_known = {outcome: _Count(self._outcomes.labels(outcome)) for outcome in (*OUTCOMES, OTHER)}

    def answered(self, answer: Answer, seconds: float) -> None:
        """A call got this answer."""
        key = (answer.decision, answer.status, answer.side_effecting)
        known = self._calls_known.get(key)
        if known is None:
            decision = answer.decision if answer.decision in DECISIONS else OTHER
            status = answer.status if answer.status in STATUSES else "none" if answer.status is None else OTHER
            effect = "true" if answer.side_effecting else "false"
            known = _Count(self._calls.labels(decision, status, effect)), self._seconds.of(decision)
            if decision is not OTHER and status is not OTHER:
                self._calls_known[key] = known
            else:
                known[0].series.inc()
                known[1].observe(seconds)
                return
        known[0].waiting += 1
        known[1].observe(seconds)

    def problem(self, code: str) -> None:
        """A request, or a call in a batch, got the problem of this code; codes are those of the error classes."""
        self._problems.labels(code).inc()

    def request(self, route: str, method: str, status: int) -> None:
        """A request was answered. `route` is a template of the API, or `unmatched`; `method` one of a closed set."""
        key = (route, method, status)
        known = self._requests_known.get(key)
        if known is None:
            known = self._requests_known[key] = _Count(self._requests.labels(route, method, str(status)))
        known.waiting += 1

    def merchant_outcome(self, outcome: str) -> None:
        """A merchant's answer meant `succeeded`, `failed`, `not_sent` or `unknown`."""
        self._outcomes_known[outcome if outcome in OUTCOMES else OTHER].waiting += 1

    def status_answer(self, said: str) -> None:
        """A status endpoint said `committed`, `void`, `in_progress`, or `nothing` that can be used."""
        self._status_answers.labels(said if said in STATUS_ANSWERS else OTHER).inc()

    def conflict(self, against: str) -> None:
        """A success came late, against a resolved `absence`, a new `claim` or another `outcome` (4.4), or its own
        claim is `forgotten`."""
        self._conflicts.labels(against if against in CONFLICTS else OTHER).inc()

    def watch_in_flight(self, count: Callable[[], int]) -> None:
        """Where the gauge reads how many calls are being answered."""
        self._in_flight.set_function(count)

    def exposition(self) -> bytes:
        """All series, in Prometheus' text format."""
        counts = [count for count, _ in self._calls_known.values()]
        for count in (*counts, *self._requests_known.values(), *self._outcomes_known.values()):
            count.series.inc(count.waiting)
            count.waiting = 0
        return generate_latest(self._registry)
