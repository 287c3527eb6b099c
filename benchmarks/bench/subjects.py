"""What is measured, and how each slice of it is fed."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.bench.traffic import MENU, ORDER, RULED, Calls, NewCalls, asking, repeats

CONCURRENT: Final = (64, 1)
PROXY: Final = "plain proxy"
NEW: Final = "gateway, new side-effecting call"
RULES: Final = "gateway, new call under 200 rules"
REPLAY: Final = "gateway, replay (each id once)"
HOT: Final = "gateway, replay (one id)"
ASKED: Final = "gateway, replay asking the ledger"
_OF_THE_MADE: Final = {64: 0.75, 1: 1.0}
"""How much of what new calls left to replay a slice may take: what is left is for the ones after it."""

Feed = Callable[[int], list[Iterator[bytes]]]


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing measured: where its requests go, whose CPU counts, what every answer must hold."""

    name: str
    port: int
    pid: int
    must: bytes
    feed: Feed


@dataclass(frozen=True, slots=True)
class Where:
    """A server under test."""

    port: int
    pid: int


def subjects(merchant: Where, proxy: Where, gateway: Where) -> list[Subject]:
    """In the order of a round: new calls come before what replays them."""
    direct = _endless(Calls(merchant.port, ORDER))
    plain = _endless(Calls(proxy.port, ORDER))
    menu = _endless(Calls(gateway.port, MENU))
    new = NewCalls(Calls(gateway.port, ORDER))
    judged = _endless(Calls(gateway.port, ORDER, RULED))

    def orders(concurrent: int) -> list[Iterator[bytes]]:
        return [new.source() for _ in range(concurrent)]

    def each_once(concurrent: int) -> list[Iterator[bytes]]:
        share = int(len(new.made) * _OF_THE_MADE[concurrent])
        taken = repeats(deque(new.made.popleft() for _ in range(share)))
        return [taken] * concurrent

    def asked(concurrent: int) -> list[Iterator[bytes]]:
        taken = asking(list(itertools.islice(new.made, 4_000)))
        return [taken] * concurrent

    def one_id(concurrent: int) -> list[Iterator[bytes]]:
        return [itertools.repeat(new.hot)] * concurrent

    order = b'"order_id"'
    ordered, replayed = b'"decision":"proceed","status":"succeeded"', b'"decision":"replay","status":"succeeded"'
    return [
        Subject("merchant, directly", merchant.port, merchant.pid, order, direct),
        Subject(PROXY, proxy.port, proxy.pid, order, plain),
        Subject("gateway, read-only call", gateway.port, gateway.pid, ordered, menu),
        Subject(NEW, gateway.port, gateway.pid, ordered, orders),
        Subject(RULES, gateway.port, gateway.pid, ordered, judged),
        Subject(ASKED, gateway.port, gateway.pid, replayed, asked),
        Subject(REPLAY, gateway.port, gateway.pid, replayed, each_once),
        Subject(HOT, gateway.port, gateway.pid, replayed, one_id),
    ]


def _endless(calls: Calls) -> Feed:
    """Requests of ever new numbers, which these servers do not care about."""
    fresh = NewCalls(calls, keep=False)
    return lambda concurrent: [fresh.source() for _ in range(concurrent)]
