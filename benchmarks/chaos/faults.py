"""What is done to the processes: one table of faults, drawn by weight from a seed."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.chaos.proxy import Link
from benchmarks.chaos.world import LEASE_S, Merchant, Replica, World, up
from benchmarks.processes import Server

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """`weight`: how often, beside the others. `body` breaks, waits and mends; it is given a target and the dice."""

    name: str
    weight: int
    targets: Callable[[World], list[object]]
    body: Callable[..., Awaitable[None]]


async def _kill(server: Server, dice: random.Random, at_most_s: float) -> None:
    await server.kill()
    await asyncio.sleep(dice.uniform(0, at_most_s))
    await up(server)


async def _stop_for(server: Server, seconds: float) -> None:
    server.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        server.signal(signal.SIGCONT)


async def kill_gateway(replica: Replica, dice: random.Random) -> None:
    await _kill(replica.server, dice, 0.6)


async def end_gateway(replica: Replica, dice: random.Random) -> None:
    await replica.server.stop()
    await up(replica.server)


async def stop_gateway_past_its_leases(replica: Replica, dice: random.Random) -> None:
    await _stop_for(replica.server, LEASE_S + dice.uniform(0.1, 2.5))


async def stop_gateway_for_a_moment(replica: Replica, dice: random.Random) -> None:
    await _stop_for(replica.server, dice.uniform(0.05, 1.2))


async def kill_redis(server: Server, dice: random.Random) -> None:
    # Now and then for longer than any lease: outcomes then wait for the ledger, and come late.
    await _kill(server, dice, dice.choice((0.2, 0.7, 0.7, LEASE_S + 2.0)))


async def stop_redis_past_the_command_timeout(server: Server, dice: random.Random) -> None:
    await _stop_for(server, dice.uniform(0.4, 1.4))


async def kill_merchant(merchant: Merchant, dice: random.Random) -> None:
    refused = dice.random() < 0.5
    if refused:
        merchant.link.refuse()
    await _kill(merchant.server, dice, 0.6)
    await merchant.link.listen()


async def stop_merchant(merchant: Merchant, dice: random.Random) -> None:
    await _stop_for(merchant.server, dice.uniform(0.2, 2.0))


async def hold_link(link: Link, dice: random.Random) -> None:
    link.hold()
    await asyncio.sleep(dice.uniform(0.3, 1.8))
    link.let_go()


async def cut_link(link: Link, dice: random.Random) -> None:
    link.cut_all()
    if dice.random() < 0.5:
        link.refuse()
        await asyncio.sleep(dice.uniform(0.05, 0.5))
        await link.listen()


def _gateways(world: World) -> list[object]:
    return list(world.replicas)


def _redis(world: World) -> list[object]:
    return [world.redis]


def _merchants(world: World) -> list[object]:
    return list(world.merchants.values())


def _links(world: World) -> list[object]:
    return list(world.links)


def _ledger_links(world: World) -> list[object]:
    return [each.ledger for each in world.replicas]


FAULTS: Final = (
    Fault("gateways killed", 10, _gateways, kill_gateway),
    Fault("gateways asked to end", 1, _gateways, end_gateway),
    Fault("gateways stopped past their leases", 4, _gateways, stop_gateway_past_its_leases),
    Fault("gateways stopped for a moment", 3, _gateways, stop_gateway_for_a_moment),
    Fault("Redis killed", 3, _redis, kill_redis),
    Fault("Redis stopped past the command timeout", 3, _redis, stop_redis_past_the_command_timeout),
    Fault("merchants killed", 5, _merchants, kill_merchant),
    Fault("merchants stopped", 2, _merchants, stop_merchant),
    Fault("links held", 4, _links, hold_link),
    Fault("links to Redis held", 4, _ledger_links, hold_link),
    Fault("links cut", 4, _links, cut_link),
)


class Breaker:
    """Does one fault after another; what is broken is mended by the fault itself, some time later."""

    def __init__(self, world: World, seed: int, log: Say) -> None:
        self.done: Counter[str] = Counter()
        self._world = world
        self._dice = random.Random(f"{seed}/faults")
        self._log = log
        self._broken: set[int] = set()
        self._mending: set[asyncio.Task[None]] = set()

    @property
    def kills(self) -> int:
        return sum(count for name, count in self.done.items() if "killed" in name)

    @property
    def stops(self) -> int:
        return sum(count for name, count in self.done.items() if "stopped" in name)

    async def round(self) -> None:
        """One to three faults at once, and a pause before the next."""
        for _ in range(self._dice.choices((1, 2, 3), (6, 3, 1))[0]):
            self._break_one()
        await asyncio.sleep(self._dice.uniform(0.1, 0.6))

    def _break_one(self) -> None:
        fault = self._dice.choices(FAULTS, [each.weight for each in FAULTS])[0]
        # The dice fall the same whatever is broken already.
        target = self._dice.choice(fault.targets(self._world))
        dice = random.Random(self._dice.random())
        if id(target) in self._broken:
            return
        self._broken.add(id(target))
        self.done[fault.name] += 1
        self._log(f"{time.time():.3f} {fault.name}: {_name(target)}")
        task = asyncio.create_task(self._mended(fault, target, dice))
        self._mending.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._mending.discard(task)  # one that failed is asked about by `all_mended`

    async def _mended(self, fault: Fault, target: object, dice: random.Random) -> None:
        await fault.body(target, dice)
        self._log(f"{time.time():.3f} mended: {fault.name}: {_name(target)}")
        self._broken.discard(id(target))

    async def all_mended(self) -> None:
        """Raises what mending raised (StartFailed)."""
        await asyncio.gather(*self._mending)

    async def give_up(self) -> None:
        """Mend nothing more: what is started from now on would outlive the run."""
        for task in self._mending:
            task.cancel()
        await asyncio.gather(*self._mending, return_exceptions=True)


def _name(target: object) -> str:
    match target:
        case Replica(server=server):
            return server.log.parent.name
        case Merchant(server=server) | (Server() as server):
            return server.name
        case Link(name=name):
            return name
    return str(target)
