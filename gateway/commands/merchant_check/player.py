"""Plays the plan against a target, one fault after the other, within its time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from gateway.commands.merchant_check import deliveries, refusals, signatures, statuses
from gateway.commands.merchant_check.bench import Bench
from gateway.commands.merchant_check.exchange import Exchange
from gateway.commands.merchant_check.judging import Convicted
from gateway.commands.merchant_check.link import Link
from gateway.commands.merchant_check.plan import FAULTS, OPTION, Fault, Need
from gateway.commands.merchant_check.result import Result, Run
from gateway.commands.merchant_check.target import CannotRun, Target
from gateway.commands.merchant_check.wire import Writer

PLAYS: Final[dict[str, Callable[[Bench], Awaitable[None]]]] = {
    "honest": deliveries.honest,
    "apart": deliveries.apart,
    "twice": deliveries.twice,
    "twins": deliveries.twins,
    "lost-reply": deliveries.lost_reply,
    "hang-up": deliveries.hang_up,
    "cut": deliveries.cut,
    "slow": deliveries.slow,
    "reordered": deliveries.reordered,
    "rotation": signatures.rotation,
    "stale": signatures.stale,
    "ahead": signatures.ahead,
    "forged": signatures.forged,
    "unsigned": signatures.unsigned,
    "altered": signatures.altered_body,
    "odd-signature": signatures.odd_signature,
    "borrowed-key": signatures.borrowed_key,
    "other-cart": refusals.other_cart,
    "other-customer": refusals.other_customer,
    "declined": refusals.declined,
    "status-committed": statuses.committed,
    "status-void": statuses.void,
    "late": statuses.late,
    "status-unsigned": statuses.unsigned,
}
"""A fault of the plan and how it is played. The first is played whatever was chosen: the rest means nothing without."""


async def play(
    target: Target,
    only: Collection[str],
    fresh: Callable[[], str],
    now: Callable[[], float],
    clock: Callable[[], float],
    progress: Callable[[Fault], None] = lambda _: None,
) -> Run:
    """`only`: codes of faults, all of them where empty. `now` gives Unix seconds, `clock` seconds that never go back.
    Raises CannotRun if nothing could be played at all."""
    latest = clock() + target.deadline_s
    results: list[Result] = []
    stopped = unmet = ""
    for fault in FAULTS:
        if only and fault.code not in only and fault.code != "honest":
            continue
        missing = [OPTION[need] for need in fault.needs if not _has(target, need)]
        why = stopped or unmet or (f"give {missing[0]}" if missing else "")
        if why:
            results.append(Result(fault, "not tried", why, (), ()))
            continue
        progress(fault)
        try:
            unsettled = bool(results) and results[-1].verdict == "failed"
            result = await _play_one(fault, target, fresh, now, clock, latest - clock(), unsettled)
        except CannotRun as reason:
            if fault.code == "honest":
                raise
            stopped = str(reason)
            result = Result(fault, "not tried", stopped, (), ())
        results.append(result)
        if fault.code == "honest" and result.verdict == "failed":
            unmet = "the honest call has to pass first"
    return Run(target.url, target.tool, target.counts, tuple(results), stopped)


async def _play_one(
    fault: Fault,
    target: Target,
    fresh: Callable[[], str],
    now: Callable[[], float],
    clock: Callable[[], float],
    left_s: float,
    unsettled: bool,
) -> Result:
    history: list[Exchange] = []
    begun = clock()
    link = Link(target.timeout_s, lambda: clock() - begun, history.append)
    bench = Bench(target, Writer(target, fresh, now), link)
    try:
        async with asyncio.timeout(max(left_s, 0)):
            await bench.begin(unsettled=unsettled)
            await PLAYS[fault.code](bench)
        return Result(fault, "passed", "", tuple(bench.remarks), tuple(history))
    except Convicted as done:
        if fault.code == "honest" and history and (why := history[-1].unreached):
            raise CannotRun(f"nothing answers at {target.url}: {why}") from None
        return Result(fault, "failed", str(done), tuple(bench.remarks), tuple(history))
    except TimeoutError:
        raise CannotRun(f"the run's {target.deadline_s:g} s are over: --deadline gives it more") from None
    finally:
        await link.close()


def _has(target: Target, need: Need) -> bool:
    return {
        "count": target.counts,
        "other": target.other is not None,
        "declined": target.declined is not None,
        "status": target.status_url is not None,
    }[need]
