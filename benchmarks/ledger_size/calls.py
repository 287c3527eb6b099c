"""The calls that are stored: as an assistant makes them, through the real decider."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator
from time import perf_counter
from typing import Final

from gateway.core import decisions as d
from gateway.core import identity
from gateway.core.identity import Kind, Place, Scope
from gateway.core.record import Mode, Outcome, Status
from gateway.core.requests import Claim, OnRepeat, Settle, Terms
from gateway.core.strict_json import dumps
from gateway.service.deciding import Decider

DAY_MS: Final = 86_400_000
CALLS_A_CONVERSATION: Final = 4
RESULT_BYTES: Final = 1_000
_ALPHABET: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_LETTERS: Final = bytes(_ALPHABET[code % len(_ALPHABET)] for code in range(256))
"""A letter for every byte: as good as evenly spread, and a hundred times as fast as choosing each."""
_TERMS: Final = Terms(
    Mode.AT_MOST_ONCE, OnRepeat.HOLD, 15_000, 3, "https://shop.example.com/oncegate/tools", 60_000, 30 * DAY_MS
)


class Calls:
    """One seed, one sequence of calls. Two of a conversation's four are in each of two turns, steps 1 and 2."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def conversations(self) -> Iterator[list[Claim]]:
        while True:
            conversation = self._uuid()
            turns = [self._uuid(), self._uuid()]
            yield [self._claim(conversation, turns[n // 2], n % 2 + 1) for n in range(CALLS_A_CONVERSATION)]

    def result(self) -> bytes:
        """A JSON order of exactly RESULT_BYTES."""
        order = {
            "order_id": f"MO-{self._random.randrange(10**9)}",
            "status": "confirmed",
            "total": {"amount": str(self._random.randrange(10**5)), "currency": "EUR"},
            "lines": [{"sku": self._letters(8), "qty": 1, "name": self._letters(24)} for _ in range(6)],
            "note": "",
        }
        missing = RESULT_BYTES - len(dumps(order))
        order["note"] = self._letters(missing)
        result = dumps(order).encode()
        assert len(result) == RESULT_BYTES
        return result

    def token(self) -> bytes:
        return self._random.randbytes(16)

    def _claim(self, conversation: str, turn: str, step: int) -> Claim:
        arguments = {
            "sku": self._letters(8),
            "quantity": self._random.randrange(1, 9),
            "address": {"street": self._letters(20), "city": self._letters(10), "zip": self._letters(5)},
            "email": f"{self._letters(10)}@example.com",
            "note": self._letters(300),
            "gift": False,
        }
        read = identity.read_arguments(arguments)
        return Claim(
            company="acme-outfitters",
            conversation=conversation,
            tool_call_id=f"call_{self._letters(24)}",
            kind=Kind.TOOL_CALL,
            target="place_order",
            arguments=read,
            fingerprint=identity.fingerprint(Kind.TOOL_CALL, "place_order", read.canonical),
            place=Place(turn, step, 1),
            scope=Scope.AUTO,
            terms=_TERMS,
            token=self.token(),
        )

    def _letters(self, number: int) -> str:
        return self._random.randbytes(number).translate(_LETTERS).decode()

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


class Times:
    """Seconds that trips to the ledger took, by kind."""

    def __init__(self) -> None:
        self.claim: list[float] = []
        self.settle: list[float] = []
        self.replay: list[float] = []


async def store(decider: Decider, calls: list[Claim], results: list[bytes], times: Times | None = None) -> None:
    """Claim and settle the calls of one conversation, one after another."""
    for call, result in zip(calls, results, strict=True):
        started = perf_counter()
        decision, view = await decider.claim(call)
        claimed = perf_counter()
        if not isinstance(decision, d.Granted):
            raise RuntimeError(f"a new call was answered {decision}")
        effect = decision.effect
        end = Settle(effect.effect_id, call.token, Outcome(Status.SUCCEEDED, result), _TERMS.retention_ms)
        ended, _ = await decider.end(end, effect, view)
        if not isinstance(ended, d.Settled):
            raise RuntimeError(f"a settle was answered {ended}")
        if times is not None:
            times.claim.append(claimed - started)
            times.settle.append(perf_counter() - claimed)


async def fill(decider: Decider, calls: Calls, number: int, *, at_once: int = 64) -> list[Claim]:
    """Store so many calls; returns some of them, to be asked for again."""
    source = calls.conversations()
    left = number // CALLS_A_CONVERSATION
    kept: list[Claim] = []
    while left:
        batch = [next(source) for _ in range(min(at_once, left))]
        left -= len(batch)
        await asyncio.gather(*(store(decider, each, [calls.result() for _ in each]) for each in batch))
        kept.append(batch[0][0])
    return kept


async def look_again(decider: Decider, call: Claim, times: Times) -> None:
    """A replay that asks the ledger."""
    started = perf_counter()
    decision, _ = await decider.claim(call)
    times.replay.append(perf_counter() - started)
    if not isinstance(decision, d.Replay):
        raise RuntimeError(f"a repeat was answered {decision}")
