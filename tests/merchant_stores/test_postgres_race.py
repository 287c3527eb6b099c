"""K7-02 on PostgreSQL, a short slice; `make bench-sdk` runs two hundred rounds."""

from __future__ import annotations

import pytest

from benchmarks.sdk.race import race


@pytest.mark.parametrize("rounds", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_k7_02_twenty_at_once_in_four_processes_are_one_order_a_round(postgres_database: str, rounds: int) -> None:
    """K7-02: twenty equal answers, also when a worker is killed with its order inserted and not committed."""
    result = race(postgres_database, rounds)
    assert result.wrong == ()
    assert (result.orders, result.answers, result.kills) == (rounds, rounds * 20, rounds // 10)
