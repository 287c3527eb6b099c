"""What every ledger promises, over `memory` and a real Redis (promises 4.10, 4.13, 4.15)."""

from __future__ import annotations

import asyncio

import hiredis
import msgspec
import pytest
from msgspec.structs import replace
from redis.cluster import key_slot
from redis.exceptions import ResponseError

from gateway.adapters import ledger_codec, redis_ledger, redis_listings
from gateway.adapters.ledger_codec import UnknownFormat
from gateway.adapters.ledger_keys import Bucket
from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_scripts import Script
from gateway.adapters.redis_urls import LedgerUrl
from gateway.core import decisions as d
from gateway.core import granting, identity
from gateway.core.conversation import CallSlot, Event, EventLog, PrintSlot, View, Where, Writes, assumed_empty
from gateway.core.errors import LedgerUnavailable
from gateway.core.ports import Resealing, Seal
from gateway.core.record import FORMAT, Mode, Outcome, Status
from gateway.core.requests import OnRepeat
from gateway.service.deciding import Decider

DAY_MS = 86_400_000
MONTH_MS = 30 * DAY_MS


def everything(bench, effect):
    """A place that reads every kind of name of this effect's conversation."""
    asked = bench.ask(effect.tool_call_id, turn="t-1", attempt=1)
    return replace(asked.where([effect.effect_id]), slots=effect.slots)


# --- compare and swap ----------------------------------------------------------------------------------------


async def test_p4_15_an_empty_ledger_reads_as_empty_with_its_time(bench):
    """4.15"""
    where = bench.ask(turn="t-1").where()
    view = await bench.ledger.read(where)
    assert view.now_ms > 1_700_000_000_000
    assert (view.identical, view.highest_attempt, view.live) == (PrintSlot(), 0, 0)
    assert view.effects == {where.effects[0]: None}
    assert view.slots == {where.slots[0]: CallSlot()}
    assert set(view.versions.values()) == {b""}


CHANGES = {
    "the slot of an id": lambda view, effect: Writes(
        slots={effect.slots[0]: view.slots[effect.slots[0]].marked(effect.effect_id, open=False)}, keep_ms=DAY_MS
    ),
    "the identical effects": lambda view, effect: Writes(identical=view.identical.with_known(effect), keep_ms=DAY_MS),
    "the turn's attempt": lambda view, effect: Writes(attempt_seen=7, keep_ms=DAY_MS),
    "a record": lambda view, effect: Writes(
        effects={effect.effect_id: msgspec.structs.replace(effect, lease_ms=1)}, keep_ms=DAY_MS
    ),
}


@pytest.mark.parametrize("changed", CHANGES)
async def test_p4_15_a_swap_holds_only_if_every_value_that_was_read_still_does(bench, changed):
    """4.15: each name on its own spoils it, and then nothing at all is written."""
    effect = (await bench.claim("call_1", turn="t-1", attempt=1)).effect
    where = everything(bench, effect)
    seen = await bench.ledger.read(where)
    other = await bench.ledger.swap(where, seen, CHANGES[changed](seen, effect))
    assert other.applied

    ours = Writes(
        effects={effect.effect_id: None},
        slots={effect.slots[0]: CallSlot()},
        identical=PrintSlot(),
        attempt_seen=9,
        events=(Event("effect.released", effect.effect_id),),
        keep_ms=DAY_MS,
    )
    refused = await bench.ledger.swap(where, seen, ours)
    assert not refused.applied
    stands = await bench.ledger.read(where)
    assert stands.effects[effect.effect_id] is not None
    assert stands.highest_attempt in (0, 7)
    assert replace(refused.view, now_ms=0) == replace(stands, now_ms=0)
    assert "effect.released" not in await bench.types()
    assert (await bench.ledger.swap(where, refused.view, ours)).applied


@pytest.mark.parametrize("changed", CHANGES)
async def test_p4_15_what_the_decision_did_not_read_does_not_spoil_it(bench, changed):
    """4.15"""
    effect = (await bench.claim("call_1", turn="t-1", attempt=1)).effect
    where = everything(bench, effect)
    seen = await bench.ledger.read(where)
    assert (await bench.ledger.swap(where, seen, CHANGES[changed](seen, effect))).applied
    elsewhere = bench.ask("call_2", {"sku": "B"}).where()
    written = Writes(slots={elsewhere.slots[0]: seen.slots[effect.slots[0]]}, keep_ms=DAY_MS)
    assert (await bench.ledger.swap(elsewhere, assumed_empty(elsewhere), written)).applied


async def test_p4_15_what_a_swap_returns_is_what_a_read_finds(bench):
    """4.15: the next decision may go on from either."""
    asked = bench.ask("call_1", turn="t-1", attempt=3)
    decision, view = await bench.decider.claim(asked)
    read = await bench.ledger.read(asked.where())
    assert replace(read, now_ms=0, live=0) == replace(view, now_ms=0, live=0)
    assert read.live == 1
    assert read.effects[decision.effect.effect_id] == decision.effect


async def test_p4_15_a_record_that_came_with_its_id_is_compared_too(bench):
    """4.15: it was read, so the decision may rest on it."""
    effect = (await bench.claim("call_1", turn="t-1", attempt=1)).effect
    where = everything(bench, effect)
    by_id = replace(where, effects=())
    seen = await bench.ledger.read(by_id)
    assert seen.effects == {effect.effect_id: effect}
    changed = CHANGES["a record"](seen, effect)
    assert (await bench.ledger.swap(where, await bench.ledger.read(where), changed)).applied
    assert not (await bench.ledger.swap(by_id, seen, Writes(attempt_seen=9, keep_ms=DAY_MS))).applied


async def test_p4_15_a_name_that_was_never_read_is_taken_to_be_absent(bench):
    """4.15: a first try, sent unseen, is spoilt by anything that is already there."""
    effect = (await bench.claim("call_1", turn="t-1", attempt=2)).effect
    for where in (
        Where(identity.conversation_digest("acme", "c-1"), b"another print", slots=effect.slots),
        Where(identity.conversation_digest("acme", "c-1"), effect.fingerprint),
        Where(identity.conversation_digest("acme", "c-1"), b"another print", effects=(effect.effect_id,)),
        Where(identity.conversation_digest("acme", "c-1"), b"another print", turn="t-1"),
    ):
        assert not (
            await bench.ledger.swap(where, assumed_empty(where), Writes(events=(Event("effect.renewed"),)))
        ).applied
    assert "x" not in await bench.types()


async def test_p4_15_a_look_at_an_id_brings_the_records_it_names(bench):
    """4.15, 4.10"""
    effects = [
        await bench.run("call_1", {"sku": sku}, turn=turn) for sku, turn in (("A", "t-1"), ("B", "t-2"), ("C", "t-3"))
    ]
    where = Where(identity.conversation_digest("acme", "c-1"), b"none of these", slots=effects[0].slots)
    view = await bench.ledger.read(where)
    assert [view.effects[e.effect_id] for e in effects] == effects


# --- how long things stay ------------------------------------------------------------------------------------


def unending(ttls, kinds="eipl"):
    return {kind: all(left == -1 for left in ttls.get(kind, [])) and bool(ttls.get(kind)) for kind in kinds}


def lasting(ttls, keep_ms):
    """Every key ends, and none before the retention time counted from now (give or take a minute); but for the
    buckets' indexes of what falls due, which the sweeper empties."""
    ending = [left for kind, lefts in ttls.items() if kind != "D" for left in lefts]
    return all(keep_ms - 60_000 < left <= keep_ms + 60_000 for left in ending)


async def test_k4_08_what_runs_or_is_unknown_never_expires_nor_do_the_ids_that_name_it(bench):
    """4.13"""
    effect = (await bench.claim("call_1", lease_ms=5_000)).effect
    await bench.claim("call_1", turn="t-1")  # an alias, or the same id: it waits
    assert set(unending(await bench.ttls()).values()) == {True}
    await bench.lose(effect)
    assert set(unending(await bench.ttls()).values()) == {True}


@pytest.mark.parametrize("how", ["settled", "failed", "resolved", "settled late"])
async def test_k4_08_a_settled_record_keeps_its_full_retention_from_settlement(bench, outcomes, how):
    """4.13: not what was left of a lease, and its id's slot and its repeat entry with it."""
    effect = (await bench.claim("call_1", lease_ms=1_000)).effect
    if how in ("resolved", "settled late"):
        await bench.lose(effect)
    if how == "resolved":
        await bench.resolve(effect, outcomes.success)
    else:
        await bench.settle(effect, outcomes.failure if how == "failed" else outcomes.success)
    ttls = await bench.ttls()
    assert set(ttls) == set("eiplv")
    assert lasting(ttls, MONTH_MS)


async def test_k4_08_a_later_alias_lives_on_without_prolonging_the_record(memory_bench, memory_time):
    """4.13"""
    await memory_bench.run("call_1", on_repeat=OnRepeat.REPLAY)
    memory_time.advance(10 * DAY_MS)
    replay = await memory_bench.claim("call_2", turn=None, on_repeat=OnRepeat.REPLAY, window_ms=20 * DAY_MS)
    assert isinstance(replay, d.Replay)
    assert len(replay.effect.slots) == 2
    ttls = await memory_bench.ttls()
    assert ttls["e"] == [pytest.approx(20 * DAY_MS, abs=60_000)]
    assert min(ttls["i"]) >= 20 * DAY_MS - 60_000


async def test_k4_08_aliases_of_a_running_effect_end_with_it(bench):
    """4.13: each of its ids, not only the one that settles it."""
    effect = (await bench.claim("call_1", turn="t-1", attempt=1)).effect
    assert isinstance(await bench.claim("call_2", turn="t-1", attempt=2), d.Wait)
    assert (await bench.ttls())["i"] == [-1, -1]
    await bench.settle(effect)
    assert lasting(await bench.ttls(), MONTH_MS)


async def test_k4_08_a_held_call_ends_with_the_retention_until_it_runs(bench):
    """4.13: and all ids that joined it stay while it runs."""
    first = await bench.run("call_1")
    assert isinstance(await bench.claim("call_2"), d.Blocked)
    assert isinstance(await bench.claim("call_3"), d.Blocked)
    assert lasting(await bench.ttls(), MONTH_MS)
    granted = await bench.claim("call_3", on_repeat=OnRepeat.RUN)
    assert isinstance(granted, d.Granted)
    assert granted.effect.effect_id != first.effect_id
    ttls = await bench.ttls()
    assert sorted(left == -1 for left in ttls["i"]) == [False, True, True]
    await bench.settle(granted.effect)
    assert lasting(await bench.ttls(), MONTH_MS)


async def test_k4_08_those_that_join_a_held_call_do_not_prolong_it(memory_bench, memory_time):
    """4.13"""
    await memory_bench.run("call_1")
    await memory_bench.claim("call_2", hold_ms=60 * DAY_MS)
    memory_time.advance(10 * DAY_MS)
    joined = await memory_bench.claim("call_3", hold_ms=60 * DAY_MS)
    assert isinstance(joined, d.Blocked)
    assert len(joined.effect.slots) == 2
    assert (await memory_bench.ttls())["e"] == [pytest.approx(20 * DAY_MS, abs=60_000)] * 2


async def test_k4_08_a_release_leaves_nothing_but_its_lines_in_the_log(bench):
    """4.13, 7.6: the log is not gone with the effect. For an hour the slot of the fingerprint says that something was
    there (4.11)."""
    await bench.release((await bench.claim("call_1")).effect)
    ttls = await bench.ttls()
    assert set(ttls) == {"p", "v"}
    assert 0 < ttls["p"][0] <= 3_600_000
    assert lasting({"v": ttls["v"]}, MONTH_MS)
    assert (await bench.types())[-1] == "effect.released"


async def test_k4_08_a_release_beside_settled_calls_leaves_no_key_without_an_end(bench):
    """4.13: under one id and one print, in several turns."""
    await bench.run("call_1", turn="t-1")
    granted = await bench.claim("call_1", turn="t-2", on_repeat=OnRepeat.RUN)
    await bench.release(granted.effect)
    ttls = await bench.ttls()
    assert {kind: len(lefts) for kind, lefts in ttls.items()} == {"e": 1, "i": 1, "p": 1, "l": 1, "v": 1}
    assert lasting(ttls, MONTH_MS)


async def test_k4_08_after_a_thousand_settled_calls_no_key_is_without_an_end(bench):
    """4.13: in ten conversations, with repeats, failures, releases and lost ones that were settled."""

    async def one(number):
        place = {"conversation": f"c-{number % 10}", "turn": f"t-{number % 7}"}
        granted = await bench.claim(f"call_{number}", {"n": number % 60}, on_repeat=OnRepeat.RUN, **place)
        if number % 5 == 1:
            await bench.lose(granted.effect)
        if number % 11 == 2:
            await bench.release(granted.effect)
        else:
            await bench.settle(granted.effect)

    for start in range(0, 1_000, 50):
        await asyncio.gather(*(one(number) for number in range(start, start + 50)))
    ttls = await bench.ttls()
    assert len(ttls["e"]) > 900
    assert not {"D", "U"} & set(ttls)
    assert min(left for lefts in ttls.values() for left in lefts) > MONTH_MS - 600_000


async def test_p4_13_when_the_retention_is_over_the_call_is_new(memory_bench, memory_time):
    """4.13"""
    first = await memory_bench.run("call_1", keep_ms=DAY_MS)
    memory_time.advance(DAY_MS - 5_000)
    assert isinstance(await memory_bench.claim("call_1", keep_ms=DAY_MS), d.Replay)
    memory_time.advance(10_000)
    again = await memory_bench.claim("call_1", keep_ms=DAY_MS)
    assert isinstance(again, d.Granted)
    assert again.effect.effect_id == first.effect_id
    assert await memory_bench.ledger.events(identity.conversation_digest("acme", "c-1"), 0, 9) != []


async def test_p4_13_what_the_retention_ended_frees_its_number(memory_bench, memory_time):
    """4.13, 2.4: though identical ones of later live on."""
    place = {"attempt": 1, "on_repeat": OnRepeat.RUN, "keep_ms": 10 * DAY_MS, "window_ms": 0}
    first = await memory_bench.run("call_1", turn="t-1", **place)
    memory_time.advance(5 * DAY_MS)
    await memory_bench.run("call_2", turn="t-2", **place)
    memory_time.advance(6 * DAY_MS)
    again = await memory_bench.claim("call_3", turn="t-1", **place)
    assert isinstance(again, d.Granted)
    assert (again.effect.occurrence, again.effect.effect_id) == (0, first.effect_id)


async def test_p4_13_an_unknown_outcome_outlives_every_retention(memory_bench, memory_time):
    """4.13"""
    await memory_bench.lost("call_1", keep_ms=DAY_MS)
    memory_time.advance(400 * DAY_MS)
    replay = await memory_bench.claim("call_1", keep_ms=DAY_MS)
    assert isinstance(replay, d.Replay)
    assert replay.effect.status is Status.INDETERMINATE


async def test_writes_that_need_a_life_must_say_it(memory_bench):
    effect = await memory_bench.run("call_1")
    where = everything(memory_bench, effect)
    view = await memory_bench.ledger.read(where)
    with pytest.raises(ValueError, match="how long"):
        await memory_bench.ledger.swap(where, view, Writes(identical=view.identical))


# --- the bound on live effects -------------------------------------------------------------------------------


@pytest.fixture
def three_at_most(monkeypatch):
    monkeypatch.setattr(granting, "MAX_LIVE", 3)
    monkeypatch.setattr(redis_ledger, "MAX_LIVE", 3)


async def test_p4_13_a_conversation_holds_so_many_live_effects_and_no_more(bench, three_at_most):
    """4.13: those that are settled count, what they are asked again replays, others have their own bound."""
    for number in range(3):
        await bench.run(f"call_{number}", {"n": number})
    full = await bench.claim("call_3", {"n": 3})
    assert isinstance(full, d.Refused)
    assert full.code == "conversation_full"
    assert isinstance(await bench.claim("call_1", {"n": 1}), d.Replay)
    held = await bench.claim("call_4", {"n": 1})
    assert isinstance(held, d.Refused)
    assert isinstance(await bench.claim("call_3", {"n": 3}, conversation="c-2"), d.Granted)


async def test_p4_13_what_is_released_makes_room(bench, three_at_most):
    """4.13"""
    granted = [await bench.claim(f"call_{number}", {"n": number}) for number in range(3)]
    assert isinstance(await bench.claim("call_3", {"n": 3}), d.Refused)
    await bench.release(granted[1].effect)
    assert isinstance(await bench.claim("call_3", {"n": 3}), d.Granted)
    assert isinstance(await bench.claim("call_4", {"n": 4}), d.Refused)


async def test_p4_13_what_the_retention_ended_makes_room(memory_bench, memory_time, three_at_most, bucket):
    """4.13"""
    for number in range(3):
        await memory_bench.run(f"call_{number}", {"n": number}, keep_ms=DAY_MS)
    memory_time.advance(DAY_MS + 1_000)
    assert isinstance(await memory_bench.claim("call_3", {"n": 3}), d.Granted)
    assert await memory_bench.wire.do("ZCARD", bucket.live) == 1


async def test_p4_13_the_bound_holds_against_many_at_once(bench, three_at_most):
    """4.13"""
    decisions = await asyncio.gather(*(bench.claim(f"call_{number}", {"n": number}) for number in range(12)))
    assert sum(isinstance(decision, d.Granted) for decision in decisions) == 3
    assert sum(isinstance(decision, d.Refused) for decision in decisions) == 9


# --- events --------------------------------------------------------------------------------------------------


async def test_p7_6_events_are_numbered_from_one_in_the_order_they_happened(bench):
    """7.6"""
    conversation = identity.conversation_digest("acme", "c-1")
    effect = await bench.run("call_1")
    await bench.ledger.append(
        EventLog("acme", "c-1"), [Event("tool.registered", None, {"tool": "a"}), Event("effect.renewed")], DAY_MS
    )
    await bench.release((await bench.claim("call_2", {"sku": "B"})).effect)
    logged = await bench.ledger.events(conversation, 0, 100)
    assert [line.seq for line in logged] == list(range(1, len(logged) + 1))
    assert [line.event.type for line in logged] == [
        *(
            "effect.proposed",
            "effect.allowed",
            "effect.executing",
            "effect.succeeded",
            "tool.registered",
            "effect.renewed",
        ),
        *("effect.proposed", "effect.allowed", "effect.executing", "effect.released"),
    ]
    assert [line.at_ms for line in logged] == sorted(line.at_ms for line in logged)
    assert logged[3].event.effect_id == effect.effect_id
    assert logged[4].event.data == {"tool": "a"}


async def test_p7_6_events_are_read_a_page_at_a_time(bench):
    """7.6"""
    conversation = identity.conversation_digest("acme", "c-1")
    await bench.ledger.append(
        EventLog("acme", "c-1"),
        [Event("effect.renewed", None, {"lease_s": float(number)}) for number in range(7)],
        DAY_MS,
    )
    pages, after = [], 0
    while page := await bench.ledger.events(conversation, after, 3):
        pages.append([(line.seq, line.event.data["lease_s"]) for line in page])
        after = page[-1].seq
    assert pages == [[(1, 0), (2, 1), (3, 2)], [(4, 3), (5, 4), (6, 5)], [(7, 6)]]
    for elsewhere in (("acme", "c-2"), ("other", "c-1"), ("acme", "")):
        assert await bench.ledger.events(identity.conversation_digest(*elsewhere), 0, 9) == []


async def test_p7_6_the_last_event_of_a_log_is_that_whether_it_is_sealed_or_not(bench):
    """7.6: the seal that lies before the events is none."""
    log = EventLog("acme", "c-1")
    assert await bench.ledger.last_event(log.digest) == 0
    await bench.ledger.append(log, [Event("effect.renewed")] * 3, DAY_MS)
    assert await bench.ledger.last_event(log.digest) == 3
    at_ms = (await bench.ledger.events(log.digest, 1, 1))[0].at_ms
    assert await bench.seals.put([Resealing(log, None, Seal(2, 0, at_ms, b"1" * 32))]) == [True]
    assert await bench.ledger.last_event(log.digest) == 3
    await bench.ledger.append(log, [Event("effect.renewed")], DAY_MS)
    assert await bench.ledger.last_event(log.digest) == 4
    for elsewhere in (("acme", "c-2"), ("other", "c-1"), ("acme", "")):
        assert await bench.ledger.last_event(identity.conversation_digest(*elsewhere)) == 0


@pytest.mark.parametrize(("after", "limit", "seqs"), [(2, 1, [3]), (3, 500, []), (999_999_999_999_999, 500, [])])
async def test_p7_6_a_page_at_or_beyond_the_end_is_empty(bench, after, limit, seqs):
    """7.6"""
    conversation = identity.conversation_digest("acme", "c-1")
    await bench.ledger.append(EventLog("acme", "c-1"), [Event("effect.renewed")] * 3, DAY_MS)
    assert [line.seq for line in await bench.ledger.events(conversation, after, limit)] == seqs


async def test_p7_6_a_type_outside_the_taxonomy_writes_nothing_at_all(bench):
    """7.6: neither the event nor what it would have come with."""
    asked = bench.ask()
    for attempted in (
        bench.ledger.append(EventLog("acme", "c-1"), [Event("effect.paid")], DAY_MS),
        bench.ledger.swap(asked.where(), assumed_empty(asked.where()), Writes(events=(Event("effect.paid"),))),
    ):
        with pytest.raises(KeyError):
            await attempted
    assert await bench.events() == []


async def test_p7_6_the_log_lives_as_long_as_the_longest_lived_effect(bench):
    """7.6, 4.13"""
    await bench.ledger.append(EventLog("acme", "c-1"), [Event("effect.renewed")], DAY_MS)
    assert lasting({"v": (await bench.ttls())["v"]}, DAY_MS)
    effect = (await bench.claim("call_1")).effect
    await bench.ledger.append(EventLog("acme", "c-1"), [Event("effect.renewed")], DAY_MS)
    assert (await bench.ttls())["v"] == [-1]
    await bench.settle(effect)
    assert lasting({"v": (await bench.ttls())["v"]}, MONTH_MS)
    await bench.ledger.append(EventLog("acme", "c-1"), [Event("effect.renewed")], DAY_MS)
    assert lasting({"v": (await bench.ttls())["v"]}, MONTH_MS)


async def test_p7_6_the_log_outlives_a_running_effect_by_what_the_others_have_left(bench):
    """7.6, 4.13: once nothing runs, the log ends with the longest-lived effect, not with the latest write."""
    await bench.run("call_1")
    effect = (await bench.claim("call_2", {"sku": "B"})).effect
    assert (await bench.ttls())["v"] == [-1]
    await bench.settle(effect, keep_ms=DAY_MS)
    assert lasting({"v": (await bench.ttls())["v"]}, MONTH_MS)


# --- indexes -------------------------------------------------------------------------------------------------


async def test_p4_5_leases_that_lapsed_are_found_whatever_conversation_they_are_in(bench):
    """4.5"""
    lapsed = [(await bench.claim("call_1", conversation=f"c-{n}", lease_ms=0)).effect for n in range(5)]
    await bench.claim("call_1", conversation="c-5")
    await bench.run("call_1", conversation="c-6", lease_ms=0)
    found = await bench.ledger.due(100)
    assert {e.effect_id for e in found.effects} == {e.effect_id for e in lapsed}
    assert found.cursor is None
    paged, cursor = [], None
    while True:
        page = await bench.ledger.due(2, cursor)
        assert len(page.effects) <= 2
        paged += [e.effect_id for e in page.effects]
        cursor = page.cursor
        if cursor is None:
            break
    assert paged == [e.effect_id for e in found.effects]
    for effect in found.effects:
        await bench.lapse(effect)
    assert (await bench.ledger.due(100)).effects == ()


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_p4_5_a_look_at_what_is_due_goes_on_behind_its_cursor_whatever_became_of_it(bench, limit):
    """4.5: in one bucket; half of what was found is ended on the way, half stays due."""
    lapsed = [(await bench.claim(f"call_{n}", {"n": n}, lease_ms=0)).effect for n in range(9)]
    seen, cursor = [], None
    while True:
        page = await bench.ledger.due(limit, cursor)
        for effect in page.effects:
            seen.append(effect.effect_id)
            if len(seen) % 2:
                await bench.lapse(effect)
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(seen) == sorted(e.effect_id for e in lapsed)
    assert len((await bench.ledger.due(100)).effects) == 4


async def test_p4_5_a_lease_taken_anew_is_due_by_its_own_time(bench):
    """4.5, 4.6"""
    first = await bench.claim("call_1", mode="safe_to_retry", lease_ms=0)
    await bench.lapse(first.effect)
    assert isinstance(await bench.claim("call_1", mode="safe_to_retry"), d.Granted)
    assert (await bench.ledger.due(10)).effects == ()


async def test_p4_15_unknown_outcomes_are_listed_by_company_a_page_at_a_time(bench, outcomes):
    """4.15, 9.1"""
    lost = [await bench.lost("call_1", conversation=f"c-{n}") for n in range(4)]
    lost += [await bench.lost(f"lost_{n}", {"n": n}) for n in range(3)]
    other = await bench.lost("call_1", company="other")
    await bench.run("call_9", {"n": 9})
    whole = await bench.ledger.unknown("acme", None, 100)
    assert {e.effect_id for e in whole.effects} == {e.effect_id for e in lost}
    assert whole.cursor is None
    paged, cursor = [], None
    while True:
        page = await bench.ledger.unknown("acme", cursor, 2)
        assert len(page.effects) <= 2
        paged += page.effects
        cursor = page.cursor
        if cursor is None:
            break
    assert [e.effect_id for e in paged] == [e.effect_id for e in whole.effects]
    assert [e.effect_id for e in (await bench.ledger.unknown("other", None, 9)).effects] == [other.effect_id]
    for effect in lost:
        await bench.resolve(effect, outcomes.success)
    assert (await bench.ledger.unknown("acme", None, 9)).effects == ()


async def test_p4_15_what_is_resolved_between_two_pages_hides_no_other(bench, outcomes):
    """4.15: an operator resolves a page, then asks for the next."""
    lost = {(await bench.lost(f"lost_{n}", {"n": n})).effect_id for n in range(7)}
    seen, cursor = [], None
    while True:
        page = await bench.ledger.unknown("acme", cursor, 3)
        for effect in page.effects:
            seen.append(effect.effect_id)
            await bench.resolve(effect, outcomes.success)
        cursor = page.cursor
        if cursor is None:
            break
    assert len(seen) == 7
    assert set(seen) == lost


async def test_p9_4_a_page_of_unknown_outcomes_is_a_bounded_look(bench, monkeypatch):
    """9.4, 9.1: among many of another company's a page may be short, even empty, and its cursor goes on."""
    monkeypatch.setattr(redis_listings, "MOST_LOOKED_AT", 3)
    for number in range(10):
        await bench.lost("call_1", company="other", conversation=f"c-{number}")
    ours = {(await bench.lost(f"lost_{n}", {"n": n})).effect_id for n in range(4)}
    pages, cursor = [], None
    while True:
        bench.wire.sent.clear()
        page = await bench.ledger.unknown("acme", cursor, 50)
        assert sum(command[0] == "GET" for command in bench.wire.sent) <= 3
        pages.append(page.effects)
        cursor = page.cursor
        if cursor is None:
            break
    assert [len(page) for page in pages if len(page) == 50] == []
    assert sorted(effect.effect_id for page in pages for effect in page) == sorted(ours)
    assert () in pages


async def test_p5_4_the_unknown_outcomes_of_all_companies_are_walked_each_once(bench):
    """5.4: for who asks merchants about them."""
    lost = {(await bench.lost("call_1", company=f"shop{n % 3}", conversation=f"c-{n}")).effect_id for n in range(12)}
    seen, cursor = [], None
    while True:
        page = await bench.ledger.unknown(None, cursor, 5)
        seen += [effect.effect_id for effect in page.effects]
        cursor = page.cursor
        if cursor is None:
            break
    assert len(seen) == 12
    assert set(seen) == lost


class OneSlotAScript:
    """A cluster's manner: a script whose keys lie in several slots is refused."""

    one_server = False

    def __init__(self, commands):
        self._commands = commands
        self.unpacks = commands.unpacks

    async def do(self, *args):
        if args[0] in ("EVAL", "EVALSHA"):
            slots = {key_slot(key) for key in args[3 : 3 + args[2]]}
            assert len(slots) == 1, "CROSSSLOT Keys in request don't hash to the same slot"
        return await self._commands.do(*args)


@pytest.mark.parametrize("listing", ["due", "unknown"])
@pytest.mark.parametrize("limit", [1, 2, 5, 100])
async def test_p4_15_listings_over_a_cluster_find_what_they_find_at_one_server(redis_bench, listing, limit):
    """4.15: each script looks into one slot; pages and cursors are the same, however many lie in one bucket."""
    places = [{"conversation": f"c-{n}", "company": f"shop{n % 2}"} for n in range(6)]
    for place in places:
        for number in range(3):
            claimed = await redis_bench.claim(f"call_{number}", {"n": number}, lease_ms=0, **place)
            if listing == "unknown":
                await redis_bench.lapse(claimed.effect)
            else:  # each at a time of its own, as those that fell due at once are never parted
                place_in = Bucket.of(identity.conversation_digest(place["company"], place["conversation"]))
                await redis_bench.wire.do("ZADD", place_in.due, number + 1, claimed.effect.effect_id[:16])

    async def walked(ledger, company):
        found, cursor = [], None
        while True:
            page = await (ledger.due(limit, cursor) if listing == "due" else ledger.unknown(company, cursor, limit))
            assert listing == "due" or len(page.effects) <= limit
            found += [effect.effect_id for effect in page.effects]
            cursor = page.cursor
            if cursor is None:
                return found

    cluster = RedisLedger(OneSlotAScript(redis_bench.wire))
    everything = await walked(cluster, None)
    assert len(everything) == len(set(everything)) == 18
    for company in (None, "shop1"):
        assert await walked(cluster, company) == await walked(redis_bench.ledger, company)


async def test_p4_15_ids_in_an_index_are_ordered_by_their_bytes(bench, bucket):
    """4.15: whatever the locale of the server; a cursor names a place in that order."""
    ids = [bytes([first]) + bytes(14) + bytes([last]) for first in (0, 9, 65, 97, 128, 255) for last in (0, 255)]
    for place, each in enumerate(reversed(ids)):
        await bench.wire.do("ZADD", bucket.unknown, place, each)
    script = Script.load("unknown")
    got = await script.run(bench.wire, [bucket.unknown], [100, b""])
    assert got[1::2] == ids
    for place, each in enumerate(ids):
        assert (await script.run(bench.wire, [bucket.unknown], [3, each]))[1::2] == ids[place + 1 : place + 4]


@pytest.mark.parametrize("cursor", ["0:0", "0:f", "4095:" + "f" * 32, "4096:", "999999999:00"])
async def test_a_cursor_that_was_made_up_lists_what_comes_after_it(bench, cursor):
    """9.4: and is no fault."""
    lost = await bench.lost("call_1")
    page = await bench.ledger.unknown("acme", cursor, 9)
    assert [e.effect_id for e in page.effects] in ([], [lost.effect_id])
    assert page.cursor is None


async def test_a_ledger_that_can_write_is_ready(bench):
    await bench.ledger.ready()


# --- what is not a record ------------------------------------------------------------------------------------


async def test_k4_09_a_forgotten_script_is_sent_again_and_nothing_is_skipped(bench):
    """4.15"""
    await bench.run("call_1")
    await bench.forget_scripts()
    assert isinstance(await bench.claim("call_1"), d.Replay)
    await bench.forget_scripts()
    assert isinstance(await bench.claim("call_2", {"sku": "B"}), d.Granted)
    await bench.forget_scripts()
    assert (await bench.ledger.due(9)).effects == ()


@pytest.fixture
async def refusing(tmp_path_factory):
    """A server that answers one error to everything; `say` sets it."""
    path = tmp_path_factory.mktemp("stub") / "s"
    said = []

    async def serve(reader, writer):
        parser = hiredis.Reader()
        while data := await reader.read(65_536):
            parser.feed(data)
            while parser.gets():
                writer.write(said[-1])
        writer.close()

    server = await asyncio.start_unix_server(serve, path)
    client = open_client(LedgerUrl.for_socket(path))
    commands = Commands(client)
    yield said, RedisLedger(commands)
    await commands.close()
    await client.aclose()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    "error",
    [
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-READONLY You can't write against a read only replica.\r\n",
        b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
        b"-CLUSTERDOWN The cluster is down\r\n",
        b"-MISCONF Errors writing to the AOF file\r\n",
        b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        b"-NOREPLICAS Not enough good replicas to write.\r\n",
        b"-BUSY Redis is busy running a script.\r\n",
        b"-NOAUTH Authentication required.\r\n",
        b"-NOPERM this user has no permissions to run the 'evalsha' command\r\n",
        b"-ERR anything else\r\n",
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        b"*1\r\n-LOADING inside an array\r\n",
    ],
    ids=lambda error: error.split()[0].decode().strip("-*") + ("" if error[:1] == b"-" else " nested"),
)
async def test_k4_11_an_error_never_reads_as_no_record(redis_bench, refusing, error):
    """4.11: whatever Redis answers instead of a record, nobody is told that there is none."""
    said, ledger = refusing
    said.append(error)
    asked = redis_bench.ask()
    effect = (await redis_bench.claim("call_1")).effect
    conversation = identity.conversation_digest("acme", "c-1")
    for attempted in (
        ledger.read(asked.where()),
        ledger.swap(asked.where(), assumed_empty(asked.where()), Writes(events=(Event("effect.renewed"),))),
        ledger.append(EventLog("acme", "c-1"), [Event("effect.renewed")], DAY_MS),
        ledger.events(conversation, 0, 9),
        ledger.due(9),
        ledger.unknown("acme", None, 9),
        ledger.ready(),
        Decider(ledger).claim(asked),
        Decider(ledger).claim(asked, likely_new=False),
        Decider(ledger).end(redis_bench.ending(effect), effect),
    ):
        with pytest.raises((LedgerUnavailable, ResponseError)) as raised:
            await attempted
        ours = error[:4] in (b"-ERR", b"-WRO")  # faults of this gateway's commands, not of the ledger
        assert isinstance(raised.value, ResponseError if ours else LedgerUnavailable)
        assert ours or not raised.value.may_have_run


@pytest.fixture
async def full_redis(redis_bench):
    """Sets the real server's memory limit, and lifts it again."""

    async def limit(size):
        await redis_bench.wire.do("CONFIG", "SET", "maxmemory", size)

    await redis_bench.wire.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
    yield limit
    await limit(0)


async def test_k4_12_a_full_redis_refuses_the_claim_before_anything_is_sent(redis_bench, full_redis):
    """4.11 (a)"""
    await redis_bench.run("call_0", {"sku": "Z"})
    await full_redis(1)
    with pytest.raises(LedgerUnavailable) as refused:
        await redis_bench.claim("call_1")
    assert not refused.value.may_have_run
    with pytest.raises(LedgerUnavailable):
        await redis_bench.ledger.ready()
    assert isinstance(await redis_bench.claim("call_0", {"sku": "Z"}), d.Replay)
    await full_redis(0)
    assert isinstance(await redis_bench.claim("call_1"), d.Granted)


async def test_k4_12_a_redis_that_fills_before_the_settle_never_lets_a_repeat_run(redis_bench, full_redis):
    """4.11 (b): the outcome is recorded though there is no room for a new claim, and replays."""
    effect = (await redis_bench.claim("call_1")).effect
    await full_redis(1)
    assert isinstance(await redis_bench.claim("call_1"), d.Wait)
    assert isinstance(await redis_bench.claim("call_2"), d.Wait)
    assert isinstance(await redis_bench.settle(effect), d.Settled)
    assert isinstance(await redis_bench.claim("call_1"), d.Replay)
    with pytest.raises(LedgerUnavailable):
        await redis_bench.claim("call_3", {"sku": "B"})


@pytest.mark.parametrize("end", ["failure", "release", "lose", "lapse", "withdraw", "resolve", "absent", "conflict"])
async def test_p4_11_every_end_of_a_claim_finds_room_in_a_full_redis_and_no_claim_does(
    redis_bench, full_redis, outcomes, end
):
    """4.11: settle, release and loss are written though memory is full; what would send something never is, a retry of
    what is unknown among it."""
    claim = redis_bench.ask("call_1", mode=Mode.SAFE_TO_RETRY, lease_ms=0 if end == "lapse" else 60_000)
    effect = (await redis_bench.again(claim)).effect
    if end in ("resolve", "absent"):
        await redis_bench.lose(effect)
    if end == "conflict":
        await redis_bench.settle(effect)
    await full_redis(1)
    match end:
        case "failure":
            await redis_bench.settle(effect, outcomes.failure)
        case "release" | "lose" | "lapse":
            await getattr(redis_bench, end)(effect)
        case "withdraw":
            await redis_bench.decider.withdraw(claim)
        case "resolve":
            await redis_bench.resolve(effect, outcomes.success)
        case "absent":
            await redis_bench.resolve(effect, None)
        case "conflict":
            await redis_bench.settle(effect, Outcome(Status.SUCCEEDED, b'"MO-2"'))
    expected = {
        "failure": Status.FAILED,
        "release": None,
        "lose": Status.INDETERMINATE,
        "lapse": Status.INDETERMINATE,
        "withdraw": None,
        "resolve": Status.SUCCEEDED,
        "absent": Status.ABSENT,
        "conflict": Status.SUCCEEDED,
    }[end]
    stands = await redis_bench.record(effect)
    assert (None if stands is None else stands.status) == expected
    if expected in (None, Status.ABSENT, Status.INDETERMINATE):
        with pytest.raises(LedgerUnavailable) as refused:
            await redis_bench.claim("call_1", mode=Mode.SAFE_TO_RETRY)
        assert not refused.value.may_have_run
        assert await redis_bench.record(effect) == stands


@pytest.mark.parametrize("named", ["a{x}b", "{}", "{og.000}", "}{", "{" * 40, "\x00\r\n*1", "caf\u00e9 \U0001f600"])
async def test_k4_18_what_a_caller_says_does_not_steer_a_key(bench, named):
    """4.15: all keys of a conversation share one slot, and its bucket's indexes with them."""
    place = {"conversation": named, "turn": named, "attempt": 2, "tool": named}
    lost = await bench.lost(named, {named: named}, **place)
    running = await bench.claim(named + "2", {"other": named}, **place)
    keys = await bench.keys()
    assert {chr(key[8]) for key in keys} == set("eiptlvDUQ")
    assert len({key_slot(key) for key in keys}) == 1
    assert all(key.startswith(b"{og.") and key[7:8] == b"}" for key in keys)
    replay = await bench.claim(named, {named: named}, **place)
    assert isinstance(replay, d.Replay)
    assert replay.effect.effect_id == lost.effect_id != running.effect.effect_id


async def test_p4_13_a_record_of_a_newer_format_is_refused_never_guessed_at(bench, bucket):
    """4.13"""
    effect = await bench.run("call_1")
    newer = msgspec.structs.replace(effect, format=FORMAT + 1)
    stored = await bench.wire.do("GET", bucket.record(effect.effect_id))
    for payload in (ledger_codec.effect_payload(newer), b"\x00" + msgspec.msgpack.encode(["?"]), b"\x00\xc1", b"\x00"):
        await bench.wire.do("SET", bucket.record(effect.effect_id), stored[:21] + payload)
        with pytest.raises(UnknownFormat):
            await bench.claim("call_1")
        with pytest.raises(UnknownFormat):
            await bench.claim("call_2")
        assert await bench.wire.do("GET", bucket.record(effect.effect_id)) == stored[:21] + payload


# --- what it costs -------------------------------------------------------------------------------------------


async def test_p4_10_the_common_ways_cost_one_round_trip_each(bench):
    """4.10: a new call, its end, and a replay."""
    await bench.run("warm", {"sku": "warm"})  # from here on the server knows the script

    async def trips(asked):
        before = len(bench.wire.sent)
        answer = await asked
        return len(bench.wire.sent) - before, answer

    async def end_seen(request_of, **claimed):
        decision, view = await bench.decider.claim(bench.ask(**claimed))
        return await trips(bench.decider.end(request_of(decision.effect), decision.effect, view))

    for number, request_of in enumerate((bench.ending, bench.releasing, bench.losing)):
        cost, _ = await end_seen(request_of, call=f"end_{number}", arguments={"n": number}, turn="t-1", attempt=1)
        assert cost == 1
    cost, granted = await trips(bench.claim("call_1", turn="t-1", step=1, attempt=1))
    assert cost == 1
    await bench.settle(granted.effect)
    cost, replay = await trips(bench.claim("call_1", turn="t-1", step=1, attempt=1))
    assert (cost, type(replay)) == (1, d.Replay)


async def test_p4_10_a_replay_of_a_recycled_id_costs_one_round_trip(bench):
    """4.10, 2.3: an id that named three calls in three turns."""
    await bench.run("warm", {"sku": "warm"})
    for turn in ("t-1", "t-2", "t-3"):
        await bench.run("call_1", {"turn": turn}, turn=turn)
    for turn in ("t-1", "t-2", "t-3"):
        before = len(bench.wire.sent)
        assert isinstance(await bench.claim("call_1", {"turn": turn}, turn=turn), d.Replay)
        assert len(bench.wire.sent) - before == 1


async def test_views_name_only_what_they_read(bench):
    """What a swap compares is what a decision read, and no more."""
    view = await bench.ledger.read(bench.ask("call_1").where())
    assert {kind for kind, _ in view.versions} == {"slot", "identical", "effect"}
    assert View().versions == {}
