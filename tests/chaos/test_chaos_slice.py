"""A slice of `make chaos`: real gateways, a real Redis and real merchants, killed and stopped and cut off."""

from __future__ import annotations

import json

import pytest

from benchmarks.chaos.__main__ import main


@pytest.mark.slow
def test_p4_5_p4_6_nothing_is_done_twice_and_nothing_untrue_is_told_whatever_is_killed(
    real_redis: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """2.1, 4.2, 4.5, 4.6, 4.7, 4.8, 4.11, 7.6: half a minute of kills, stops, cuts and bytes that come too late."""
    code = main(["--seconds", "30", "--seed", "20261", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert (code, report["violations"]) == (0, []), "\n".join(report["stories"])
    assert report["figures"]["sends"] > 20
    assert report["faults"]
