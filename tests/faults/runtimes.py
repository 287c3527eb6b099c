"""Runtimes that run effects themselves (7.2): honest, but they are killed, sleep past their lease, and resume.

A runtime writes down that it begins before it does, and runs nothing that it finds written down as begun: the gateway's
`proceed` for the same token means that it holds the claim, not that it has not run it yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.core import identity
from gateway.core.errors import GatewayError
from gateway.core.identity import Kind
from gateway.core.record import Fault, Mode
from gateway.service.report_effect import Report
from gateway.service.submit_effect import Submission
from tests.faults import judged_effects
from tests.faults.callers import PAUSES_S, request
from tests.faults.clock import pause
from tests.faults.limits import arguments_of
from tests.faults.merchant import Order, body_of
from tests.faults.plan import COMPANY, Ask, Job
from tests.faults.replies import REPLIES, Meaning, Work
from tests.faults.shop import RUNTIME

if TYPE_CHECKING:
    from tests.faults.run import World

LOOKS: Final = 8
LOOK_S: Final = 5.0
"""How often, and after how long, a runtime submits again what waits for approval."""
RUNS_IT: Final = "the runtime's own"
"""Where its work is booked: no merchant's door."""
REPEATABLE: Final = ("llm_call", "local")
DEATHS: Final = ("while it waits for approval", "before it runs", "while it runs", "after it ran")


@dataclass
class Saved:
    """What of a runtime outlives it."""

    begun: bool = False
    meaning: Meaning | None = None
    order: Order | None = None


async def runtime(world: World, job: Job) -> None:
    """A runtime, and whoever resumes it should it be killed."""
    await pause(world.loop, job.at)
    saved = Saved()
    if not await _lives(world, job, saved, job.dies):
        world.count(f"runtime killed {job.dies}")
        world.touched.add(job.group)
        world.say("runtime", f"is killed {job.dies}: {job}")
        if job.back_s:
            await pause(world.loop, job.back_s)
            await _lives(world, job, saved, "")


async def _lives(world: World, job: Job, saved: Saved, dies: str) -> bool:
    """False where it is killed."""
    told = await _submitted(world, job, patient=dies != DEATHS[0])
    if told is None or told["decision"] != "proceed":
        return told is None or told["decision"] != "blocked"
    key = told["effect_id"]
    if not saved.begun:
        if dies == "before it runs":
            return False
        if not await _covered(world, job, key, told["asked"] + told["lease_s"]):
            return True
        saved.begun = True
        if not await _works(world, job, key, saved, dies):
            return False
    if saved.meaning is None:
        return True  # nobody knows what became of it: so it says nothing
    if dies == "after it ran":
        return False
    if job.sleeps_s:
        world.count("runtime sleeps past its lease")
        world.touched.add(job.group)
        await pause(world.loop, job.sleeps_s)
    await _reported(world, job, key, saved)
    return True


async def _submitted(world: World, job: Job, *, patient: bool) -> dict[str, Any] | None:
    """What it is told in the end; blocked still where it is killed, or has no more patience, before that."""
    submission = Submission(
        COMPANY, job.conversation, job.turn, job.attempt, Kind(job.kind), job.target,
        identity.read_arguments(arguments_of(job.sku)), job.token, None if job.mode is None else Mode(job.mode), job.call,
        job.step,
    )  # fmt: skip
    for look in range(LOOKS):
        asked = world.loop.now
        answer = await _asked(
            world,
            job,
            f"submits {job}",
            lambda process: process.desk.submit_effect(RUNTIME, submission),
            lambda watch, served, answer: judged_effects.submission(watch, served, job, answer),
        )
        if isinstance(answer, dict) and answer["decision"] == "rate_limited" and look + 1 < LOOKS:
            await pause(world.loop, (answer["retry_after_s"] or PAUSES_S[0]) + 0.001)
            continue
        if not isinstance(answer, dict) or answer["decision"] != "blocked" or not patient:
            return {**answer, "asked": asked} if isinstance(answer, dict) else None
        await pause(world.loop, LOOK_S * (1 + look // 4 * 40))
    return None


async def _covered(world: World, job: Job, key: str, lease_over: float) -> bool:
    """Whether its lease covers its work; if not, it gives the claim back."""
    if world.loop.now + job.work_s < lease_over or job.renews or job.sleeps_s:
        return True
    await _report(world, job, key, "release")
    return False


async def _works(world: World, job: Job, key: str, saved: Saved, dies: str) -> bool:
    reply, books = REPLIES[job.reply], world.books
    said = {
        "tool": job.target,
        "arguments": arguments_of(job.sku),
        "context": {"company": COMPANY, "conversation": job.conversation, "turn": job.turn, "tool_call_id": job.call},
    }
    body = msgspec.json.encode(said)
    effect = world.ledger.effect(bytes.fromhex(key))
    if job.kind in REPEATABLE and effect is not None and effect.mode is Mode.SAFE_TO_RETRY:
        world.watch.repeatable.add(key)
    comes = reply.work is not Work.NOT
    world.watch.runs(job, key)
    books.on_the_way[RUNS_IT, key] += comes
    while (begun := books.begin(RUNS_IT, key, body, reply)) is None:
        await pause(world.loop, 0.05)
    reply = begun.reply
    left = job.work_s
    while left > 0:
        await pause(world.loop, min(left, 1.0))
        left -= 1.0
        if job.naps_s and left > 0 and left + 1.0 >= job.work_s:
            world.count("runtime naps at work")
            world.touched.add(job.group)
            await pause(world.loop, job.naps_s)
        if job.renews and left > 0:
            await _report(world, job, key, "renew")
    before = len(books.orders)
    order = books.finish(RUNS_IT, key, body, begun)
    books.on_the_way[RUNS_IT, key] -= comes
    if len(books.orders) > before and order is not None:
        world.say("runtime", f"has done {key[:8]}: order O-{order.number}")
        world.watch.booked(order)
    if dies == "while it runs":
        return False
    saved.meaning, saved.order = reply.meaning, order
    if reply.meaning is Meaning.UNKNOWN:
        saved.meaning = None
    return True


async def _reported(world: World, job: Job, key: str, saved: Saved) -> None:
    what = {Meaning.DONE: "complete", Meaning.REFUSED: "fail", Meaning.NOT_DONE: "release"}[
        saved.meaning or Meaning.DONE
    ]
    result = body_of(REPLIES["order"], saved.order) if what == "complete" else None
    fault = Fault("refused", "The shop refused it.") if what == "fail" else None
    await _report(world, job, key, what, result, fault)


async def _report(
    world: World, job: Job, key: str, what: str, result: bytes | None = None, fault: Fault | None = None
) -> Any:
    said = Report(COMPANY, job.conversation, job.token, result, fault)
    world.count(f"runtime says {what}")
    return await _asked(
        world,
        job,
        f"says {what} of {key[:8]}",
        lambda process: getattr(process.desk.report_effect, what)(RUNTIME, key, said),
        lambda watch, served, answer: judged_effects.report(watch, served, job, key, what, answer),
    )


async def _asked(world: World, job: Job, words: str, act: Any, judge: Any) -> Any:
    """Sent again where no answer comes, or where it may be."""
    ask = Ask(
        job.at,
        job.gateway,
        job.conversation,
        job.call,
        job.target,
        job.sku,
        job.turn,
        job.step,
        job.attempt,
        job.intent,
    )
    answer: Any = None
    for number in range(job.tries):
        gateway = (job.gateway + number) % world.plan.gateways
        answer = await request(world, gateway, ask, words, job.patience, act, judge, token=job.token)
        if answer is not None and not (isinstance(answer, GatewayError) and answer.retryable):
            return answer
        await pause(world.loop, PAUSES_S[min(number, 2)])
    return answer
