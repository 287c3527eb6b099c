"""What goes over the wire, as a real Redis itself sees it (promise 4.10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.core import decisions as d
from gateway.core.identity import Scope
from gateway.core.record import Outcome, Status
from gateway.core.requests import Settle

Watched = Callable[[Awaitable[Any]], Awaitable[tuple[list[str], Any]]]
PLACE = {"turn": "t-1", "step": 1, "attempt": 1}


@pytest.fixture
async def watched(redis_bench: Any, redis_socket: Path) -> AsyncIterator[Watched]:
    """Runs something, and names the commands that clients sent meanwhile; those that scripts call are not among them."""
    await redis_bench.run("warm", {"sku": "warm"})  # from here on the server knows the script
    reader, writer = await asyncio.open_unix_connection(str(redis_socket))
    writer.write(b"MONITOR\r\n")
    assert await reader.readline() == b"+OK\r\n"

    async def since_last() -> list[str]:
        await redis_bench.wire.do("ECHO", "here")
        seen: list[str] = []
        while "ECHO" not in seen:
            client, _, command = (await reader.readline()).decode(errors="replace").partition("] ")
            if not client.endswith(" lua"):
                seen.append(command.split('"')[1].upper())
        return seen[:-1]

    async def run(asked: Awaitable[Any]) -> tuple[list[str], Any]:
        await since_last()
        answer = await asked
        return await since_last(), answer

    yield run
    writer.close()


async def test_p4_10_a_new_call_is_one_command_and_its_end_another(redis_bench: Any, watched: Watched) -> None:
    """4.10, 4.15: claim, event, indexes and all are one script; so is the settle."""
    request = redis_bench.ask("call_1", **PLACE)
    seen, (granted, view) = await watched(redis_bench.decider.claim(request))
    assert (seen, type(granted)) == (["EVALSHA"], d.Granted)
    outcome = Outcome(Status.SUCCEEDED, b'"%b"' % (b"x" * 1_000))
    settle = Settle(granted.effect.effect_id, request.token, outcome, 86_400_000)
    seen, (settled, _) = await watched(redis_bench.decider.end(settle, granted.effect, view))
    assert (seen, type(settled)) == (["EVALSHA"], d.Settled)


@pytest.mark.parametrize("likely_new", [True, False], ids=["swapped in unseen", "looked up first"])
@pytest.mark.parametrize("place", [PLACE, {}], ids=["placed", "bare"])
async def test_p4_10_a_replay_is_one_command(
    redis_bench: Any, watched: Watched, place: dict[str, Any], likely_new: bool
) -> None:
    """4.10"""
    await redis_bench.run("call_1", **place)
    asked = redis_bench.decider.claim(redis_bench.ask("call_1", **place), likely_new=likely_new)
    seen, (replay, _) = await watched(asked)
    assert (seen, type(replay)) == (["EVALSHA"], d.Replay)


@pytest.mark.parametrize("likely_new", [True, False], ids=["swapped in unseen", "looked up first"])
async def test_p7_2_what_a_turn_that_goes_on_finds_recorded_is_one_command(
    redis_bench: Any, watched: Watched, likely_new: bool
) -> None:
    """7.2, 4.10: a submission under the token that it had before, in a process that has never seen it."""
    submitted = {"submitted": True, "tool_call_id": None, "scope": Scope.CONVERSATION, "token": b"t" * 16}
    request = msgspec.structs.replace(redis_bench.ask("ignored", **PLACE), **submitted)
    granted, view = await redis_bench.decider.claim(request)
    settle = Settle(granted.effect.effect_id, request.token, Outcome(Status.SUCCEEDED, b'"said"'), 86_400_000)
    await redis_bench.decider.end(settle, granted.effect, view)
    seen, (replay, _) = await watched(redis_bench.decider.claim(request, likely_new=likely_new))
    assert (seen, type(replay), replay.matched) == (["EVALSHA"], d.Replay, "claim_token")


@pytest.mark.parametrize("attempt", [1, 2])
async def test_p4_10_what_a_replay_in_a_later_attempt_costs(redis_bench: Any, watched: Watched, attempt: int) -> None:
    """4.10, 2.5: one command; in a new attempt another, which counts the occurrence there (2.4), once."""
    await redis_bench.run("call_1", **PLACE)
    ask = {**PLACE, "attempt": attempt}
    seen, (replay, _) = await watched(redis_bench.decider.claim(redis_bench.ask("call_1", **ask)))
    assert (len(seen), type(replay)) == (attempt, d.Replay)
    seen, _ = await watched(redis_bench.decider.claim(redis_bench.ask("call_1", **ask)))
    assert seen == ["EVALSHA"]
