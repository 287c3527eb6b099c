"""A tool that was side-effecting and is read-only by now: what was recorded stays under its record (3.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.answer import answer_bytes
from gateway.core.errors import LedgerUnavailable
from gateway.core.model import Company, Principal, Role
from gateway.core.record import Mode
from gateway.core.requests import OnRepeat

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
DAY_S = 86_400.0


def body(answer: Any) -> dict[str, Any]:
    return json.loads(answer_bytes(answer))


async def status_of(world: Any, tool_call_id: str) -> list[str]:
    return [call["status"] for call in await world.look_up.calls(OPERATOR, "shop1", "c1", tool_call_id)]


@pytest.mark.parametrize("other_id", [False, True])
async def test_p3_6_an_unknown_safe_to_retry_call_is_sent_again_under_its_own_key_never_as_a_read(
    world, seen, retag, turn_read_only, other_id
):
    """2.1, 3.6, 4.6: one key, one body, the endpoint of the record; recorded, and answered with its effect id. With
    turn and attempt, so also under the id that the model gave it in a later attempt (2.5)."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    world.merchant.behave = lambda _: seen["reset"]
    place = {"turn": "t1", "step": 1}
    first = await world.call(tool_call_id="n1", **place, attempt=1)
    tried = world.merchant.hits
    assert first.status == "indeterminate"
    turn_read_only(world, "create_order", version=2, endpoint="https://elsewhere.example/tools")
    world.merchant.behave = lambda _: seen["reply"](body="done")
    asked = {"tool_call_id": "n2", "attempt": 2} if other_id else {"tool_call_id": "n1", "attempt": 1}
    again = await world.call(**asked, **place)
    assert (again.status, again.effect_id, again.recorded) == ("succeeded", first.effect_id, True)
    assert world.merchant.hits == tried + 1
    sent = [dict(request.headers) for request in world.merchant.requests]
    assert {(each["idempotency-key"], each["webhook-id"]) for each in sent} == {(first.effect_id, first.effect_id)}
    assert len({(request.url, request.body) for request in world.merchant.requests}) == 1
    assert await status_of(world, "n1") == ["succeeded"]
    assert (await world.call(**asked, **place)).decision == "replay"
    assert world.merchant.hits == tried + 1


async def test_p3_6_an_unknown_at_most_once_call_replays_as_unknown_and_is_not_sent(world, seen, turn_read_only):
    """2.1, 3.6, 4.6: being a read now does not make the second send harmless."""
    world.merchant.behave = lambda _: seen["timed_out"]
    first = await world.call(tool_call_id="n1")
    turn_read_only(world, "create_order")
    world.merchant.behave = lambda _: seen["reply"](body="done")
    again = body(await world.call(tool_call_id="n1"))
    assert (again["decision"], again["status"]) == ("replay", "indeterminate")
    assert (again["effect_id"], again["error"]["code"]) == (first.effect_id, "outcome_unknown")
    assert world.merchant.hits == 1


async def test_p4_5_a_dead_workers_call_is_unknown_though_its_tool_is_read_only_by_now(
    world, silent, kill, ledger_time, turn_read_only
):
    """3.6, 4.5: the tool turns read-only while a call of it is under way."""
    world.merchant.behave = silent
    await kill(world, tool_call_id="n1")
    turn_read_only(world, "create_order")
    ledger_time.advance(15)
    again = await world.call(tool_call_id="n1")
    assert (again.decision, again.status, world.merchant.hits) == ("replay", "indeterminate", 1)


async def test_p2_7_a_recorded_call_named_by_turn_and_attempt_replays_though_its_tool_is_read_only_by_now(
    world, turn_read_only
):
    """2.7, 3.6: without a tool_call_id; another attempt of the turn finds it as well, another call is a read."""
    call = {"tool_call_id": None, "turn": "t1", "attempt": 1}
    first = await world.call(**call)
    turn_read_only(world, "create_order")
    other = await world.call(**call, arguments={"sku": "B"})
    assert (other.decision, other.effect_id, other.recorded) == ("proceed", None, False)
    for attempt in (1, 2):
        again = await world.call(**{**call, "attempt": attempt})
        assert (again.decision, again.effect_id, again.recorded) == ("replay", first.effect_id, True)
    assert world.merchant.hits == 2


@pytest.mark.parametrize("lifted", [False, True])
async def test_p4_9_a_held_call_stays_blocked_though_its_tool_is_read_only_by_now(world, retag, turn_read_only, lifted):
    """3.6, 4.9: a repeat that waits for an approval is not let past it as a read; unless its hold ends."""
    await world.call(tool_call_id="a", turn="t1", step=1)
    held = await world.call(tool_call_id="b", turn="t1", step=2)
    assert held.decision == "blocked"
    turn_read_only(world, "create_order", on_repeat=OnRepeat.RUN if lifted else None)
    again = await world.call(tool_call_id="b", turn="t1", step=2)
    assert again.effect_id == held.effect_id
    if lifted:
        assert (again.decision, again.recorded, world.merchant.hits) == ("proceed", True, 2)
        assert world.merchant.header(1, "idempotency-key") == held.effect_id
    else:
        assert (again.decision, world.merchant.hits) == ("blocked", 1)
        assert body(again)["first"]["result"] == {"order": "O-1"}


async def test_p4_9_a_hold_whose_first_is_gone_runs_under_its_key_though_its_tool_is_read_only_by_now(
    world, ledger_time, turn_read_only
):
    """3.6, 4.9, 4.13: the retention time of the first ended, that of the held one did not; what runs is recorded."""
    world.shelf.companies["shop1"] = Company("shop1", retention_s=DAY_S, repeat_window_s=DAY_S)
    await world.call(tool_call_id="a")
    ledger_time.advance(DAY_S - 60)
    held = await world.call(tool_call_id="b")
    assert held.decision == "blocked"
    turn_read_only(world, "create_order")
    ledger_time.advance(61)
    again = await world.call(tool_call_id="b")
    assert (again.decision, again.effect_id, again.recorded) == ("proceed", held.effect_id, True)
    assert world.merchant.header(1, "idempotency-key") == held.effect_id
    assert world.merchant.hits == 2


async def test_p4_9_a_hold_that_nobody_lifts_is_never_sent_though_its_tool_is_read_only_by_now(
    world, ledger_time, turn_read_only
):
    """3.6, 4.9: neither a minute later nor a day later."""
    await world.call(tool_call_id="a")
    held = await world.call(tool_call_id="b")
    turn_read_only(world, "create_order", protected_ms=int(3 * DAY_S * 1000))
    for seconds in (60, DAY_S):
        ledger_time.advance(seconds)
        again = await world.call(tool_call_id="b")
        assert (again.effect_id, again.status != "succeeded") == (held.effect_id, True)
    assert world.merchant.hits == 1


class Away:
    """A ledger that nobody reaches."""

    async def read(self, *_: Any) -> Any:
        raise LedgerUnavailable

    swap = append = read


NAMED = {"an id": {"tool_call_id": "n1"}, "turn and attempt": {"tool_call_id": None, "turn": "t1", "attempt": 1}}


@pytest.mark.parametrize("name", NAMED.values(), ids=NAMED)
async def test_p4_11_without_a_ledger_a_formerly_side_effecting_tool_is_not_asked(world, turn_read_only, name):
    """3.6, 4.11: nobody can say whether this is a call that was made before, so 503 and nothing sent."""
    turn_read_only(world, "create_order")
    world.decider._ledger = Away()
    with pytest.raises(LedgerUnavailable) as away:
        await world.call(**name)
    assert (away.value.status, away.value.code, away.value.outcome) == (503, "ledger_unavailable", "not_sent")
    assert world.merchant.hits == 0


@pytest.mark.parametrize("name", NAMED.values(), ids=NAMED)
async def test_p4_11_without_a_ledger_what_never_was_side_effecting_goes_through(world, name):
    """3.6, 4.11: a read-only tool."""
    world.decider._ledger = Away()
    answer = await world.call(**name, tool="get_menu")
    assert (answer.decision, answer.recorded, world.merchant.hits) == ("proceed", False, 1)


async def test_p3_6_a_tool_that_was_side_effecting_is_looked_up_whatever_a_host_thinks_the_time_is(
    world, seen, turn_read_only
):
    """3.6, 4.6, 4.13: what is unknown never expires, and a clock that is a month ahead makes no second order."""
    world.merchant.behave = lambda _: seen["timed_out"]
    await world.call(tool_call_id="n1")
    turn_read_only(world, "create_order", protected_ms=-1)
    assert (await world.call(tool_call_id="n1")).status == "indeterminate"
    assert world.merchant.hits == 1


async def test_p4_11_without_a_ledger_a_call_that_names_nothing_was_never_recorded_and_goes_through(
    world, turn_read_only
):
    """2.7, 3.6: neither an id nor turn and attempt: it was refused while the tool was side-effecting."""
    turn_read_only(world, "create_order")
    world.decider._ledger = Away()
    assert (await world.call(tool_call_id=None, turn="t1")).decision == "proceed"
