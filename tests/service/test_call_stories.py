"""What `oncegate calls show` tells of a call, from the events that the gateway really wrote."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core import identity
from gateway.core.conversation import Where
from gateway.core.explain import Explained, explain
from gateway.core.identity import Place, Scope
from gateway.core.model import Principal, Role
from gateway.core.record import Mode
from gateway.core.requests import Lose, OnRepeat

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")


async def told(world: Any, tool_call_id: str = "n1") -> Explained:
    """The story of the id's record; events and record agree on where it stands."""
    await world.settle_background()
    (call,) = await world.look_up.calls(OPERATOR, "shop1", "c1", tool_call_id)
    explained = explain(call["events"])
    assert explained.status == call["status"]
    return explained


async def denials(world: Any, tool_call_id: str) -> Explained:
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 500)
    return explain([event for event in events if event["effect_id"] is None and event["tool_call_id"] == tool_call_id])


def says(lines: tuple[str, ...], *words: str) -> bool:
    """Whether the lines say all of it, in this order."""
    text, at = "\n".join(lines), 0
    for word in words:
        at = text.find(word, at)
        if at < 0:
            return False
    return True


async def test_a_new_call_that_succeeded(world):
    await world.call(tool_call_id="n1", turn="t1", step=2, attempt=1)
    story = await told(world)
    assert says(
        story.story, "Asked for: create_order, id n1, turn t1, step 2, attempt 1.", "allowed", "set out", "did it."
    )
    assert says(story.now, "same id gives this outcome")


async def test_a_replay_by_its_id_by_its_effect_id_and_of_a_repeat(world, retag):
    """2.1, 2.5, 4.9: three ways to be answered from the record."""
    await world.call(tool_call_id="n1", turn="t1", attempt=1)
    await world.call(tool_call_id="n1", turn="t1", attempt=1)
    assert says((await told(world)).story, "under its id (1×)")
    await world.call(tool_call_id="m1", turn="t2", attempt=1, arguments={"sku": "B"})
    await world.call(tool_call_id="m2", turn="t2", attempt=2, arguments={"sku": "B"})
    assert says((await told(world, "m1")).story, "re-run of its turn (1×)")
    retag(world, "create_order", on_repeat=OnRepeat.REPLAY)
    await world.call(tool_call_id="k1", arguments={"sku": "C"})
    await world.call(tool_call_id="k2", arguments={"sku": "C"})
    assert says((await told(world, "k1")).story, "An identical call came (1×)")


async def test_a_held_repeat_names_what_it_repeats_and_lapses(world, ledger_time):
    """4.9, 7.4"""
    first = await world.call(tool_call_id="n1")
    await world.call(tool_call_id="n2")
    held = await told(world, "n2")
    assert says(held.story, "Held: the same call had already succeeded", first.effect_id)
    assert says(held.now, "Nothing is sent while it is held")
    ledger_time.advance(3_600)
    await world.call(tool_call_id="n2")
    lapsed = await told(world, "n2")
    assert says(lapsed.story, "ran out", "nobody approved it in time")
    assert says(lapsed.now, "new call, under a new id")


async def test_a_denial_for_steps_and_one_for_a_prior_unknown_outcome(world, seen):
    """7.1, 4.7: nothing is recorded, so the log is all there is."""
    await world.call(tool_call_id="n1", turn="t1", step=7)
    steps = await denials(world, "n1")
    assert steps.status is None
    assert says(steps.story, "no steps left")
    assert says(steps.now, "next turn")
    world.merchant.behave = lambda _: seen["timed_out"]
    first = await world.call(tool_call_id="n2")
    await world.call(tool_call_id="n3")
    prior = await denials(world, "n3")
    assert says(prior.story, "not known whether an identical call was done", first.effect_id)
    assert says(prior.now, f"--effect {first.effect_id}")


UNKNOWN = {
    "timed_out": "did not answer in time",
    "reset": "broke off",
    "500": "does not tell whether it was done (HTTP 500)",
    "html": "a page instead of a result (HTTP 200)",
    "307": "a redirect (HTTP 307), which is not followed. Register the address",
    "302 with a page": "a redirect (HTTP 302), which is not followed. Register the address",
}


@pytest.mark.parametrize("how", UNKNOWN)
async def test_an_unknown_outcome_says_what_was_seen_and_what_can_be_done(world, seen, how):
    """5, 4.6: the three ways out of it, and that none of them is sending it again."""
    made = {"500": seen["reply"](500, {}), "html": seen["reply"](200, b"<html>", "text/html")}
    made |= {"307": seen["reply"](307, b""), "302 with a page": seen["reply"](302, b"<html>", "text/html")}
    world.merchant.behave = lambda _: made.get(how) or seen[how]
    await world.call(tool_call_id="n1")
    story = await told(world)
    assert says(story.story, "Not known whether it was done", UNKNOWN[how])
    assert says(story.now, "not sent again by itself", "identical call", "status endpoint", "calls resolve")


async def test_a_lapsed_lease_is_the_gateways_own_end(world, silent, kill, ledger_time):
    """4.5"""
    world.merchant.behave = silent
    await kill(world, tool_call_id="n1")
    running = await told(world)
    assert (running.status, says(running.now, "Wait:")) == ("executing", True)
    ledger_time.advance(15)
    await world.sweep.once()
    assert says((await told(world)).story, "killed or hung")


async def test_what_may_be_sent_again_says_so(world, seen, retag):
    """4.6: safe_to_retry, from the events alone."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    world.merchant.behave = lambda _: seen["timed_out"]
    await world.call(tool_call_id="n1")
    assert says((await told(world)).now, "sent again under the same key", "calls resolve")
    world.merchant.behave = lambda _: seen["reply"](body="O-1")
    await world.call(tool_call_id="n1")
    assert says((await told(world)).story, "Not known", "Sent again under the same key", "did it.")


async def test_a_release_and_the_call_that_then_ran(world, seen):
    """5: nothing was sent, so the id was free again."""
    world.merchant.behave = lambda _: seen["no_connection"]
    with pytest.raises(Exception, match="could not be reached"):
        await world.call(tool_call_id="n1")
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 500)
    released = explain(events)
    assert released.status == "absent"
    assert says(released.story, "Not sent: the merchant could not be reached")
    assert says(released.now, "runs as new")
    world.merchant.behave = lambda _: seen["reply"](body="O-1")
    await world.call(tool_call_id="n1")
    assert says((await told(world)).story, "Not sent", "did it.")


async def test_p5_4_what_the_status_endpoint_said_and_a_success_after_it(world, seen, retag):
    """5.4, 4.4: resolved by the merchant itself; then the first worker's answer comes after all."""
    retag(world, "create_order", status_endpoint="https://shop1.example/status")
    gate = asyncio.Event()

    async def slowly(request: Any) -> Any:
        if request.url.endswith("/status"):
            return seen["reply"](body={"status": "void"})
        await gate.wait()
        return seen["reply"](body="O-1")

    world.merchant.behave = slowly
    first = asyncio.ensure_future(world.call(tool_call_id="n1"))
    await world.merchant.reached()
    slot = identity.call_digest("shop1", "c1", "n1", Scope.AUTO, Place(None, None))
    view = await world.ledger.read(Where(identity.conversation_digest("shop1", "c1"), b"", slots=(slot,)))
    (effect,) = view.effects.values()
    await world.decider.end(Lose(effect.effect_id, effect.tokens[-1], "timed_out"), effect)
    await world.call(tool_call_id="n1")
    void = await told(world)
    assert says(void.story, "was not done and never will be")
    assert says(void.now, "new call, under a new id")
    gate.set()
    await first
    assert says((await told(world)).story, "never will be", "ALARM", "says failed")
