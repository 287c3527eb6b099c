"""A slice of `make chaos`: real gateways, a real Redis and real merchants, killed and stopped and cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from redis.asyncio import Redis

from benchmarks.chaos.__main__ import main
from benchmarks.chaos.checks import CHAIN
from benchmarks.chaos.run import chaos
from benchmarks.chaos.world import World
from benchmarks.processes import LOOPBACK


@pytest.mark.slow
def test_p4_5_p4_6_nothing_is_done_twice_and_nothing_untrue_is_told_whatever_is_killed(
    real_redis: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """2.1, 4.2, 4.5, 4.6, 4.7, 4.8, 4.11, 7.6: half a minute of kills, stops, cuts and bytes that come too late."""
    code = main(["--seconds", "30", "--seed", "20261", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert (code, report["violations"]) == (0, []), "\n".join(report["stories"])
    assert report["figures"]["sends"] > 20
    assert report["figures"]["events_verified"] > 50
    assert report["faults"]


async def _change_an_event(world: World) -> None:
    """In Redis itself, where nobody but the chain would tell: two conversations change their first events."""
    client = Redis(host=LOOPBACK, port=world.redis.port)
    async with client:
        logs = [key async for key in client.scan_iter(match="{og.*}v*") if await client.llen(key) > 1]
        events = [await client.lindex(key, 0) for key in logs]
        assert len(set(events)) > 1
        for key, event in zip(logs, events[1:] + events[:1], strict=True):
            await client.lset(key, 0, event)


@pytest.mark.slow
async def test_p7_6_a_changed_event_ends_a_run_with_a_violation(real_redis: str, tmp_path: Path) -> None:
    """7.6: a few rounds, their logs sealed; then somebody changes events, and the verification at the end says so."""
    told: list[str] = []
    report = await chaos(tmp_path, seed=7, rounds=6, seconds=25, replicas=2, say=told.append, tamper=_change_an_event)
    assert {each.rule for each in report.violations} == {CHAIN}
    assert report.figures["events_verified"] > 10
    assert "VIOLATED" in told[-1]
