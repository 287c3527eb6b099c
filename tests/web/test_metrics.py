"""Metrics whose number does not depend on what callers send (9.5)."""

from __future__ import annotations

import asyncio
import random
import string
from typing import Any

import pytest

from gateway.core.answer import Answer
from gateway.web.metrics import Metrics


def _word(random_: random.Random) -> str:
    return "".join(random_.choices(string.ascii_lowercase + "/%_-", k=random_.randint(1, 30)))


async def _round(gateway: Any, random_: random.Random) -> None:
    """One of everything, under names nobody used before."""
    tool, conversation, id_ = _word(random_), _word(random_), _word(random_)
    await gateway.call(tool_call_id=id_ + "x", conversation=conversation + "c")
    await gateway.call(tool_call_id=id_ + "x", conversation=conversation + "c")
    await gateway.call(tool="get_order", tool_call_id=id_)
    await gateway.call(tool=tool + "_t")
    await gateway.call(company=tool, key="k-operator")
    await gateway.call(key=_word(random_).replace("%", "p"))
    await gateway.call(step=0)
    await gateway.get("/" + tool)
    await gateway.get(f"/v1/companies/{tool.replace('/', '').replace('%', '')}x/tools/{id_.replace('%', '')}")
    await gateway.ask(random_.choice(["BREW", "X" + tool.upper()[:5], "M-SEARCH"]), "/v1/calls")
    await gateway.get(f"/v1/calls?company=acme&{tool.replace('%', '')}=1")


async def test_k8_05_the_number_of_series_does_not_grow_with_names_ids_and_paths(gateway: Any) -> None:
    """K8-05: thousands of random names and paths, 404s among them: not one series more than after the first rounds."""
    random_ = random.Random(805)
    for _ in range(20):
        await _round(gateway, random_)
    warm = set(gateway.series())
    for _ in range(400):
        await _round(gateway, random_)
    assert set(gateway.series()) == warm
    assert len(warm) < 200


async def test_k8_05_unmatched_paths_and_odd_methods_share_a_bucket(gateway: Any) -> None:
    """K8-05: no raw path and no invented method is a label."""
    for path in ("/a", "/b/c", "/v1/call"):
        await gateway.ask("GET", path)
    await gateway.ask("BREW", "/tea")
    series = gateway.series()
    assert series['oncegate_requests_total{method="GET",route="unmatched",status="404"}'] == 3
    assert series['oncegate_requests_total{method="OTHER",route="unmatched",status="404"}'] == 1


async def test_k8_05_nothing_is_kept_of_a_call_once_it_is_over(gateway: Any) -> None:
    """K8-05: the web layer holds no per-call task, lock or entry after the answer."""
    await asyncio.gather(*(gateway.call(tool_call_id=f"{n}") for n in range(200)))
    calls = gateway.app.calls
    assert (len(calls._running), calls.in_flight) == (0, 0)
    assert (len(gateway.app.bodies._since), len(gateway.app.bodies._overdue)) == (0, 0)


async def test_calls_are_counted_by_decision_status_and_effect(gateway: Any) -> None:
    """What an operator wants to know: how many were done, how many replayed, how many refused."""
    await gateway.call()
    await gateway.call()
    await gateway.call(tool="get_order")
    await gateway.call(tool="nothing")
    await gateway.post("/v1/calls/batch", {"calls": [{}]})
    series = gateway.series()
    calls = 'oncegate_calls_total{decision="%s",side_effecting="%s",status="succeeded"}'
    assert series[calls % ("proceed", "true")] == 1
    assert series[calls % ("replay", "true")] == 1
    assert series[calls % ("proceed", "false")] == 1
    assert series['oncegate_problems_total{code="unknown_tool"}'] == 1
    assert series['oncegate_problems_total{code="malformed"}'] == 1
    assert series['oncegate_requests_total{method="POST",route="/v1/calls",status="200"}'] == 3
    assert series['oncegate_call_seconds_count{decision="proceed"}'] == 2
    assert series["oncegate_calls_in_flight"] == 0


async def test_calls_in_flight_are_gauged(gateway: Any) -> None:
    """The gauge follows the calls, also those whose clients are gone."""
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    task = asyncio.create_task(gateway.call())
    await gateway.merchant.reached.wait()
    assert gateway.series()["oncegate_calls_in_flight"] == 1
    gate.set()
    await task
    assert gateway.series()["oncegate_calls_in_flight"] == 0


def test_merchant_outcomes_are_a_closed_set() -> None:
    """9.5: an outcome that no table knows counts as other."""
    metrics = Metrics()
    for outcome in ("succeeded", "failed", "not_sent", "unknown", "brewed", "x" * 100):
        metrics.merchant_outcome(outcome)
    lines = [line for line in metrics.exposition().decode().splitlines() if "merchant_outcomes_total{" in line]
    assert len(lines) == 5
    assert 'oncegate_merchant_outcomes_total{outcome="other"} 2.0' in lines


@pytest.mark.parametrize("word", ["", "new", "proceed "])
def test_decisions_and_statuses_nobody_knows_count_as_other(word: str) -> None:
    """9.5: the labels stay closed even should a service invent a word."""
    metrics = Metrics()
    answer = Answer(
        effect_id=None,
        company="c",
        conversation="c",
        tool_call_id=None,
        tool="t",
        decision=word,
        status=word,
        side_effecting=True,
    )
    metrics.answered(answer, 0.1)
    text = metrics.exposition().decode()
    assert 'oncegate_calls_total{decision="other",side_effecting="true",status="other"} 1.0' in text


async def test_metrics_are_served_without_a_key_and_name_no_company(gateway: Any) -> None:
    """9.1, 9.5: nothing in them tells one company about another."""
    await gateway.call(conversation="private-conversation")
    answer = await gateway.get("/metrics", key=None)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for private in (b"acme", b"private", b"place_order", b"k-runtime"):
        assert private not in answer.body


def test_p4_4_late_successes_are_counted_by_what_they_contradict_and_shown_from_the_start() -> None:
    """4.4, 9.5: an alert on a rise needs the zero before it; four series, whatever is said."""
    metrics = Metrics()
    for against in ("absence", "claim", "outcome", "claim"):
        metrics.conflict(against)
    lines = metrics.exposition().decode().splitlines()
    assert [line for line in lines if line.startswith("oncegate_conflicts_total{")] == [
        'oncegate_conflicts_total{against="absence"} 1.0',
        'oncegate_conflicts_total{against="claim"} 2.0',
        'oncegate_conflicts_total{against="forgotten"} 0.0',
        'oncegate_conflicts_total{against="outcome"} 1.0',
    ]
    assert Metrics().exposition().decode().count("oncegate_conflicts_total{") == 4


def test_p9_5_times_are_counted_in_every_bucket_that_holds_them() -> None:
    """9.5: a bound belongs to its bucket; each read of the metrics shows what came since the last as well."""
    metrics = Metrics()
    answer = Answer(
        effect_id=None,
        company="acme",
        conversation="c",
        tool_call_id="a",
        tool="place_order",
        decision="replay",
        status="succeeded",
        side_effecting=True,
    )
    for again, seconds in enumerate((0.001, 0.0011, 7.0, 31.0), start=1):
        metrics.answered(answer, seconds)
        shown = metrics.exposition().decode()
        assert f'oncegate_calls_total{{decision="replay",side_effecting="true",status="succeeded"}} {again}.0' in shown
    counted = [("0.001", 1), ("0.0025", 2), ("5.0", 2), ("10.0", 3), ("30.0", 3), ("+Inf", 4)]
    for bound, number in counted:
        assert f'oncegate_call_seconds_bucket{{decision="replay",le="{bound}"}} {number}.0' in shown
    assert 'oncegate_call_seconds_count{decision="replay"} 4.0' in shown
    assert 'oncegate_call_seconds_sum{decision="replay"} 38.0021' in shown
