"""What an operator is told at the start, before the first call fails of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.settings import Settings, load
from gateway.start_remarks import start_remarks

KEY = SimpleNamespace(id="key_1")


def remarks(settings: Settings, *, keys: list[Any], timeouts_s: list[float]) -> list[Any]:
    tools = [
        SimpleNamespace(tool=SimpleNamespace(company="acme", name=f"t{each}", timeout_s=each)) for each in timeouts_s
    ]
    registry: Any = SimpleNamespace(stored_keys=lambda: keys, stored_tools=lambda: [*tools, SimpleNamespace(tool=None)])
    return list(start_remarks(settings, registry))


@pytest.mark.parametrize(
    ("dev", "keys", "told"),
    [(False, [], True), (False, [KEY], False), (True, [], False)],
    ids=["no key", "a key", "dev has its own"],
)
def test_a_gateway_without_a_key_says_how_one_is_made(dev: bool, keys: list[Any], told: bool) -> None:
    said = remarks(load({"dev": dev}, {}, None), keys=keys, timeouts_s=[])
    assert ["`oncegate keys create`" in remark for remark, _ in said] == [True] * told


def test_k8_01_tools_that_may_outlast_a_stop_are_told() -> None:
    """K8-01: with the slowest of them, which says how long the grace has to be."""
    grace_s = Settings().stop.grace_s
    [(remark, more)] = remarks(Settings(), keys=[KEY], timeouts_s=[grace_s - 1, grace_s, grace_s + 5])
    assert remark.startswith("stop.grace_s")
    assert more == {"grace_s": grace_s, "tools": 2, "slowest": f"acme/t{grace_s + 5}", "timeout_s": grace_s + 5}
