"""Recorded calls through a real gateway on a real redis-server: the same code that `make replay` runs."""

from __future__ import annotations

from pathlib import Path

from benchmarks.replay.expected import Fate
from benchmarks.replay.recorded import load
from benchmarks.replay.report import text
from benchmarks.replay.run import counts, replay


async def test_p2_3_p4_9_an_odd_conversation_is_replayed_with_every_write_once(
    own_recording: Path, tmp_path: Path, real_redis: str
) -> None:
    """2.1, 2.3, 4.2, 4.9, 5.3: recycled ids, refused writes tried again, a booking made, cancelled and made
    again, a write repeated after it succeeded, replies dropped, the gateway asked to end and killed."""
    report = await replay(load(own_recording), tmp_path, restarts=2)
    assert report.failures == [], text(report, own_recording.name)
    figures = counts(report)
    assert {name: figures[name] for name in _DUE} == _DUE
    held = [each.call.tool_call_id for each in report.expected if each.fate is Fate.HELD]
    assert held == ["call_5", "call_8"]


_DUE = {
    "calls": 27,
    "read_only_calls": 4,
    "writes": 23,
    "sends_of_writes": 20,
    "writes_refused_by_the_shop": 3,
    "holds": 2,
    "recycled_ids": 9,
    "replies_dropped": 27,
    "requests": 27 * 5 - 13,
    "restarts": 2,
    "turns_longer_than_six_steps": 1,
    "refused_by_the_gateway": 0,
}


async def test_p2_3_the_first_real_conversations_are_replayed_with_every_write_once(
    real_recording: Path, tmp_path: Path, real_redis: str
) -> None:
    """2.3: what a real model did, eight conversations of it; all hundred with `make replay`."""
    report = await replay(load(real_recording, 8), tmp_path, restarts=2)
    assert report.failures == [], text(report, real_recording.name)
    figures = counts(report)
    assert figures["sends_of_writes"] == figures["writes"] - figures["holds"] > 0
    assert figures["recycled_ids"] > 0
