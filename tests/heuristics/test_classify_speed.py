"""The benchmark of classification: what it measures is what it says."""

from __future__ import annotations

import json

import pytest

from benchmarks.lint.classify_speed import distinct_names, main


def test_the_measured_names_are_distinct_and_new_in_each_round() -> None:
    """No cache can be the reason for the figure."""
    first, second = distinct_names(2_000, 0), distinct_names(2_000, 1)
    assert len(set(first)) == 2_000
    assert len(set(first) & set(second)) < 20
    assert first == distinct_names(2_000, 0)


def test_the_benchmark_gives_rates_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Slowest, middle and fastest round, in order."""
    assert main(["--names", "200", "--json"]) == 0
    rates = json.loads(capsys.readouterr().out)["names_per_second"]
    assert 0 < rates["slowest"] <= rates["middle"] <= rates["fastest"]
