"""Everything that claims, over one set of parts: calls, submissions, reports and approvals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gateway.core.ports import Clock, Counters, Ledger, Randomness
from gateway.service.asking import Asking
from gateway.service.claiming import Claiming
from gateway.service.claims import CallLimits, Claims
from gateway.service.decide_approval import DecideApproval
from gateway.service.deciding import Decider
from gateway.service.handle_call import HandleCall
from gateway.service.judging import Judging
from gateway.service.rate_limits import RateLimits
from gateway.service.reading import Reading
from gateway.service.refusal_log import RefusalLog
from gateway.service.registry import Registry
from gateway.service.replay_notes import ReplayNotes
from gateway.service.report_effect import ReportEffect
from gateway.service.running import Running
from gateway.service.schemas import ArgumentCheck
from gateway.service.settled_answers import SettledAnswers
from gateway.service.submit_effect import SubmitEffect
from gateway.service.waiting import Waiting


@dataclass(frozen=True, slots=True)
class Desk:
    """The use cases."""

    handle_call: HandleCall
    submit_effect: SubmitEffect
    report_effect: ReportEffect
    decide_approval: DecideApproval


def open_desk(
    *,
    registry: Registry,
    ledger: Ledger,
    counters: Counters,
    decider: Decider,
    running: Running,
    reading: Reading,
    waiting: Waiting,
    asking: Asking,
    notes: ReplayNotes,
    settled: SettledAnswers,
    schemas: ArgumentCheck,
    clock: Clock,
    randomness: Randomness,
    limits: CallLimits,
    result_cap: int,
    platform_overrides: Mapping[str, bool] = MappingProxyType({}),
) -> Desk:
    """All of them judge alike, and claim by one way."""
    judging, refusals = Judging(registry, schemas, platform_overrides), RefusalLog(ledger)
    claims = Claims(registry=registry, judging=judging, randomness=randomness, limits=limits)
    rate_limits = RateLimits(counters, refusals)
    claiming = Claiming(
        decider=decider,
        waiting=waiting,
        asking=asking,
        rate_limits=rate_limits,
        clock=clock,
        withdraw=running.withdraw,
    )
    return Desk(
        HandleCall(
            registry=registry,
            refusals=refusals,
            judging=judging,
            claims=claims,
            claiming=claiming,
            running=running,
            reading=reading,
            rate_limits=rate_limits,
            notes=notes,
            settled=settled,
            clock=clock,
            limits=limits,
        ),
        SubmitEffect(
            registry=registry,
            judging=judging,
            claims=claims,
            claiming=claiming,
            refusals=refusals,
            notes=notes,
            clock=clock,
        ),
        ReportEffect(
            registry=registry,
            ledger=ledger,
            decider=decider,
            waiting=waiting,
            result_cap=result_cap,
            lease_s=limits.submitted_lease_s,
        ),
        DecideApproval(
            registry=registry,
            ledger=ledger,
            decider=decider,
            claims=claims,
            running=running,
            waiting=waiting,
            clock=clock,
        ),
    )
