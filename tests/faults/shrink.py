"""Making a failing history smaller: leave out asks and faults, and make what is left plainer, while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.faults.plan import Plan

MOST_RUNS = 400


def smallest(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """The smallest plan found that still fails; `fails` runs one."""
    runs = 0
    found = True
    while found and runs < MOST_RUNS:
        found = False
        for smaller in _smaller(plan):
            runs += 1
            if fails(smaller):
                plan, found = smaller, True
                break
            if runs >= MOST_RUNS:
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with one thing less, the biggest cuts first."""
    for at in range(len(plan.asks)):
        yield replace(plan, asks=plan.asks[:at] + plan.asks[at + 1 :])
    for at in range(len(plan.jobs)):
        yield replace(plan, jobs=plan.jobs[:at] + plan.jobs[at + 1 :])
    for at in range(len(plan.approvers)):
        yield replace(plan, approvers=plan.approvers[:at] + plan.approvers[at + 1 :])
    for at in range(len(plan.faults)):
        yield replace(plan, faults=plan.faults[:at] + plan.faults[at + 1 :])
    if plan.gateways > 2 and all(one.gateway < 2 for one in (*plan.asks, *plan.jobs, *plan.approvers)):
        yield replace(plan, gateways=2)
    if plan.status:
        yield replace(plan, status=False)
    if plan.waits:
        yield replace(plan, waits=False)
    if plan.policy:
        yield replace(plan, policy="")
    for at, ask in enumerate(plan.asks):
        for plainer in (replace(ask, tries=1), replace(ask, patience=8.0), replace(ask, gateway=0)):
            if plainer != ask:
                yield replace(plan, asks=(*plan.asks[:at], plainer, *plan.asks[at + 1 :]))
