"""From a seed to a plan: what customers do, and which faults meet them. Chance is weighted so that rare meetings of
faults come often enough; every seed may still draw anything."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.faults.counters import FAULTS as COUNTED
from tests.faults.crowds import limited
from tests.faults.efforts import (
    Chosen,
    approved,
    beside_unknown,
    late_runtimes,
    outdated,
    submissions,
    taken_back,
    unconfirmed,
)
from tests.faults.limits import LIMITS
from tests.faults.plan import Ask, Fault, How, On, Plan
from tests.faults.policies import POLICIES
from tests.faults.replies import FAULTS as REPLIED
from tests.faults.replies import REPLIES, Meaning
from tests.faults.shop import AT_MOST_ONCE, DECLARES_UNAVAILABLE, RETRIES, TOOLS
from tests.faults.status import FAULTS as STATUS_FAULTS
from tests.faults.wishes import anew, carts, once, reissued, rerun, twins, wishes

HOUR_MS: Final = 3_600_000
DAY_S: Final = 86_400.0


def plan_of(seed: int) -> Plan:
    """The history of a seed."""
    rng = random.Random(seed)
    theme = rng.choices(list(THEMES), [weight for weight, _ in THEMES.values()])[0]
    plan = Plan(seed, theme, rng.random() < 0.5, rng.choice((2, 2, 3)), (), (), rng.random() < 0.25)
    return THEMES[theme][1](rng, plan)


# --- what befalls them -----------------------------------------------------------------------------------------


def _fault(rng: random.Random, kind: str, gateways: int) -> Fault:
    on, early, amounts, whats = FAULTS[kind]
    at = rng.uniform(0, early) if on is On.TIME else float(rng.randint(1, int(early)))
    amount = rng.choice(amounts)
    return Fault(kind, on, at, rng.randrange(gateways), amount * rng.uniform(0.8, 1.2), rng.choice(whats))


_NOTHING: Final = ((0.0,), ("",))
FAULTS: Final[dict[str, tuple[On, float, tuple[float, ...], tuple[str, ...]]]] = {
    "claim not sent": (On.CLAIM, 4, *_NOTHING),
    "claim reply lost": (On.CLAIM, 4, *_NOTHING),
    "claim reply slow": (On.CLAIM, 4, (0.5, 2.0, 3.5), ("",)),
    "claim delivered after its withdrawal": (On.CLAIM, 4, (0.5, 2.0, 8.0), ("",)),
    "too few replicas": (On.CLAIM, 4, *_NOTHING),
    "settle not sent": (On.END, 4, *_NOTHING),
    "settle reply lost": (On.END, 4, *_NOTHING),
    "settle reply slow": (On.END, 4, (0.5, 2.0), ("",)),
    "out of memory at settle": (On.END, 4, (0.3, 3.0, 20.0), ("",)),
    "binding reply lost": (On.BIND, 2, *_NOTHING),
    "read not sent": (On.READ, 8, *_NOTHING),
    "read reply lost": (On.READ, 8, *_NOTHING),
    "gateway killed": (On.STEP, 45, (0.5, 3.0, 30.0), ("",)),
    "gateway paused": (On.STEP, 45, (0.3, 2.0, 4.0, 12.0), ("",)),
    "ledger restart": (On.TIME, 4, (0.2, 1.0, 6.0), ("",)),
    "ledger failover": (On.TIME, 4, (1.0, 2.0, 4.0, 9.0), ("",)),
    "gateway clock jumps": (On.TIME, 4, (HOUR_MS, -HOUR_MS), ("",)),
    "ledger clock jumps": (On.TIME, 5, (HOUR_MS, -HOUR_MS), ("",)),
    "merchant away": (On.TIME, 4, (0.5, 3.0, 9.0), ("",)),
    "tools registered elsewhere": (On.TIME, 6, *_NOTHING),
    "grant not sent": (On.DECIDE, 2, *_NOTHING),
    "grant reply lost": (On.DECIDE, 3, *_NOTHING),
    "grant reply slow": (On.DECIDE, 2, (0.5, 2.0, 3.5), ("",)),
    "grant delivered after it was given up": (On.DECIDE, 2, (0.5, 2.0, 8.0), ("",)),
    "report not sent": (On.REPORT, 3, *_NOTHING),
    "report reply lost": (On.REPORT, 3, *_NOTHING),
    **{kind: (On.COUNT, 5, (0.5, 2.0, 3.5), ("",)) for kind in COUNTED if kind.startswith("count")},
    **{kind: (On.GIVE_BACK, 2, *_NOTHING) for kind in COUNTED if not kind.startswith("count")},
    "policy changes": (On.TIME, 9, (0.0,), tuple(name for name in POLICIES if name and name not in LIMITS)),
    **{kind: (On.ASK, 3, (0.0,), whats) for kind, whats in STATUS_FAULTS.items()},
    "operator resolves": (On.TIME, 14, (0.0, 0.0, 1.0), ("absent", "absent", "failed", "succeeded")),
    **{kind: (On.SEND, 4, (0.0,), whats) for kind, whats in REPLIED.items()},
}
"""Kind -> what it waits for, how early it may come, amounts, and what it may be."""
_RARE: Final = ("grant", "report", "policy", *COUNTED)
_WEIGHTS: Final = {
    **{kind: 0.3 for kind in FAULTS if kind.startswith(_RARE)},
    "gateway killed": 4.0,
    "gateway paused": 2.0,
    "ledger failover": 2.0,
    "claim reply lost": 2.0,
}
_OF_EFFORTS: Final = {kind: 3.0 for kind in FAULTS if kind.startswith(_RARE) and kind not in COUNTED}
_OF_LIMITS: Final = dict.fromkeys(COUNTED, 6.0) | {"claim not sent": 3.0, "gateway killed": 6.0}


def _faults(rng: random.Random, gateways: int, most: int) -> tuple[Fault, ...]:
    kinds = rng.choices(list(FAULTS), [_WEIGHTS.get(kind, 1.0) for kind in FAULTS], k=rng.randint(0, most))
    return tuple(_fault(rng, kind, gateways) for kind in kinds)


def _with(
    story: Callable[[random.Random, Plan, Chosen], Plan], weights: dict[str, float] = _OF_EFFORTS
) -> Callable[[random.Random, Plan], Plan]:
    """Where some kinds of faults come more often: where approvals and reports are written, or limits counted."""
    odds = [weights.get(kind, _WEIGHTS.get(kind, 1.0)) for kind in FAULTS]

    def befalls(rng: random.Random, gateways: int, most: int) -> tuple[Fault, ...]:
        return tuple(_fault(rng, kind, gateways) for kind in rng.choices(list(FAULTS), odds, k=rng.randint(0, most)))

    return lambda rng, plan: story(rng, plan, befalls)


def _anything(rng: random.Random, plan: Plan) -> Plan:
    asks = wishes(rng, plan.gateways, rng.choice((1, 1, 2, 2, 3)))
    return replace(plan, asks=asks, faults=_faults(rng, plan.gateways, 4))


def _calm(rng: random.Random, plan: Plan) -> Plan:
    return replace(plan, asks=wishes(rng, plan.gateways, rng.choice((1, 2, 3, 4))))


def _answers(rng: random.Random, plan: Plan) -> Plan:
    """One merchant answer of any kind, and somebody who tries again."""
    story = rng.choice((once, anew, reissued, rerun, twins))
    tool = rng.choice(TOOLS).name
    first = Ask(0.1, 0, "c1", "call_0a", tool, "S0", "t0", 1, 1, "wish 0")
    kinds = rng.choices(list(REPLIED), k=rng.choice((1, 1, 2)))
    faults = [replace(_fault(rng, kind, plan.gateways), at=float(n)) for n, kind in enumerate(kinds, 1)]
    asks = [replace(ask, gateway=ask.gateway % plan.gateways) for ask in story(rng, first)]
    if tool in {t.name for t in DECLARES_UNAVAILABLE} and rng.random() < 0.6:
        faults[0] = replace(
            faults[0], kind="other status", what=rng.choice(("HTTP 409", "HTTP 503")) + " before the work"
        )
    return replace(plan, asks=tuple(asks), faults=tuple(faults))


def _kills(rng: random.Random, plan: Plan) -> Plan:
    """A gateway ends at some step of a short history, and somebody tries again elsewhere."""
    first = Ask(0.1, 0, "c1", "call_0a", rng.choice(TOOLS).name, "S0", "t0", 1, 1, "wish 0")
    asks = rng.choice((once, twins, anew, reissued, rerun))(rng, first)
    faults = [Fault("gateway killed", On.STEP, float(rng.randint(1, 40)), 0, rng.choice((0.5, 5.0, 60.0)))]
    faults += _faults(rng, plan.gateways, 1)
    asks = [replace(ask, gateway=ask.gateway % plan.gateways) for ask in asks]
    return replace(plan, asks=tuple(asks), faults=tuple(faults))


def _failovers(rng: random.Random, plan: Plan) -> Plan:
    """The ledger forgets its last writes while a call runs, and somebody asks for it again."""
    if rng.random() < 0.15:
        return unconfirmed(rng, plan)
    tool = rng.choice(AT_MOST_ONCE).name
    first = Ask(0.1, 0, "c1", "call_0a", tool, "S0", "t0", 1, 1, "wish 0", tries=rng.choice((1, 4)))
    wait = rng.uniform(0.3, 5)
    asks = (first, replace(first, at=first.at + wait, gateway=1, how=How.AGAIN))
    faults = [Fault("ledger failover", On.TIME, rng.uniform(0.1, 0.3 + wait), 0, float(rng.randint(1, 6)))]
    if rng.random() < 0.7:
        faults.append(Fault("too few replicas", On.CLAIM, float(rng.choice((1, 1, 2)))))
    if rng.random() < 0.6:
        faults.append(Fault("slow merchant", On.SEND, 1.0, 0, 0.0, "slow order"))
    return replace(plan, asks=asks, faults=(*faults, *_faults(rng, plan.gateways, 1)), waits=rng.random() < 0.8)


def _late_workers(rng: random.Random, plan: Plan) -> Plan:
    """A worker sleeps past its lease with the answer in its hands; meanwhile it is resolved and done anew."""
    tool = rng.choice(AT_MOST_ONCE if rng.random() < 0.6 else RETRIES).name
    first = Ask(0.1, 0, "c1", "call_0a", tool, "S0", "t0", 1, 1, "wish 0", tries=1)
    again = replace(first, at=rng.uniform(4.5, 9), gateway=1, how=How.AGAIN)
    replies = ("merchant refuses", "merchant not ready", "slow merchant", "slow merchant", "not connected")
    reply = _fault(rng, rng.choice(replies), 1)
    length = again.at - first.at + rng.uniform(-0.3, 1.2)
    faults = [
        replace(reply, at=1.0),
        Fault("gateway paused", On.STEP, float(rng.randint(2, 6)), 0, length),
        Fault("slow merchant", On.SEND, 2.0, 0, 0.0, "slow order"),
    ]
    if rng.random() < 0.7:
        what = rng.choice(("absent", "absent", "failed"))
        faults.append(Fault("operator resolves", On.TIME, rng.uniform(4, again.at), 1, 0.0, what))
    asks = (first, again, replace(again, at=again.at + 5))
    return replace(plan, asks=asks[:: rng.choice((1, 2))], faults=tuple(faults))


def _settled_twice(rng: random.Random, plan: Plan) -> Plan:
    """The reply to a settle is lost, and the settle is sent again (4.3)."""
    first = Ask(0.1, 0, "c1", "call_0a", rng.choice(TOOLS).name, "S0", "t0", 1, 1, "wish 0")
    reply = _fault(rng, rng.choice(("merchant refuses", "other success", "unreadable reply", "not connected")), 1)
    lost = _fault(rng, rng.choice(("settle reply lost", "settle reply lost", "out of memory at settle")), 1)
    asks = rng.choice((once, twins, anew, carts))(rng, first)
    asks = [replace(ask, gateway=ask.gateway % plan.gateways) for ask in asks]
    return replace(plan, asks=tuple(asks), faults=(replace(reply, at=1.0), replace(lost, at=1.0)))


def _second_thoughts(rng: random.Random, plan: Plan) -> Plan:
    """Under `safe_to_retry` an unknown outcome is taken up again, and the merchant then cannot be reached."""
    first = Ask(0.1, 0, "c1", "call_0a", rng.choice(RETRIES).name, "S0", "t0", 1, 1, "wish 0", tries=1)
    later = replace(first, at=rng.uniform(3, 9), gateway=1, how=How.AGAIN, tries=rng.choice((1, 3)))
    kinds = ["merchant timeout after the work" if rng.random() < 0.7 else "merchant timeout before the work"]
    kinds += [rng.choice(("not connected", "merchant not ready"))] * rng.randint(3, 8)
    faults = [replace(_fault(rng, kind, plan.gateways), at=float(n)) for n, kind in enumerate(kinds, 1)]
    return replace(plan, asks=(first, later), faults=tuple(faults))


def _asked(rng: random.Random, plan: Plan) -> Plan:
    """What is unknown is asked about, by merchants of all kinds, while others retry, resolve and register anew."""
    tool = rng.choice(TOOLS).name
    first = Ask(0.1, 0, "c1", "call_0a", tool, "S0", "t0", 1, 1, "wish 0")
    lost = [kind for kind, whats in REPLIED.items() if any(REPLIES[what].meaning is Meaning.UNKNOWN for what in whats)]
    faults = [replace(_fault(rng, rng.choice(lost), 1), at=float(n)) for n in range(1, rng.choice((2, 2, 3, 8)))]
    if rng.random() < 0.7:
        faults.append(replace(_fault(rng, rng.choice(list(STATUS_FAULTS)), 1), at=1.0))
    if rng.random() < 0.2:
        faults.append(_fault(rng, "tools registered elsewhere", 1))
    if rng.random() < 0.2:
        faults.append(_fault(rng, "operator resolves", 1))
    faults += _faults(rng, plan.gateways, 2)
    asks = rng.choice((once, anew, anew, reissued, rerun, twins))(rng, first)
    asks = [replace(ask, gateway=ask.gateway % plan.gateways) for ask in asks]
    return replace(plan, asks=tuple(asks), faults=tuple(faults), status=True)


def _stubborn(rng: random.Random, plan: Plan) -> Plan:
    """One call that stays unknown, however often it is sent again."""
    first = Ask(0.1, 0, "c1", "call_0a", rng.choice(RETRIES).name, "S0", "t0", 1, 1, "wish 0", tries=1)
    times = rng.randint(64, 70)
    asks = [replace(first, at=0.1 + 2.2 * n, gateway=n % plan.gateways, how=How.AGAIN) for n in range(1, times)]
    away = Fault("merchant away", On.TIME, 0.0, 0, 2.2 * times)
    return replace(plan, asks=(first, *asks), faults=(away, *_faults(rng, plan.gateways, 1)), status=False)


def _days(rng: random.Random, plan: Plan) -> Plan:
    """What a hold repeats ends with the retention time, while the hold stands."""
    first = Ask(0.1, 0, "c1", "call_0a", "place_order", "S0", "t0", 1, 1, "wish 0")
    held = replace(first, at=DAY_S - rng.uniform(20, 700), turn="t1", how=How.RECURRING)
    later = replace(held, at=DAY_S + rng.uniform(3, 100), gateway=1, how=How.AGAIN, intent="wish 0, a day later")
    held = replace(held, intent=later.intent)
    return replace(plan, asks=(first, held, later), faults=_faults(rng, plan.gateways, 1))


THEMES: Final[dict[str, tuple[float, Callable[[random.Random, Plan], Plan]]]] = {
    "anything": (40, _anything),
    "calm": (8, _calm),
    "merchant answers": (22, _answers),
    "kills": (14, _kills),
    "failovers": (8, _failovers),
    "late workers": (6, _late_workers),
    "settled twice": (3, _settled_twice),
    "second thoughts": (4, _second_thoughts),
    "days": (2, _days),
    "asked": (16, _asked),
    "stubborn": (0.3, _stubborn),
    "submissions": (22, _with(submissions)),
    "approved": (18, _with(approved)),
    "outdated": (6, _with(outdated)),
    "late runtimes": (4, _with(late_runtimes)),
    "beside unknown": (4, _with(beside_unknown)),
    "taken back": (2, _with(taken_back)),
    "limited": (16, _with(limited, _OF_LIMITS)),
}
