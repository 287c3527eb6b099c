"""Two gateways over one ledger whose hosts' clocks are two hours apart, and the ledger's own clock far from both: what
section 7 promises goes by the ledger's (7.3 to 7.6)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import pytest

from gateway.core import errors
from gateway.core.model import Principal, Role
from gateway.core.policy_bundle import read_bundle
from gateway.service.decide_approval import Verdict
from gateway.service.sending import Trace

OPS = Principal("ops", Role.OPERATOR, frozenset({"*"}), "k-1")
TRACE = Trace("req-1")
HOUR_MS = 3_600_000


class HostClock:
    """One monotonic clock for all, as processes of one machine have; a wall clock that is wrong."""

    def __init__(self, shared: Any, wrong_by_ms: int) -> None:
        self._shared, self._wrong_by_ms = shared, wrong_by_ms

    def monotonic(self) -> float:
        return float(self._shared.monotonic())

    def wall_ms(self) -> int:
        return int(self._shared.wall_ms()) + self._wrong_by_ms

    async def sleep(self, seconds: float) -> None:
        await self._shared.sleep(seconds)


class Two(NamedTuple):
    ahead: Any
    behind: Any
    ledger_time: Any

    def ms(self, at: str) -> int:
        """Of a time that was shown, from the ledger's now on."""
        return round(datetime.fromisoformat(at).timestamp() * 1000) - self.ledger_time.now_ms

    def gateway(self, name: str) -> Any:
        return getattr(self, name)


@pytest.fixture
def two(ledger_time: Any, world: Any) -> Two:
    clocks = (HostClock(world.clock, by) for by in (HOUR_MS, -HOUR_MS))
    return Two(*(world.another_gateway(clock) for clock in clocks), ledger_time)


def rules(then: dict[str, Any]) -> Any:
    document = {"default_action": "allow", "rules": [{"id": "r", "priority": 1, "when": {"target": "*"}, "then": then}]}
    return read_bundle(document, "shop1")


BOTH_WAYS = pytest.mark.parametrize(("one", "other"), [("ahead", "behind"), ("behind", "ahead")])


@BOTH_WAYS
async def test_p7_4_an_approval_lapses_by_the_ledgers_clock_whoever_looks(two: Two, one: str, other: str) -> None:
    """7.4: shown alike by both, granted through the other to its last second, and by neither after."""
    first, second = two.gateway(one), two.gateway(other)
    first.shelf.policies["shop1"] = rules({"decision": "require_approval", "timeout_s": 600})
    for call, wait_s in (("n1", 599), ("n2", 600)):
        held = await first.call(tool_call_id=call, arguments={"sku": call})
        assert two.ms(held.approval["expires_at"]) == 600_000
        name = held.approval["id"]
        shown = await second.desk.decide_approval.get(OPS, name)
        assert shown["expires_at"] == held.approval["expires_at"]
        assert two.ms(shown["requested_at"]) == 0
        two.ledger_time.advance(wait_s)
        if wait_s < 600:
            await second.sweep.once()
            assert (await second.desk.decide_approval.grant(OPS, name, Verdict(), TRACE))["status"] == "succeeded"
        else:
            with pytest.raises(errors.ApprovalDecided, match="lapsed"):
                await second.desk.decide_approval.grant(OPS, name, Verdict(), TRACE)
    assert first.merchant.hits == 1


@BOTH_WAYS
async def test_p7_5_a_window_is_one_for_both_gateways(two: Two, one: str, other: str) -> None:
    """7.5: it begins with its first and ends by the ledger's clock."""
    first, second = two.gateway(one), two.gateway(other)
    limit = {"max": 2, "window_s": 60, "per": "conversation"}
    first.shelf.policies["shop1"] = rules({"decision": "allow", "rate_limit": limit})
    await first.call(tool_call_id="n1", arguments={"sku": "1"})
    two.ledger_time.advance(59)
    await second.call(tool_call_id="n2", arguments={"sku": "2"})
    for gateway in (first, second):
        with pytest.raises(errors.RateLimited) as limited:
            await gateway.call(tool_call_id="n3", arguments={"sku": "3"})
        assert limited.value.retry_after_s == pytest.approx(1.0)
    two.ledger_time.advance(1)
    assert (await second.call(tool_call_id="n3", arguments={"sku": "3"})).status == "succeeded"


async def test_p7_6_the_log_is_in_order_and_has_the_ledgers_times(two: Two) -> None:
    """7.6: whichever gateway wrote what; refusals that leave no record, too."""
    for number in range(6):
        gateway = two[number % 2]
        gateway.shelf.policies["shop1"] = rules({"decision": "deny"}) if number == 3 else rules({"decision": "allow"})
        await gateway.call(tool_call_id=f"n{number}", arguments={"sku": str(number)})
        await gateway.settle_background()
        two.ledger_time.advance(1)
    log = await two.ahead.look_up.events(OPS, "shop1", "c1", 0, 500)
    assert log == await two.behind.look_up.events(OPS, "shop1", "c1", 0, 500)
    assert "effect.denied" in {event["type"] for event in log}
    times = [two.ms(event["at"]) for event in log]
    assert times == sorted(times)
    assert set(times) <= {-1_000 * seconds for seconds in range(1, 7)}


@BOTH_WAYS
async def test_p4_10_the_age_of_a_replay_is_the_ledgers(two: Two, one: str, other: str) -> None:
    """4.10, 4.9: and so is the window in which a call is a repeat."""
    done = await two.gateway(one).call(tool_call_id="n1", turn="t-1")
    two.ledger_time.advance(50)
    replay = (await two.gateway(other).call(tool_call_id="n1", turn="t-1")).replay
    assert replay["age_s"] == pytest.approx(50, abs=0.1)
    assert (await two.gateway(other).call(tool_call_id="n2", turn="t-2")).decision == "blocked"
    two.ledger_time.advance(3_600)
    assert (await two.gateway(other).call(tool_call_id="n3", turn="t-3")).status == "succeeded"
    assert done.status == "succeeded"
