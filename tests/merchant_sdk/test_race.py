"""K7-02 on SQLite: twenty at once, four processes, one order a round. PostgreSQL's is in merchant_stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sdk.race import race
from merchant_sdk import SQLiteStore


@pytest.mark.parametrize("rounds", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_k7_02_twenty_simultaneous_calls_are_one_order_a_round(
    store: SQLiteStore, database: Path, rows: Callable[[], list[Any]], rounds: int
) -> None:
    """K7-02: every reply names the round's order; the losers waited, none failed. A worker killed inside its work, with
    its order inserted and the others waiting for it, leaves nothing behind."""
    result = race(str(database), rounds)
    assert result.wrong == ()
    assert (result.orders, result.answers, result.kills) == (rounds, rounds * 20, rounds // 10)
    assert [buyer for _, buyer, _ in rows()] == [f"r{number}" for number in range(rounds)]
