"""Evidence of how one claim ended says nothing of the next claim of the same effect (promises 4.4, 5.5)."""

from __future__ import annotations

import msgspec
import pytest

from gateway.core import decisions as d
from gateway.core.record import Outcome, Status
from gateway.core.requests import Resolve

DAY_MS = 86_400_000


def _resolve(effect, outcome):
    return Resolve(effect.effect_id, outcome, "ops", "seen in the shop", 30 * DAY_MS, token=effect.tokens[-1])


@pytest.mark.parametrize(
    "outcome",
    [None, Outcome(Status.FAILED), Outcome(Status.SUCCEEDED, b'"MO-1"')],
    ids=["absent", "failed", "succeeded"],
)
async def test_p5_5_what_was_seen_of_a_claim_does_not_resolve_a_later_one(memory_bench, memory_time, outcome):
    """4.1, 5.5: a call that never left is unknown (its lease lapsed), somebody looks and finds nothing; its worker,
    late, releases it; it is claimed and sent anew, and unknown again. What was seen then says nothing of that."""
    bench = memory_bench
    first = (await bench.claim("call_1")).effect
    memory_time.advance(60_001)
    looked_at = (await bench.lapse(first)).effect
    assert looked_at.status is Status.INDETERMINATE
    await bench.release(first)
    again = await bench.lost("call_1")
    assert (again.effect_id, again.tokens) != (first.effect_id, first.tokens)
    decision, _ = await bench.decider.end(_resolve(looked_at, outcome), looked_at)
    assert decision == d.Late(again)
    assert await bench.record(again) == again


async def test_p5_5_evidence_of_the_claim_that_stands_resolves_it(bench):
    """5.5"""
    lost = await bench.lost("call_1")
    decision, _ = await bench.decider.end(_resolve(lost, Outcome(Status.SUCCEEDED, b'"MO-1"')), lost)
    assert isinstance(decision, d.Settled)


async def test_p5_5_evidence_that_names_no_claim_is_of_whichever_stands(bench):
    """5.5"""
    lost = await bench.lost("call_1")
    unnamed = msgspec.structs.replace(_resolve(lost, None), token=None)
    decision, _ = await bench.decider.end(unnamed, lost)
    assert isinstance(decision, d.Gone)


async def test_p5_5_a_call_that_was_taken_up_again_is_not_resolved_by_what_was_seen_before(bench):
    """4.6, 5.5: under safe_to_retry it was sent once more since somebody looked, perhaps in the same millisecond."""
    looked_at = await bench.lost("call_1", mode="safe_to_retry")
    again = await bench.lost("call_1", mode="safe_to_retry")
    assert again.tokens[0] == looked_at.tokens[0]
    decision, _ = await bench.decider.end(_resolve(looked_at, None), looked_at)
    assert decision == d.Late(again)
