"""A stop whose grace is over answers those it cuts off, and leaves what runs to be recorded (K8-01)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.web.stopping import Stopping

GRACE_S = 15.0


async def running(gateway: Any, asked: Any) -> asyncio.Task[Any]:
    task = asyncio.create_task(asked)
    await gateway.merchant.reached.wait()
    return task


async def test_k8_01_a_call_cut_off_by_a_stop_is_in_flight_and_runs_on_and_is_recorded(gateway: Any) -> None:
    """K8-01, 5.3, 8: the server cancels what the grace did not end. Its caller gets a problem, not a broken
    connection; the call itself ends when it ends, and is stored once."""
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    task = await running(gateway, gateway.call())
    gateway.stopping.begin()
    task.cancel()
    cut_off = await task
    assert cut_off.status == 409
    assert {name: cut_off.problem[name] for name in ("code", "outcome", "retryable")} == {
        "code": "call_in_flight",
        "outcome": "in_flight",
        "retryable": True,
    }
    assert int(cut_off.headers["retry-after"]) >= 1
    assert not task.cancelling()
    assert gateway.app.calls.in_flight == 1
    gate.set()
    assert await gateway.app.calls.drain(60)
    again = (await gateway.call()).json()
    assert (again["decision"], again["result"]) == ("replay", "Order MO-1001 placed.")
    assert len(gateway.merchant.hits) == 1


async def test_k8_01_a_batch_cut_off_by_a_stop_is_in_flight_as_a_whole_and_all_of_it_is_made(gateway: Any) -> None:
    """K8-01, 5.3: nobody can say which of its calls ended; asked again, each says for itself."""
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    calls = [
        {"company": "acme", "conversation": "c", "tool": "place_order", "arguments": {}, "tool_call_id": f"{n}"}
        for n in range(20)
    ]
    task = await running(gateway, gateway.post("/v1/calls/batch", {"calls": calls}))
    gateway.stopping.begin()
    task.cancel()
    cut_off = await task
    assert (cut_off.status, cut_off.problem["code"]) == (409, "call_in_flight")
    gate.set()
    assert await gateway.app.calls.drain(60)
    again = (await gateway.post("/v1/calls/batch", {"calls": calls})).json()["answers"]
    assert [entry["decision"] for entry in again] == ["replay"] * 20
    assert len(gateway.merchant.hits) == 20


async def test_k8_01_without_a_stop_a_cancelled_request_is_a_client_that_hung_up(gateway: Any) -> None:
    """K8-01, 5.3: nobody is there to be answered, so the cancellation goes on to whoever cancelled; the call runs."""
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    task = await running(gateway, gateway.call())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    gate.set()
    assert await gateway.app.calls.drain(60)
    assert (await gateway.call()).json()["decision"] == "replay"


async def test_k8_01_calls_that_end_within_the_grace_are_answered_as_ever(gateway: Any) -> None:
    """K8-01: a stop that has begun changes nothing for those in flight, nor for those that still come."""
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    task = await running(gateway, gateway.call())
    gateway.stopping.begin()
    late = asyncio.create_task(gateway.call(tool_call_id="b"))
    gate.set()
    assert {(await task).json()["decision"], (await late).json()["decision"]} == {"proceed"}


class Hand:
    """A clock that a hand moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("passed_s", "left_s"), [(0, GRACE_S), (0.5, 14.5), (14.999, 0.001), (15, 0), (16, 0), (10_000, 0)]
)
def test_k8_01_what_is_left_of_the_grace_shrinks_from_the_moment_the_stop_began(passed_s: float, left_s: float) -> None:
    """K8-01: one grace for all that a stop waits for, never below zero; asked again, the stop begins no second time."""
    hand = Hand()
    stopping = Stopping(hand.monotonic)
    hand.now += 1_000
    assert (stopping.begun, stopping.left_s(GRACE_S)) == (False, GRACE_S)
    stopping.begin()
    hand.now += passed_s
    stopping.begin()
    assert stopping.begun
    assert stopping.left_s(GRACE_S) == pytest.approx(left_s)
