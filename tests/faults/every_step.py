"""No chance here: short histories in which a gateway is killed, or sleeps past its lease, at every step that it takes,
one after the other; and in which every write to the ledger is lost, before it and after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tests.faults.plan import Approver, Ask, Fault, How, Job, On, Plan
from tests.faults.run import Result, run
from tests.faults.shop import RUNS, TOOLS

_RUN_TOOLS: Final = {tool.name for tool in RUNS}
MOST_STEPS: Final = 200


def _first(tool: str) -> Ask:
    return Ask(0.1, 0, "c1", "call_0a", tool, "S0", "t0", 1, 1, "wish 0", tries=4)


def _stories(first: Ask) -> dict[str, tuple[Ask, ...]]:
    stories = {
        "one call": (first,),
        "twins": (first, replace(first, gateway=1, how=How.TWIN)),
        "twins at one gateway": (first, replace(first, how=How.TWIN)),
        "again": (first, replace(first, at=8.0, gateway=1, how=How.AGAIN)),
        "run over": (first, replace(first, at=1.0, call="call_0r", attempt=2, gateway=1, how=How.RERUN)),
    }
    if first.tool not in _RUN_TOOLS:
        stories["issued again"] = (first, replace(first, at=0.5, call="call_0b", step=2, gateway=1, how=How.REISSUED))
    return stories


_REPLIES: Final = ("order", "slow order", "HTTP 422", "HTTP 500 after the work", "connect_failed")
_AT_A_STEP: Final = (
    ("gateway killed", On.STEP, 0.5),
    ("gateway killed", On.STEP, 20.0),
    ("gateway paused", On.STEP, 2.4),
    ("gateway paused", On.STEP, 4.5),
)
_AT_A_WRITE: Final = (
    ("claim not sent", On.CLAIM, 0.0),
    ("claim reply lost", On.CLAIM, 0.0),
    ("claim reply slow", On.CLAIM, 3.4),
    ("claim delivered after its withdrawal", On.CLAIM, 2.0),
    ("settle not sent", On.END, 0.0),
    ("settle reply lost", On.END, 0.0),
    ("binding reply lost", On.BIND, 0.0),
    ("read not sent", On.READ, 0.0),
    ("read reply lost", On.READ, 0.0),
)


_RESET: Final = "reset after the work"
_AT_A_DECISION: Final = (
    ("grant not sent", On.DECIDE, 0.0),
    ("grant reply lost", On.DECIDE, 0.0),
    ("grant reply slow", On.DECIDE, 3.4),
    ("grant delivered after it was given up", On.DECIDE, 2.0),
    ("report not sent", On.REPORT, 0.0),
    ("report reply lost", On.REPORT, 0.0),
)


def every_step(tools: tuple[str, ...] = tuple(tool.name for tool in TOOLS)) -> Iterator[Result]:
    """Run them all; each kind of fault moves on, step by step, until it comes too late to be met."""
    for tool in tools:
        for name, asks in _stories(_first(tool)).items():
            for reply in _REPLIES:
                said = Fault("slow merchant", On.SEND, 1.0, 0, 0.0, reply)
                plan = Plan(0, f"every step: {name}", True, 2, asks, (said,))
                yield from _each(plan, (*_AT_A_STEP, *_AT_A_WRITE))


def every_step_of_efforts() -> Iterator[Result]:
    """The same of what runtimes run themselves, and of approvals."""
    for name, plan in _efforts().items():
        yield from _each(replace(plan, theme=f"every step: {name}"), (*_AT_A_STEP, *_AT_A_WRITE, *_AT_A_DECISION))


def _each(plan: Plan, kinds: tuple[tuple[str, On, float], ...]) -> Iterator[Result]:
    for kind, on, amount in kinds:
        for at in range(1, MOST_STEPS):
            faults = (*plan.faults, Fault(kind, on, float(at), 0, amount))
            result = run(replace(plan, seed=at, faults=faults))
            if not result.faults[kind]:
                break
            yield result


def _efforts() -> dict[str, Plan]:
    plan = Plan(0, "", True, 2, (), (), policy="operators approve")
    op = Approver(0.6, 0, "op", True)
    plans: dict[str, Plan] = {}
    for tool in ("place_order", "book_table"):
        first = _first(tool)
        again = replace(first, at=8.0, gateway=1, how=How.AGAIN)
        repeat = replace(first, at=0.5, call="call_0b", step=2, gateway=1, how=How.REISSUED)
        plans |= {
            f"{tool} is approved": replace(plan, asks=(first, again), approvers=(op,)),
            f"{tool} is approved twice": replace(plan, asks=(first,), approvers=(op, replace(op, gateway=1, who="op"))),
            f"{tool} is approved, and is unknown": replace(
                plan, asks=(first, again), approvers=(op,), faults=(Fault("reset", On.SEND, 1.0, 0, 0.0, _RESET),)
            ),
            f"{tool} is denied": replace(plan, asks=(first, again), approvers=(replace(op, grants=False),)),
            f"{tool} again is approved": replace(
                plan, asks=(first, repeat), approvers=(replace(op, at=1.5),), policy=""
            ),
        }
    job = Job(0.1, 0, "c1", "eff_0", "tool_call", "place_order", "E0", "u0", 1, 1, "token-0", "effort 0")
    for by, one in (("by id", job), ("by token", replace(job, call=None))):
        later = replace(one, at=6.0, attempt=2, token="token-1", gateway=1, how=How.TAKEN_OVER)
        plans |= {
            f"submitted {by}": replace(plan, jobs=(one,), policy=""),
            f"submitted {by}, long at work": replace(plan, jobs=(replace(one, work_s=3.5, renews=True),), policy=""),
            f"submitted {by}, resumed": replace(plan, jobs=(replace(one, dies="after it ran", back_s=0.5),), policy=""),
            f"submitted {by}, run over": replace(plan, jobs=(replace(one, dies="before it runs"), later), policy=""),
            f"submitted {by}, approved": replace(plan, jobs=(one,), approvers=(op,)),
            f"submitted {by}, safe to retry": replace(
                plan, jobs=tuple(replace(j, target="book_table", sleeps_s=4.0) for j in (one, later)), policy=""
            ),
        }
    return plans
