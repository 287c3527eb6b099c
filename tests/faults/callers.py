"""The assistant's runtime: it sends its request again when no answer came or when it was told that it may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.core.answer import Answer
from gateway.core.errors import GatewayError, RateLimited
from tests.faults.clock import pause, wake
from tests.faults.loop import NOBODY
from tests.faults.plan import Ask
from tests.faults.replies import Meaning

if TYPE_CHECKING:
    from tests.faults.limited import Count
    from tests.faults.run import World

Act = Callable[[Any], Awaitable[Any]]
Judge = Callable[[Any, Any, Any], None]
PAUSES_S: Final = (0.3, 1.0, 3.0)


class Served:
    """One request at one gateway: what was sent for it, and where its answer goes."""

    def __init__(
        self, ask: Ask, gateway: int, heard: Any, act: Act | None = None, judge: Judge | None = None, token: str = ""
    ) -> None:
        """`act`: what is asked of the gateway, if not a call; `judge`: what its answer must be; `token`: a runtime's."""
        self.ask = ask
        self.gateway = gateway
        self.heard = heard
        self.act = act
        self.judge = judge
        self.claim_token = token
        self.began = 0.0
        """When the gateway took it in."""
        self.sends = 0
        self.meanings: list[Meaning] = []
        self.keys: set[str] = set()
        self.token = b""
        """What was claimed with, as the ledger had it when it was first sent."""
        self.answered = False
        self.counts: list[Count] = []
        """What limits counted for it."""
        self.unheard = False
        """Whether a write for it may have landed though nobody said so."""

    def hear(self, answer: Any) -> None:
        if not self.heard.done():
            self.heard.set_result(answer)


async def caller(world: World, ask: Ask) -> None:
    """From the first sending to an answer, or until its tries are used up."""
    await pause(world.loop, ask.at)
    answer: Any = None
    for number in range(ask.tries):
        gateway = (ask.gateway + number) % world.plan.gateways
        answer = await _one_try(world, ask, gateway)
        if isinstance(answer, Answer) or (isinstance(answer, GatewayError) and not answer.retryable):
            return
        await pause(world.loop, waits_s(answer) or PAUSES_S[min(number, 2)])
    if isinstance(answer, RateLimited):
        world.watch.limits.never_had_its_turn(ask)


def waits_s(answer: Any) -> float:
    """How long whoever is limited is told to wait; 0: it is not."""
    return (answer.retry_after_s or 0.0) + 0.001 if isinstance(answer, RateLimited) else 0.0


async def _one_try(world: World, ask: Ask, gateway: int) -> Any:
    return await request(world, gateway, ask, f"asks for {ask}", ask.patience)


async def request(
    world: World,
    gateway: int,
    ask: Ask,
    words: str,
    patience: float,
    act: Act | None = None,
    judge: Judge | None = None,
    token: str = "",
) -> Any:
    """One request to one gateway; None if no answer comes in time."""
    process = world.processes[gateway]
    if not process.alive:
        world.say("runtime", f"finds gateway {gateway} down, and {words}")
        return None
    world.say("runtime", f"at gateway {gateway} {words}")
    heard = world.loop.create_future()
    served = Served(ask, gateway, heard, act, judge, token)
    world.served.append(served)
    world.loop.call_later(world.distance(7), _arrive, world, served, context=NOBODY)
    timer = world.loop.call_later(patience, wake, heard, context=NOBODY)
    answer = await heard
    timer.cancel()
    if answer is None and not served.answered:
        world.say("runtime", f"has no answer where it {words}, and hangs up")
        if process.alive:
            world.count("caller hangs up")
    return answer


def _arrive(world: World, served: Served) -> None:
    process = world.processes[served.gateway]
    if process.alive:
        process.serve(served)
    else:
        served.hear(None)
