"""Counts and times for operators: a fixed number of series, whatever callers name their tools and ids (9.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from gateway.core.answer import Answer

OTHER: Final = "other"
DECISIONS: Final = frozenset({"proceed", "replay", "denied", "rate_limited", "blocked"})
STATUSES: Final = frozenset({"awaiting_approval", "executing", "succeeded", "failed", "denied", "indeterminate"})
CONFLICTS: Final = frozenset({"absence", "claim", "forgotten", "outcome"})
OUTCOMES: Final = frozenset({"succeeded", "failed", "not_sent", "unknown"})
STATUS_ANSWERS: Final = frozenset({"committed", "void", "in_progress", "nothing"})
BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


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
        self._seconds = Histogram(
            "oncegate_call_seconds",
            "From a call's body to its answer.",
            ("decision",),
            buckets=BUCKETS_S,
            registry=made,
        )
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
        # Looking a series up by its labels costs more than counting in it.
        self._calls_known: dict[tuple[str, str | None, bool], tuple[Counter, Histogram]] = {}
        self._requests_known: dict[tuple[str, str, int], Counter] = {}
        self._outcomes_known = {outcome: self._outcomes.labels(outcome) for outcome in (*OUTCOMES, OTHER)}

    def answered(self, answer: Answer, seconds: float) -> None:
        """A call got this answer."""
        key = (answer.decision, answer.status, answer.side_effecting)
        known = self._calls_known.get(key)
        if known is None:
            decision = answer.decision if answer.decision in DECISIONS else OTHER
            status = answer.status if answer.status in STATUSES else "none" if answer.status is None else OTHER
            effect = "true" if answer.side_effecting else "false"
            known = self._calls.labels(decision, status, effect), self._seconds.labels(decision)
            if decision is not OTHER and status is not OTHER:
                self._calls_known[key] = known
        known[0].inc()
        known[1].observe(seconds)

    def problem(self, code: str) -> None:
        """A request, or a call in a batch, got the problem of this code; codes are those of the error classes."""
        self._problems.labels(code).inc()

    def request(self, route: str, method: str, status: int) -> None:
        """A request was answered. `route` is a template of the API, or `unmatched`; `method` one of a closed set."""
        key = (route, method, status)
        known = self._requests_known.get(key)
        if known is None:
            known = self._requests_known[key] = self._requests.labels(route, method, str(status))
        known.inc()

    def merchant_outcome(self, outcome: str) -> None:
        """A merchant's answer meant `succeeded`, `failed`, `not_sent` or `unknown`."""
        self._outcomes_known[outcome if outcome in OUTCOMES else OTHER].inc()

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
        return generate_latest(self._registry)
