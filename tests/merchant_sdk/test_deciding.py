"""Run, replay or refuse, as a pure table; and what a refusal may say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from merchant_sdk import CallKey, Refused, RequestKey, SQLiteStore, once
from merchant_sdk.deciding import decide
from merchant_sdk.store import Record


def run(store: SQLiteStore, clock: Any, key: Any, block: Callable[[Any], Any]) -> None:
    with once(store, key, now=clock) as work:
        block(work)


FOUND = Record("call", "k", "f", "succeeded", '"O-1"', 100.0)


@pytest.mark.parametrize(
    ("record", "key", "now", "expected"),
    [
        (None, CallKey("k", "f"), 0, "run"),
        (FOUND, CallKey("k", "f"), 1e9, "replay"),
        (FOUND, CallKey("k", "g"), 0, "key_reused"),
        (FOUND, RequestKey("k", "f", window_s=10), 109, "replay"),
        (FOUND, RequestKey("k", "f", window_s=10), 110, "run"),
        (FOUND, RequestKey("k", "g", window_s=10), 110, "run"),
        (FOUND, RequestKey("k", "g", window_s=10), 109, "key_reused"),
        (FOUND, RequestKey("k", "f", window_s=10), 50, "replay"),
        (FOUND, RequestKey("k", "f", expires_at=101), 500, "replay"),
        (None, RequestKey("k", "f", expires_at=101), 100, "run"),
        (None, RequestKey("k", "f", expires_at=101), 101, "token_expired"),
        (Record("call", "k", "f", "refused", '{"code":"no","message":"No.","status":422}', 1.0), CallKey("k", "f"), 2, "no"),
    ],
)  # fmt: skip
def test_the_decision_is_a_pure_table(record: Record | None, key: Any, now: float, expected: str) -> None:
    """Run, replay or refuse; a clock set back does not end a window."""
    try:
        decided = "run" if decide(record, key, now) is None else "replay"
    except Refused as refused:
        decided = refused.code
    assert decided == expected


@pytest.mark.parametrize("status", [200, 401, 403, 408, 409, 425, 429, 500, 503])
def test_a_refusal_cannot_be_sent_with_a_status_that_means_something_else(status: int) -> None:
    """Semantics 5: 409 and 5xx would be "unknown", 401 and 429 "never executed"."""
    with pytest.raises(ValueError, match="does not tell the gateway"):
        Refused("no", "No.", status=status)
