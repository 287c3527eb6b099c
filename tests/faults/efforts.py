"""What runtimes run themselves, and who approves what: one story a plan, drawn by chance (7.2, 7.4)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.faults.plan import Approver, Ask, Fault, How, Job, On, Plan
from tests.faults.policies import APPROVES
from tests.faults.runtimes import DEATHS
from tests.faults.shop import HOLDS, TOOLS
from tests.faults.wishes import anew, once, reissued, rerun, twins

TARGETS: Final = (
    *((("tool_call", tool.name)) for tool in TOOLS),
    *(("llm_call", "gpt"), ("llm_call", "gpt"), ("local", "cart_total"), ("local", "cart_total")),
)
REPLIES: Final = (
    *("order",) * 6,
    *("HTTP 422", "HTTP 401", "timeout after the work", "timeout before the work", "slow order"),
)
WHO: Final = ("op", "op", "op", "boss", "customer")


def first_job(rng: random.Random, number: int = 0, gateways: int = 2) -> Job:
    kind, target = rng.choice(TARGETS)
    mode = rng.choice((None, None, "at_most_once")) if kind == "tool_call" else rng.choice((None, "at_most_once"))
    return Job(
        at=rng.uniform(0, 1.0),
        gateway=rng.randrange(gateways),
        conversation=rng.choice(("c1", "c1", "c2")),
        call=rng.choice((None, f"eff_{number}")),
        kind=kind,
        target=target,
        sku=f"E{number}",
        turn=f"u{number}",
        step=rng.choice((None, 1)),
        attempt=1,
        token=f"token-{number}",
        intent=f"effort {number}",
        mode=mode,
        reply=rng.choice(REPLIES),
        work_s=rng.choice((0.05, 0.5, 2.0)),
        tries=rng.choice((1, 4, 4)),
        patience=rng.choice((1.0, 12.0, 12.0)),
    )


def _alone(rng: random.Random, job: Job) -> list[Job]:
    return [job]


def _works_long(rng: random.Random, job: Job) -> list[Job]:
    return [replace(job, work_s=rng.uniform(2.5, 9), renews=rng.random() < 0.7)]


def _naps(rng: random.Random, job: Job) -> list[Job]:
    """In the midst of its work; it renews what another may hold by then, or nobody."""
    job = replace(job, work_s=rng.uniform(2.2, 5), renews=True, reply="order")
    if job.kind != "tool_call":
        job = replace(job, mode=rng.choice((None, None, "at_most_once")))
    job = replace(job, tries=4, patience=12.0)
    napping = replace(job, naps_s=rng.choice((rng.uniform(1.5, 3.5), rng.uniform(3, 9))))
    other = replace(job, at=job.at + rng.uniform(2, 6), attempt=2, token=f"{job.token}+", how=How.TAKEN_OVER, gateway=1)
    return [napping, replace(other, work_s=rng.uniform(2.2, 8))]


def _sleeps(rng: random.Random, job: Job) -> list[Job]:
    """Past its lease; somebody else runs the turn again meanwhile."""
    first = replace(job, sleeps_s=rng.uniform(2.5, 20))
    return [first, *_again(rng, job, 2)][: rng.choice((1, 2))]


def _dies(rng: random.Random, job: Job) -> list[Job]:
    """Killed: it resumes with its token, or the turn is run again, or both."""
    back_s = rng.choice((0.0, rng.uniform(0.2, 2), rng.uniform(3, 20)))
    killed = replace(job, dies=rng.choice(DEATHS), back_s=back_s)
    return [killed, *_again(rng, job, 2)][: rng.choice((1, 2))]


def _again(rng: random.Random, job: Job, attempt: int) -> list[Job]:
    """The turn is run again, by another runtime that knows nothing of the first one's tokens."""
    return [
        replace(
            job,
            at=job.at + rng.choice((rng.uniform(0.0, 2), rng.uniform(3, 30))),
            gateway=rng.randrange(2),
            attempt=attempt,
            token=f"{job.token}+",
            how=How.TAKEN_OVER,
            call=None if job.call is None else rng.choice((job.call, f"{job.call}r")),
        )
    ]


def _another(rng: random.Random, job: Job) -> list[Job]:
    """The same once more in the same attempt, which is meant: another token is another occurrence."""
    job = replace(job, call=None)
    second = replace(job, at=job.at + rng.uniform(0, 3), token=f"{job.token}b", intent=f"{job.intent}, another")
    return [job, replace(second, how=How.ANOTHER, gateway=rng.randrange(2))]


def _both(rng: random.Random, job: Job) -> list[Job]:
    """Two tokens by turns, each run over in the next attempt."""
    first, second = _another(rng, job)
    later = [replace(one, at=one.at + rng.uniform(3, 9), attempt=2, how=How.TAKEN_OVER) for one in (first, second)]
    return [first, second, *(replace(one, token=f"{one.token}+") for one in later)]


def _twins(rng: random.Random, job: Job) -> list[Job]:
    """Two runtimes run the same attempt at once."""
    job = replace(job, call=job.call or "eff_t")
    return [job, replace(job, at=job.at + rng.uniform(0, 0.3), gateway=1, token=f"{job.token}t", how=How.TAKEN_OVER)]


def _changed(rng: random.Random, job: Job) -> list[Job]:
    """The id that waits for approval comes again with other arguments; and then as it was."""
    job = replace(job, call=job.call or "eff_c")
    other = replace(job, at=job.at + rng.uniform(0.5, 7), sku=f"{job.sku}x", intent=f"{job.intent}, changed")
    return [job, replace(other, how=How.CHANGED, token=rng.choice((job.token, f"{job.token}x")))]


STORIES: Final[dict[Callable[[random.Random, Job], list[Job]], float]] = {
    _alone: 1,
    _works_long: 2,
    _sleeps: 2,
    _naps: 2,
    _dies: 3,
    _another: 2,
    _both: 1,
    _twins: 1,
    _changed: 1,
}
Chosen = Callable[[random.Random, int, int], tuple[Fault, ...]]


def efforts(rng: random.Random, gateways: int, number: int) -> tuple[Job, ...]:
    jobs: list[Job] = []
    for each in range(number):
        story = rng.choices(list(STORIES), list(STORIES.values()))[0]
        jobs += [replace(job, gateway=job.gateway % gateways) for job in story(rng, first_job(rng, each, gateways))]
    return tuple(sorted(jobs, key=lambda job: job.at))


def approvers(rng: random.Random, gateways: int, most: int) -> tuple[Approver, ...]:
    return tuple(
        Approver(
            at=rng.uniform(0.2, 9),
            gateway=rng.randrange(gateways),
            who=rng.choice(WHO),
            grants=rng.random() < 0.75,
            thinks_s=rng.choice((0.0, 0.0, rng.uniform(0.5, 8), rng.uniform(15, 30))),
            times=rng.choice((1, 1, 2)),
            tries=rng.choice((1, 4)),
        )
        for _ in range(rng.randint(1, most))
    )


def submissions(rng: random.Random, plan: Plan, faults: Chosen) -> Plan:
    """Runtimes at work, with or without policy."""
    policy = rng.choice(("", "", "allow", *APPROVES))
    asked = approvers(rng, plan.gateways, 2) if rng.random() < 0.8 else ()
    jobs = efforts(rng, plan.gateways, rng.choice((1, 1, 2)))
    return replace(plan, jobs=jobs, approvers=asked, policy=policy, faults=faults(rng, plan.gateways, 2))


def approved(rng: random.Random, plan: Plan, faults: Chosen) -> Plan:
    """Calls that wait for approval: by policy, or as repeats; what is decided, by whom and how often."""
    policy = rng.choice(("", *APPROVES, *APPROVES))
    tool = rng.choice(TOOLS if policy else HOLDS).name
    first = Ask(0.1, 0, "c1", "call_0a", tool, "S0", "t0", 1, 1, "wish 0", tries=4)
    story = rng.choice((once, anew, twins, reissued, rerun) if policy else (reissued,))
    asks = [replace(ask, gateway=ask.gateway % plan.gateways) for ask in story(rng, first)]
    if rng.random() < 0.5:
        last = asks[-1]
        asks.append(replace(last, at=last.at + rng.choice((5.0, 30.0, 400.0)), how=How.AGAIN))
    found = list(faults(rng, plan.gateways, 3))
    if rng.random() < 0.25:
        found.append(
            Fault("policy changes", On.TIME, rng.uniform(0.2, 9), 0, 0.0, rng.choice(("deny", "allow", *APPROVES)))
        )
    if rng.random() < 0.25:
        found.append(Fault("operator resolves", On.TIME, rng.uniform(3, 9), 0, 0.0, "absent"))
    return replace(
        plan, asks=tuple(asks), approvers=approvers(rng, plan.gateways, 3), policy=policy, faults=tuple(found)
    )


def outdated(rng: random.Random, plan: Plan, faults: Chosen) -> Plan:
    """What somebody has in hand to decide is replaced meanwhile: the tool or its rule has changed. The gateway that is
    asked may sleep between its look and its write."""
    policy = rng.choice(APPROVES)
    asked_again = rng.uniform(3, 5)
    jobs: tuple[Job, ...] = ()
    asks: tuple[Ask, ...] = ()
    if rng.random() < 0.5:
        job = replace(first_job(rng), at=0.1, gateway=1, kind="tool_call", target="place_order", mode=None, tries=4)
        jobs = (job, replace(job, at=asked_again, token="token-9", how=How.TAKEN_OVER))
    else:
        first = Ask(0.1, 1, "c1", "call_0a", "place_order", "S0", "t0", 1, 1, "wish 0", tries=4)
        asks = (first, replace(first, at=asked_again, how=How.AGAIN))
    change = Fault("tools registered elsewhere", On.TIME, rng.uniform(1.2, 2.9))
    if rng.random() < 0.4:
        change = Fault("policy changes", On.TIME, change.at, 0, 0.0, rng.choice(("deny", *APPROVES)))
    decides = Approver(
        rng.uniform(0.5, 1.0), 0, rng.choice(WHO), rng.random() < 0.7, rng.uniform(0.1, 6), rng.choice((1, 2))
    )
    other = Approver(rng.uniform(0.5, 8.0), 1, rng.choice(WHO), rng.random() < 0.7, rng.uniform(0.0, 3))
    sleeps = Fault("gateway paused", On.STEP, float(rng.randint(2, 12)), 0, rng.uniform(1.0, 6.0))
    found = (change, *((sleeps,) if rng.random() < 0.7 else ()))
    return replace(
        plan, gateways=2, asks=asks, jobs=jobs, approvers=(decides, other)[: rng.choice((1, 2))], policy=policy,
        faults=found,
    )  # fmt: skip


def late_runtimes(rng: random.Random, plan: Plan, faults: Chosen) -> Plan:
    """A runtime sleeps past its lease; what it ran is resolved, wanted again, and decided otherwise, before it wakes."""
    policy = rng.choice(("operators approve", "operators approve", ""))
    job = replace(first_job(rng), at=0.1, kind="tool_call", target="place_order", mode=None, reply="order", dies="")
    job = replace(job, call=job.call if policy else "eff_l", sleeps_s=rng.uniform(20, 40), tries=4, patience=12.0)
    again = replace(job, at=rng.uniform(15, 17), token="token-9", attempt=rng.choice((1, 2)), sleeps_s=0.0)
    again = replace(again, how=How.TAKEN_OVER, gateway=1)
    decided = (
        Approver(1.0, 0, "op", True),
        Approver(rng.uniform(17.5, 19), 1, "op", rng.random() < 0.3),
    )
    resolved = Fault("operator resolves", On.TIME, rng.uniform(9.5, 14), 0, 0.0, rng.choice(("absent", "failed")))
    jobs = (job, again) if rng.random() < 0.8 else (job,)
    return replace(plan, jobs=jobs, approvers=decided if policy else (), policy=policy, faults=(resolved,))


def _two_wanted(rng: random.Random, plan: Plan, faults: Chosen) -> Plan:
    """Two model calls are held; the first is approved, run, and nobody hears of it again, before the second is."""
    job = replace(first_job(rng), at=0.1, call=None, kind="llm_call", target="gpt", reply="timeout after the work")
    job = replace(job, mode=rng.choice((None, "at_most_once")), tries=4, patience=12.0, work_s=0.5, gateway=0)
    second = replace(
        job, at=1.6, token="token-9", intent="effort 0, another", how=How.ANOTHER, gateway=1, reply="order"
    )
    decided = (Approver(0.5, 0, "op", True), Approver(rng.uniform(3, 12), 1, "op", True))
    found = faults(rng, 2, 1) if rng.random() < 0.3 else ()
    return replace(
        plan, gateways=2, jobs=(job, second), approvers=decided, policy="operators approve", faults=found
    )  # fmt: skip


def taken_back(rng: random.Random, plan: Plan, faults: Chosen) -> Plan:
    """The gateway that claimed is not heard, and sleeps; its runtime asks another meanwhile, is told that it holds the
    claim, and is at work when the first one wakes."""
    job = replace(first_job(rng), at=0.1, gateway=0, work_s=rng.uniform(0.5, 2.4), tries=4, patience=1.0, reply="order")
    lost = Fault(rng.choice(("claim reply lost", "claim reply lost", "claim reply slow")), On.CLAIM, 1.0, 0, 2.0)
    sleeps = Fault("gateway paused", On.STEP, float(rng.randint(2, 9)), 0, rng.uniform(1.0, 3.0))
    return replace(plan, gateways=2, jobs=(job,), policy="", faults=(lost, sleeps))


def unconfirmed(rng: random.Random, plan: Plan) -> Plan:
    """Too few have a claim; it is asked for again, by its grant or under its runtime's token, and then the ledger
    forgets it, and whoever wanted it wants it still."""
    short = Fault("too few replicas", On.CLAIM, 1.0)
    forgets = Fault("ledger failover", On.TIME, rng.uniform(0.7, 3), 0, float(rng.randint(1, 3)))
    plan = replace(plan, gateways=2, waits=True, status=False, faults=(short, forgets))
    if rng.random() < 0.5:
        ask = Ask(0.1, 0, "c1", "call_0a", "place_order", "S0", "t0", 1, 1, "wish 0", tries=4)
        decided = (Approver(0.5, 0, "op", True), Approver(rng.uniform(3.5, 6), 1, "op", True))
        slow = Fault("slow merchant", On.SEND, 1.0, 0, 0.0, "slow order")
        return replace(
            plan, asks=(ask,), approvers=decided, policy="operators approve", faults=(*plan.faults, slow)
        )  # fmt: skip
    job = replace(first_job(rng), at=0.1, gateway=0, kind="tool_call", target="place_order", mode=None, reply="order")
    job = replace(job, call="eff_s", work_s=2.0, tries=4, patience=12.0)
    again = replace(job, at=rng.uniform(3.5, 6), gateway=1, attempt=2, token="token-9", how=How.TAKEN_OVER)
    return replace(plan, jobs=(job, again), policy="")


def beside_unknown(rng: random.Random, plan: Plan, faults: Chosen) -> Plan:
    """A repeat is held; what it repeats becomes unknown, or runs again, before it is granted (4.7, 4.9)."""
    if rng.random() < 0.3:
        return _two_wanted(rng, plan, faults)
    tool = rng.choice(("place_order", "book_table"))
    first = Ask(0.1, 0, "c1", "call_0a", tool, "S0", "t0", 1, 1, "wish 0", tries=1)
    held = replace(first, at=1.0, call="call_0b", step=2, how=How.REISSUED)
    third = replace(first, at=rng.uniform(2, 3), call="call_0c", turn="t1", attempt=1, how=How.REISSUED)
    policy = rng.choice(("", "operators approve"))
    second = rng.choice(("timeout after the work", "timeout before the work", "slow order", "reset before the work"))
    found = (
        Fault("slow merchant", On.SEND, 1.0, 0, 0.0, second),
        Fault("slow merchant", On.SEND, 2.0, 0, 0.0, rng.choice((second, "slow order"))),
    )
    decided = tuple(
        Approver(
            rng.choice((0.15, rng.uniform(0.3, 4))), n % plan.gateways, "op", True, rng.choice((0.0, rng.uniform(0, 3)))
        )
        for n in range(rng.choice((2, 3)))
    )
    asks = (first, held, third)[: rng.choice((2, 3))]
    if rng.random() < 0.5:
        # The same at once under two ids, both held by policy and granted one after the other.
        asks = (first, replace(first, at=0.2, call="call_0b", turn="t1", how=How.REISSUED))
        policy = "operators approve"
    return replace(plan, asks=asks, approvers=decided, policy=policy, faults=(*found, *faults(rng, plan.gateways, 1)))
