"""Crowds at rate limits (7.5): more is wanted than a window has room for, at once and over again, by calls and by what
runtimes run; repeats of what is recorded come while there is no room, and what is held was counted when it came."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from tests.faults.efforts import Chosen, approvers, first_job
from tests.faults.limits import HELD, LIMITS, WITH_PLATFORM
from tests.faults.plan import PATIENT, Ask, Fault, How, Job, On, Plan
from tests.faults.policies import ORDERS
from tests.faults.runtimes import DEATHS
from tests.faults.shop import BY_NAME, HOLDS

POLICIES: Final = (*LIMITS, "fifty for a buyer", "two calls a conversation", WITH_PLATFORM)
THIRD: Final = "16.66667"
TOTALS: Final = ("19.99", "30.01", THIRD, "25", "7.5", "50.00", "60")
"""Of fifty: some fit together, three thirds do not by a hair, and one never does."""
_CALLS: Final = tuple(target for target in ORDERS if target in BY_NAME)


def limited(rng: random.Random, plan: Plan, faults: Chosen) -> Plan:
    """Several at once, or in a row, of one target."""
    if rng.random() < 0.12:
        return _at_its_end(rng, plan)
    policy = rng.choice(POLICIES)
    number = rng.choice((2, 3, 3, 4, 5))
    asks: tuple[Ask, ...] = ()
    jobs: tuple[Job, ...] = ()
    if rng.random() < 0.65:
        asks = _calls(rng, plan.gateways, number, policy)
    else:
        jobs = _jobs(rng, plan.gateways, min(number, 4), policy)
    found = list(faults(rng, plan.gateways, 3) if rng.random() < 0.8 else ())
    if rng.random() < 0.15:
        found.append(Fault("policy changes", On.TIME, rng.uniform(0.2, 9), 0, 0.0, rng.choice(("allow", *LIMITS))))
    decided = approvers(rng, plan.gateways, 3) if policy == HELD else ()
    return replace(plan, asks=asks, jobs=jobs, approvers=decided, policy=policy, faults=tuple(found))


def _at_its_end(rng: random.Random, plan: Plan) -> Plan:
    """Counted at the end of a window, and heard of, or given back, in the next one, which others have filled."""
    limit = LIMITS["two calls a conversation"]
    end = 0.1 + limit.window_s
    first = Ask(0.1, 0, "c1", "call_0", rng.choice(_CALLS), "L0", "t0", 1, 1, "wish 0", tries=PATIENT)
    times = (first.at, end - rng.uniform(0.01, 0.1), *(end + rng.uniform(0.1, 0.4) for _ in range(2)), end + 1.0)
    asks = tuple(
        replace(first, at=at, call=f"call_{n}", sku=f"L{n}", intent=f"wish {n}", gateway=n % plan.gateways)
        for n, at in enumerate(times)
    )
    slow = Fault("count reply slow", On.COUNT, 2.0, 0, rng.uniform(0.4, 0.8))
    unsent = Fault("claim not sent", On.CLAIM, 4.0)
    return replace(plan, asks=asks, policy=limit.name, faults=(slow, unsent)[: rng.choice((1, 2, 2))])


def _calls(rng: random.Random, gateways: int, number: int, policy: str) -> tuple[Ask, ...]:
    tool, spread = rng.choice(_CALLS), rng.choice((0.0, 0.05, 2.0, 9.0))
    conversations = ("c1",) if policy == "two calls a conversation" else ("c1", "c2")
    turns = ("t0", None, "t1") if "turn" in policy else (f"t{rng.randrange(2)}",)
    asks: list[Ask] = []
    by_a_hair = policy == "fifty for a buyer" and rng.random() < 0.3
    for each in range(max(3, number) if by_a_hair else number):
        ask = Ask(
            at=0.1 + rng.uniform(0, spread),
            gateway=rng.randrange(gateways),
            conversation=rng.choice(conversations),
            call=f"call_{each}",
            tool=tool,
            sku=f"L{each}:7:{THIRD}" if by_a_hair else _sku(rng, f"L{each}"),
            turn=rng.choice(turns),
            step=None,
            attempt=None,
            intent=f"wish {each}",
            tries=rng.choice((1, PATIENT, PATIENT)),
            patience=rng.choice((1.0, 8.0, 8.0)),
        )
        if ask.turn is not None:
            ask = replace(ask, step=1, attempt=1)
        asks.append(ask)
        if rng.random() < 0.35:
            # Alike at once: only one of them is new. Or once there may be room no more: a replay.
            later = rng.choice((0.0, rng.uniform(0.0, 0.1), rng.uniform(0.5, 6), rng.uniform(6, 30)))
            how = How.TWIN if later < 0.2 else How.AGAIN
            asks.append(replace(ask, at=ask.at + later, gateway=rng.randrange(gateways), how=how))
        elif rng.random() < 0.2 and BY_NAME[tool] in HOLDS:
            # Held as a repeat once the first is done, and counted as what it is: something new.
            repeat = replace(ask, at=ask.at + rng.uniform(0.5, 6), call=f"{ask.call}r", how=How.REISSUED)
            asks.append(replace(repeat, step=None if ask.step is None else 2))
    return tuple(sorted(asks, key=lambda ask: ask.at))


def _jobs(rng: random.Random, gateways: int, number: int, policy: str) -> tuple[Job, ...]:
    """One in an attempt of the turn, or several; some are killed and come back with their token."""
    target = rng.choice(ORDERS)
    kind = "tool_call" if target in BY_NAME else ("llm_call" if target == "gpt" else "local")
    jobs: list[Job] = []
    for each in range(number):
        job = first_job(rng, each, gateways)
        job = replace(
            job,
            kind=kind,
            target=target,
            at=rng.uniform(0.1, rng.choice((0.1, 3.0))),
            conversation="c1" if policy == "two calls a conversation" else job.conversation,
            turn=rng.choice(("u0", f"u{each}")),
            sku=_sku(rng, f"E{each}"),
            mode=None,
        )
        if rng.random() < 0.3:
            job = replace(job, dies=rng.choice(DEATHS), back_s=rng.choice((0.5, 5.0)))
        jobs.append(job)
        if rng.random() < 0.3:
            twin = replace(job, at=job.at + rng.uniform(0, 0.1), gateway=rng.randrange(gateways), dies="")
            jobs[-1] = replace(job, call=job.call or f"eff_{each}")
            jobs.append(replace(twin, call=jobs[-1].call, token=f"{job.token}t", how=How.TAKEN_OVER))
    return tuple(sorted(jobs, key=lambda job: job.at))


def _sku(rng: random.Random, name: str) -> str:
    """With a buyer and a total, mostly; else nobody can count it."""
    if rng.random() < 0.1:
        return name
    return f"{name}:{rng.choice(('7', '7.0', '8'))}:{rng.choice(TOTALS)}"
