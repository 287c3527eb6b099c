"""What a claim is answered, over both ledgers (promises 2.1 to 2.7, 4.3, 4.6, 4.10)."""

from __future__ import annotations

import asyncio
import itertools
import json

import msgspec
import pytest

from gateway.adapters.ledger_keys import bucket_of
from gateway.core import decisions as d
from gateway.core import identity
from gateway.core.identity import Kind, Scope, conversation_digest
from gateway.core.record import Fault, Mode, Outcome, Status
from gateway.core.requests import OnRepeat
from gateway.core.strict_json import JsonRefused, parse

RUN, REPLAY, HOLD = OnRepeat.RUN, OnRepeat.REPLAY, OnRepeat.HOLD
UNKNOWN_TOOL = d.Refused("unknown_tool", "no such tool")
STEP_LIMIT = d.Denied(Fault("step_limit", "Not done."))


def order(number):
    return Outcome(Status.SUCCEEDED, b'"MO-%d"' % number)


def is_reuse(decision, *fields):
    return isinstance(decision, d.Refused) and (decision.code, decision.fields) == ("tool_call_id_reused", fields)


# --- the same call (2.1) -------------------------------------------------------------------------------------


async def test_k1_01_the_same_call_twice_runs_once_and_then_replays(bench):
    """2.1, 4.10"""
    effect = await bench.run("tu_1", {"sku": "A", "qty": 1})
    replay = await bench.claim("tu_1", {"sku": "A", "qty": 1})
    assert isinstance(replay, d.Replay)
    assert (replay.matched, replay.effect) == ("tool_call_id", effect)
    assert replay.effect.outcome.result == b'"MO-1"'
    assert (await bench.types()).count("effect.executing") == 1


async def test_p2_1_a_failure_replays_like_a_success(bench, outcomes):
    """2.1"""
    effect = await bench.run("call_1", outcome=outcomes.failure)
    replay = await bench.claim("call_1")
    assert (replay.effect.status, replay.effect.outcome) == (Status.FAILED, outcomes.failure)
    assert replay.effect.effect_id == effect.effect_id


def one_bucket():
    """Places whose keys all lie in one bucket: nothing but their own names keeps them apart. Two conversations of one
    company, and two companies with a conversation of one name."""
    wanted = bucket_of(conversation_digest("acme", "c-0"))
    conversations = (("acme", f"c-{n}") for n in itertools.count(1))
    companies = ((f"acme-{n}", "c-0") for n in itertools.count(1))
    beside = (each for pair in zip(conversations, companies, strict=True) for each in pair)
    found = {("acme", "c-0")}
    for company, conversation in beside:
        if bucket_of(conversation_digest(company, conversation)) == wanted:
            found.add((company, conversation))
        if len({c for c, _ in found}) > 1 and len({c for _, c in found}) > 1:
            return sorted(found)
    raise AssertionError


async def test_k1_11_k4_05_the_same_id_in_conversations_of_one_bucket_is_a_call_of_each(bench):
    """2.1, 4.15, 9.1: identical in everything else; each replays its own outcome."""
    places = one_bucket()
    done = {}
    for number, (company, conversation) in enumerate(places):
        at = {"company": company, "conversation": conversation, "turn": "t-1", "attempt": 1}
        done[company, conversation] = await bench.run("D681PevKs", {"sku": "A"}, outcome=order(number), **at)
    assert len({effect.effect_id for effect in done.values()}) == len(places)
    for (company, conversation), effect in done.items():
        replay = await bench.claim(
            "D681PevKs", {"sku": "A"}, company=company, conversation=conversation, turn="t-1", attempt=1
        )
        assert isinstance(replay, d.Replay)
        assert (replay.effect.effect_id, replay.effect.outcome) == (effect.effect_id, effect.outcome)


@pytest.mark.parametrize(
    "other",
    [{"company": "other"}, {"conversation": "c-2"}, {"call": "D681pevks"}, {"company": "acmec", "conversation": "-1"}],
)
async def test_k1_11_an_id_of_elsewhere_is_another_call(bench, other):
    """2.1, 2.8: another company, conversation or capital letter; neither sees the other's result."""
    effect = await bench.run("D681PevKs", {"sku": "A"})
    granted = await bench.claim(**{"call": "D681PevKs", "arguments": {"sku": "B"}, **other})
    assert isinstance(granted, d.Granted)
    assert granted.effect.effect_id != effect.effect_id
    assert isinstance(await bench.claim("D681PevKs", {"sku": "A"}), d.Replay)


async def test_k4_05_two_companies_with_equal_names_for_everything_share_nothing(bench):
    """2.1, 9.1"""
    place = {"conversation": "1", "turn": "1", "step": 1, "attempt": 1}
    ours = await bench.run("1", company="shop-a", outcome=order(1), **place)
    theirs = await bench.claim("1", company="shop-b", **place)
    assert isinstance(theirs, d.Granted)
    assert theirs.effect.effect_id != ours.effect_id
    assert await bench.types("shop-b", "1") == ["effect.proposed", "effect.allowed", "effect.executing"]


LONG = "call_ab__thought__" + "A" * 900


async def test_k1_09_long_ids_that_differ_in_their_last_letter_are_two_calls(bench):
    """2.8"""
    first = await bench.run(LONG + "1", {"sku": "A"})
    second = await bench.run(LONG + "2", {"sku": "B"})
    assert first.effect_id != second.effect_id
    assert (await bench.claim(LONG + "1", {"sku": "A"})).effect == first


# --- arguments under one id (2.2, 2.9, 2.10) -----------------------------------------------------------------

ONE_CALL = {
    "K2-01 empty text": ["", "  ", {}],
    "K2-03 object and text": [{"sku": "A", "qty": 2}, '{"qty": 2, "sku": "A"}'],
    "K2-04 encoded twice": [json.dumps('{"date": "2026-12-01"}'), {"date": "2026-12-01"}],
    "K2-10 one quantity": ['{"qty":1}', '{"qty":1.0}', '{"qty":1e0}', {"qty": 1}],
    "K2-10 minus nothing": ['{"amount":-0}', '{"amount":0}', '{"amount":-0.0}'],
    "K2-13 key order and white space": ['{"a":1,"b":[1,2]}', '{ "b" : [1, 2],\n"a" : 1 }'],
}


@pytest.mark.parametrize("forms", ONE_CALL.values(), ids=ONE_CALL.keys())
async def test_k2_01_k2_03_k2_04_k2_10_k2_13_other_forms_of_the_same_arguments_are_the_same_call(bench, forms):
    """2.9, 2.10"""
    effect = await bench.run("s1", forms[0])
    for form in forms:
        replay = await bench.claim("s1", form)
        assert isinstance(replay, d.Replay)
        assert replay.effect == effect


async def test_k2_10_what_is_sent_again_is_the_first_form(bench):
    """2.10, 6: under safe_to_retry the same bytes go out on every try."""
    lost = await bench.lost("q1", '{"qty":1.0}', mode="safe_to_retry")
    again = await bench.claim("q1", '{"qty":1e0}', mode="safe_to_retry")
    assert isinstance(again, d.Granted)
    assert (again.effect.effect_id, again.effect.arguments) == (lost.effect_id, '{"qty":1.0}')


TWO_CALLS = {
    "K2-11 neighbours beyond 2^53": (
        '{"order_id":2512292042121000001}',
        '{"order_id":2512292042121000000}',
        ["order_id"],
    ),
    "K2-13 array order": ('{"a":1,"b":[1,2]}', '{"a":1,"b":[2,1]}', ["b"]),
    "null is not absent": ('{"a":1,"b":null}', '{"a":1}', ["b"]),
    "no normalisation": ('{"n":"caf\u00e9"}', '{"n":"cafe\u0301"}', ["n"]),
    "a key with a slash": ('{"a/b":1,"c~d":1}', '{"a/b":2,"c~d":2}', ["a~1b", "c~0d"]),
    "K4-04 a corrected code": ('{"code":"111"}', '{"code":"222"}', ["code"]),
}


@pytest.mark.parametrize(("one", "other", "fields"), TWO_CALLS.values(), ids=TWO_CALLS.keys())
async def test_k2_11_k2_13_k4_04_an_id_given_to_other_arguments_is_refused(bench, outcomes, one, other, fields):
    """2.2: it names the fields that differ, runs nothing, and shows neither value nor result."""
    effect = await bench.run("p1", one, outcome=outcomes.failure)
    before = await bench.types()
    refused = await bench.claim("p1", other)
    assert is_reuse(refused, *(f"/arguments/{field}" for field in fields))
    assert "fresh id" in refused.message
    assert await bench.types() == before
    assert await bench.record(effect) == effect


async def test_k4_04_an_id_given_to_another_tool_is_refused_by_name(bench):
    """2.2: also where the arguments are equal; a tool's name takes part in the comparison (K2-13)."""
    await bench.run("p1", {}, tool="redeem_code")
    assert is_reuse(await bench.claim("p1", {}, tool="cancel_order"), "/tool")
    assert is_reuse(await bench.claim("p1", {"x": 1}, tool="cancel_order"), "/tool", "/arguments/x")


async def test_p2_2_a_reuse_that_no_field_shows_is_refused_all_the_same(bench):
    """2.2: as where a model call has the name and the arguments of a tool."""
    await bench.run("p1")
    assert is_reuse(await bench.claim("p1", kind=Kind.LLM_CALL), "/arguments")
    many = {f"f{number:03}": 1 for number in range(100)}
    await bench.run("p2", many)
    assert is_reuse(await bench.claim("p2", {**many, "f099": 2}), "/arguments")


@pytest.mark.parametrize("state", ["executing", "indeterminate", "held"])
async def test_p2_2_a_reuse_is_refused_whatever_stands_under_the_id(bench, state):
    """2.2"""
    if state == "held":
        await bench.run("call_0")
        await bench.claim("call_1")
    elif state == "executing":
        await bench.claim("call_1")
    else:
        await bench.lost("call_1")
    assert is_reuse(await bench.claim("call_1", {"sku": "B", "qty": 1}), "/arguments/sku")


REFUSED_ARGUMENTS = {
    "K2-04": json.dumps("hello"),
    "K2-06": '{"sku":"A","qty":1,}',
    "K2-07": '{"items":[{"sku":"A","qty":2},{"sku":"B","qty":1',
    "K2-09": '{"price":1e400}',
    "K2-15": '{"note":"\\ud83d"}',
}


@pytest.mark.parametrize("text", REFUSED_ARGUMENTS.values(), ids=REFUSED_ARGUMENTS.keys())
async def test_k2_04_k2_06_k2_07_k2_09_k2_15_refused_arguments_leave_the_id_free(bench, text):
    """2.9: no record, and the id may be used properly."""
    with pytest.raises(JsonRefused):
        bench.ask("t1", text)
    assert await bench.ttls() == {}
    assert isinstance(await bench.claim("t1", {"sku": "A", "qty": 1}), d.Granted)


# --- where an id counts (2.3) --------------------------------------------------------------------------------


async def test_k1_03_a_constant_id_without_turns_is_refused_for_every_later_call(bench):
    """2.2, 2.3"""
    await bench.run("call_1", {"sku": "A"}, tool="add_to_cart")
    assert is_reuse(await bench.claim("call_1", {"sku": "B"}, tool="add_to_cart"), "/arguments/sku")
    refused = await bench.claim("call_1", {"order": "O-9"}, tool="cancel_order")
    assert is_reuse(refused, "/tool", "/arguments/order", "/arguments/sku")
    assert "turn and step" in refused.message


async def test_k1_03_a_constant_id_in_three_stated_steps_is_three_calls(bench):
    """2.3"""
    calls = [("add_to_cart", {"sku": "A"}), ("add_to_cart", {"sku": "B"}), ("cancel_order", {"order": "O-9"})]
    effects = [
        await bench.run("call_1", arguments, tool=tool, turn="t-1", step=step)
        for step, (tool, arguments) in enumerate(calls, start=1)
    ]
    assert len({effect.effect_id for effect in effects}) == 3
    for step, (tool, arguments) in enumerate(calls, start=1):
        replay = await bench.claim("call_1", arguments, tool=tool, turn="t-1", step=step)
        assert replay.effect == effects[step - 1]


@pytest.mark.parametrize(("field", "named"), [("f010", "/arguments/f010"), ("f090", "/arguments")])
async def test_p2_2_with_very_many_fields_something_is_named_all_the_same(bench, field, named):
    """2.2"""
    many = {f"f{n:03}": n for n in range(100)}
    await bench.run("call_1", many)
    assert is_reuse(await bench.claim("call_1", {**many, field: "other"}), named)


async def test_k1_04_a_recycled_id_without_a_turn_replays(bench):
    """2.3, 4.10"""
    first = await bench.run("place_order:0")
    assert (await bench.claim("place_order:0")).effect == first


async def test_k1_04_a_recycled_id_in_another_stated_turn_is_a_repeat_however_old(bench):
    """2.3, 4.9"""
    first = await bench.run("place_order:0", turn="t-1")
    held = await bench.claim("place_order:0", turn="t-2", window_ms=0)
    assert isinstance(held, d.Blocked)
    assert held.first == first
    assert held.effect.effect_id != first.effect_id


async def test_k1_04_a_recycled_id_under_scope_turn_is_a_new_call(bench):
    """2.3"""
    first = await bench.run("place_order:0", turn="t-1", scope=Scope.TURN)
    again = await bench.claim("place_order:0", turn="t-2", scope=Scope.TURN, window_ms=0)
    assert isinstance(again, d.Granted)
    assert (await bench.claim("place_order:0", turn="t-1", scope=Scope.TURN)).effect == first


async def test_p4_13_an_id_whose_call_has_ended_does_not_name_the_call_that_takes_its_number(memory_bench, memory_time):
    """4.13, 2.4: though the id's slot lives on, for another call of its that is open."""
    keep = {"keep_ms": 2 * 86_400_000}
    open_ = await memory_bench.claim("call_1", turn="t-2", **keep)
    ended = await memory_bench.run("call_1", turn="t-1", on_repeat=OnRepeat.RUN, **keep)
    memory_time.advance(2 * 86_400_000 + 1)
    settled = await memory_bench.settle(open_.effect)
    anew = await memory_bench.claim("call_1", turn="t-1", scope=Scope.TURN, **keep)
    assert isinstance(anew, d.Blocked)
    assert anew.effect.effect_id == ended.effect_id
    replay = await memory_bench.claim("call_1", **keep)
    assert isinstance(replay, d.Replay)
    assert replay.effect == settled.effect


async def test_p2_3_under_scope_step_each_step_has_its_own_ids(bench):
    """2.3"""
    place = {"turn": "t-1", "scope": Scope.STEP}
    first = await bench.run("call_0", {"n": 1}, step=1, **place)
    second = await bench.run("call_0", {"n": 2}, step=2, **place)
    assert (await bench.claim("call_0", {"n": 1}, step=1, **place)).effect == first
    assert is_reuse(await bench.claim("call_0", {"n": 1}, step=2, **place), "/arguments/n")
    assert first.effect_id != second.effect_id


async def test_p2_3_changing_between_auto_and_conversation_loses_no_call(bench):
    """2.3"""
    first = await bench.run("call_1", turn="t-1")
    replay = await bench.claim("call_1", turn="t-2", scope=Scope.CONVERSATION)
    assert replay.effect == first


async def test_p2_3_an_attempt_left_out_is_the_highest_seen(bench):
    """2.3, section 1: a step of another attempt is no repeat but the same call."""
    first = await bench.run("call_1", turn="t-1", step=1, attempt=1)
    await bench.run("call_2", {"sku": "B"}, turn="t-1", step=1, attempt=2)
    replay = await bench.claim("call_1", turn="t-1", step=2)
    assert isinstance(replay, d.Replay)
    assert replay.effect.effect_id == first.effect_id


async def test_p2_3_a_call_in_the_middle_of_several_under_one_id_is_found(bench):
    """2.3: more of them than come with a first look."""
    effects = [await bench.run("call_1", {"n": n}, turn=f"t-{n}") for n in range(9)]
    for number, effect in enumerate(effects):
        assert (await bench.claim("call_1", {"n": number}, turn=f"t-{number}")).effect == effect
    assert is_reuse(await bench.claim("call_1", {"n": 77}), "/arguments/n")


async def test_p2_3_a_call_is_the_same_call_whatever_a_later_attempt_met_at_its_step(bench):
    """2.1, 2.3: in attempt 3 the id's second step is a repeat of its first; in attempt 1 it was the first call."""
    place = {"turn": "t-1", "on_repeat": RUN}
    first = await bench.run("call_1", attempt=2, **place)
    for attempt, step in ((3, 1), (1, 2)):
        met = await bench.claim("call_1", step=step, attempt=attempt, **place)
        assert met.effect.effect_id == first.effect_id
    second = await bench.run("call_1", step=2, attempt=3, **place)
    assert second.effect_id != first.effect_id
    for attempt, effect in ((1, first), (3, second), (1, first)):
        again = await bench.claim("call_1", step=2, attempt=attempt, **place)
        assert (again.matched, again.effect.effect_id) == ("tool_call_id", effect.effect_id)


async def test_p2_3_a_call_is_the_same_call_though_its_id_was_first_given_without_a_step(bench):
    """2.1, 2.3: what was answered at a stated step stays its answer, though a later attempt then does another there."""
    place = {"turn": "t-1", "on_repeat": RUN}
    first = await bench.run("call_1", attempt=1, **place)
    for attempt, step in ((2, 1), (1, 2)):
        met = await bench.claim("call_1", step=step, attempt=attempt, **place)
        assert met.effect.effect_id == first.effect_id
    second = await bench.run("call_1", step=2, attempt=2, **place)
    assert second.effect_id != first.effect_id
    for attempt, effect in ((1, first), (2, second)):
        again = await bench.claim("call_1", step=2, attempt=attempt, **place)
        assert (again.matched, again.effect.effect_id) == ("tool_call_id", effect.effect_id)


# --- occurrences and effect ids (2.4, 2.5) -------------------------------------------------------------------


def own_id(bench, number, **place):
    return bench.ask(**place).effect_id(number)


async def test_p2_4_identical_calls_are_numbered_within_their_turn(bench):
    """2.4"""
    place = {"turn": "t-1", "attempt": 1, "on_repeat": RUN}
    effects = [await bench.run(f"call_{number}", **place) for number in range(3)]
    assert [e.effect_id for e in effects] == [own_id(bench, number, **place) for number in range(3)]
    assert [e.occurrence for e in effects] == [0, 1, 2]
    other = await bench.run("call_9", turn="t-2", attempt=1, on_repeat=RUN)
    assert (other.occurrence, other.effect_id) == (0, own_id(bench, 0, turn="t-2"))


async def test_p2_4_without_a_turn_the_id_stands_for_it(bench):
    """2.4"""
    effects = [await bench.run(f"call_{number}", on_repeat=RUN) for number in range(2)]
    assert [e.effect_id for e in effects] == [own_id(bench, 0, call="call_0"), own_id(bench, 0, call="call_1")]


async def test_p2_4_a_release_frees_the_number_and_its_aliases_are_all_new(bench):
    """2.4"""
    place = {"turn": "t-1", "on_repeat": RUN}
    granted = await bench.claim("call_1", attempt=1, **place)
    assert isinstance(await bench.claim("call_2", attempt=2, **place), d.Wait)
    await bench.release(granted.effect)
    again = await bench.claim("call_2", attempt=2, **place)
    assert isinstance(again, d.Granted)
    assert (again.effect.effect_id, again.effect.occurrence) == (granted.effect.effect_id, 0)
    another = await bench.claim("call_1", attempt=2, **place)
    assert isinstance(another, d.Granted)
    assert another.effect.occurrence == 1


async def test_p2_4_a_resolved_absence_frees_the_number_too(bench):
    """2.4"""
    lost = await bench.lost("call_1", turn="t-1")
    await bench.resolve(lost, None)
    again = await bench.claim("call_2", turn="t-1")
    assert isinstance(again, d.Granted)
    assert again.effect.effect_id == lost.effect_id
    assert again.effect.tokens[0] == lost.tokens[0]


@pytest.mark.parametrize("taken", [True, False])
async def test_p2_4_a_late_success_takes_no_number_back_from_what_has_it_since(bench, taken):
    """2.4, 2.5, 4.4: resolved as absent, its number free, the turn's call was answered with another effect. It was done
    after all; the turn that is run over is told what it was told, and no number names two effects."""
    place = {"turn": "t-1", "on_repeat": REPLAY}
    other = await bench.run("call_0", outcome=order(0))
    lost = (await bench.claim("call_1", turn="t-1", attempt=1, on_repeat=RUN)).effect
    await bench.lose(lost)
    await bench.resolve(lost, None)
    if taken:
        assert (await bench.claim("call_2", attempt=1, **place)).effect.effect_id == other.effect_id
    assert isinstance(await bench.settle(lost, order(1)), d.Settled)
    again = await bench.claim("call_3", attempt=2, **place)
    assert isinstance(again, d.Replay)
    assert (again.matched, again.effect.effect_id) == ("effect", (other if taken else lost).effect_id)
    # A second such call of the turn is a repeat, of the one that was settled last (4.9).
    second = await bench.claim("call_4", attempt=2, **place)
    assert (second.matched, second.effect.effect_id) == ("repeat", lost.effect_id)
    met = [(await bench.claim(call, attempt=3, **place)).effect.effect_id for call in ("call_5", "call_6")]
    assert met == [(other if taken else lost).effect_id, lost.effect_id]


async def test_p2_4_a_refusal_takes_no_number(bench):
    """2.4"""
    place = {"turn": "t-1", "attempt": 1}
    assert await bench.claim("call_1", refusal=STEP_LIMIT, **place) == STEP_LIMIT
    assert (await bench.claim("call_1", {"sku": "Z"}, refusal=UNKNOWN_TOOL, **place)) == UNKNOWN_TOOL
    assert (await bench.run("call_1", **place)).occurrence == 0


async def test_p2_4_a_held_call_keeps_its_number(bench):
    """2.4"""
    place = {"turn": "t-1", "attempt": 1}
    await bench.run("call_1", **place)
    held = await bench.claim("call_2", **place)
    assert (held.effect.occurrence, held.effect.effect_id) == (1, own_id(bench, 1, **place))
    run = await bench.run("call_2", on_repeat=RUN, **place)
    assert run.effect_id == held.effect.effect_id
    assert (await bench.run("call_3", on_repeat=RUN, **place)).occurrence == 2


async def test_p2_5_a_turn_run_over_finds_its_effects_under_other_ids(bench):
    """2.5: two identical calls in one attempt, both found again in the next, in order; a third is new."""
    place = {"turn": "t-1", "on_repeat": RUN}
    effects = [await bench.run(f"call_{number}", attempt=1, outcome=order(number), **place) for number in range(2)]
    for number in range(2):
        replay = await bench.claim(f"again_{number}", attempt=2, **place)
        assert isinstance(replay, d.Replay)
        assert replay.matched == "effect"
        assert replay.effect.outcome == effects[number].outcome
        # Bound as an alias, it is from now on the same call.
        assert (await bench.claim(f"again_{number}", attempt=2, **place)).matched == "tool_call_id"
    third = await bench.claim("again_2", attempt=2, **place)
    assert isinstance(third, d.Granted)
    assert third.effect.occurrence == 2


async def test_p2_5_a_turn_run_over_in_another_order_gives_no_effect_twice(bench):
    """2.4, 2.5: the second call comes first by its id; the others are the first, and a new one."""
    place = {"turn": "t-1", "on_repeat": RUN}
    effects = [await bench.run(f"call_{number}", attempt=1, **place) for number in range(2)]
    assert (await bench.claim("call_1", attempt=2, **place)).effect.effect_id == effects[1].effect_id
    assert (await bench.claim("again", attempt=2, **place)).effect.effect_id == effects[0].effect_id
    assert isinstance(await bench.claim("third", attempt=2, **place), d.Granted)


async def test_p2_5_a_turn_run_over_finds_what_its_first_run_was_answered_with(bench):
    """2.5: a replayed repeat is an alias of an effect of another turn, and stays one when the window has passed."""
    first = await bench.run("call_1", turn="t-1", on_repeat=REPLAY)
    assert isinstance(await bench.claim("call_2", turn="t-2", attempt=1, on_repeat=REPLAY), d.Replay)
    again = await bench.claim("call_3", turn="t-2", attempt=2, on_repeat=REPLAY, window_ms=0)
    assert isinstance(again, d.Replay)
    assert again.effect.effect_id == first.effect_id
    # ... by number: a second identical call of that attempt is not the first one's alias.
    other = await bench.claim("call_4", turn="t-2", attempt=2, on_repeat=RUN, window_ms=0)
    assert isinstance(other, d.Granted)
    assert other.effect.occurrence == 1


async def test_p2_5_a_turn_run_over_meets_its_held_call_and_is_bound_to_it(bench):
    """2.5, 4.9"""
    await bench.run("call_1", turn="t-1", attempt=1)
    held = await bench.claim("call_2", turn="t-1", attempt=1)
    assert isinstance(await bench.claim("again_1", turn="t-1", attempt=2), d.Replay)
    met = await bench.claim("again_2", turn="t-1", attempt=2)
    assert isinstance(met, d.Blocked)
    assert met.effect.effect_id == held.effect.effect_id
    assert len((await bench.record(met.effect)).slots) == 2
    third = await bench.claim("again_3", turn="t-1", attempt=2)
    assert isinstance(third, d.Blocked)
    assert third.effect.effect_id == held.effect.effect_id  # a third joins the hold


async def test_p2_5_an_id_matched_by_effect_is_bound_before_it_waits(bench, outcomes):
    """2.5: so it is the same call also once the first has failed."""
    granted = await bench.claim("call_1", turn="t-1", attempt=1)
    assert isinstance(await bench.claim("again", turn="t-1", attempt=2), d.Wait)
    await bench.settle(granted.effect, outcomes.failure)
    replay = await bench.claim("again", turn="t-1", attempt=2)
    assert isinstance(replay, d.Replay)
    assert (replay.matched, replay.effect.status) == ("tool_call_id", Status.FAILED)


async def test_p2_5_an_alias_with_other_arguments_is_a_reuse(bench):
    """2.2, 2.5"""
    await bench.run("call_1", turn="t-1", attempt=1)
    assert isinstance(await bench.claim("again", turn="t-1", attempt=2), d.Replay)
    assert is_reuse(await bench.claim("again", {"sku": "B", "qty": 1}), "/arguments/sku")


# --- attempts (2.6) ------------------------------------------------------------------------------------------


async def test_p2_6_an_earlier_attempt_starts_nothing_new(bench):
    """2.6: but what it started goes on, and another turn is its own."""
    first = await bench.run("call_1", turn="t-1", attempt=1)
    await bench.run("call_2", {"sku": "B"}, turn="t-1", attempt=2)
    refused = await bench.claim("call_3", {"sku": "C"}, turn="t-1", attempt=1)
    assert isinstance(refused, d.Refused)
    assert refused.code == "attempt_superseded"
    assert (await bench.claim("call_1", turn="t-1", attempt=1)).effect.effect_id == first.effect_id
    assert isinstance(await bench.claim("call_3", {"sku": "C"}, turn="t-1"), d.Granted)
    assert isinstance(await bench.claim("call_4", {"sku": "D"}, turn="t-2", attempt=1), d.Granted)


SEEN = {
    "a replay": ("call_1", {}),
    "a replay under another id": ("other", {}),
    "a wait": ("call_2", {"arguments": {"sku": "runs"}}),
    "a wait under another id": ("other", {"arguments": {"sku": "runs"}}),
    "a wait for a repeat of elsewhere": ("other", {"arguments": {"sku": "runs elsewhere"}}),
    "a hold that stands": ("call_4", {"arguments": {"sku": "held"}}),
    "a new hold": ("other", {"arguments": {"sku": "done elsewhere"}}),
    "a new call": ("other", {"arguments": {"sku": "new"}}),
}


@pytest.mark.parametrize("how", SEEN)
async def test_p2_6_an_attempt_is_seen_whatever_its_call_is_answered(bench, how):
    """2.6"""
    place = {"turn": "t-1", "attempt": 1}
    await bench.run("call_1", **place)
    await bench.claim("call_2", {"sku": "runs"}, **place)
    await bench.run("call_3", {"sku": "held"}, **place)
    await bench.claim("call_4", {"sku": "held"}, **place)
    await bench.claim("call_5", {"sku": "runs elsewhere"}, turn="t-0")
    await bench.run("call_6", {"sku": "done elsewhere"}, turn="t-0")
    call, more = SEEN[how]
    assert not isinstance(await bench.claim(call, turn="t-1", attempt=2, **more), d.Refused)
    late = await bench.claim("late", {"sku": "late"}, **place)
    assert isinstance(late, d.Refused)
    assert late.code == "attempt_superseded"


UNSEEN = {
    "an id that was given to another call": ({"call": "call_1", "arguments": {"sku": "other"}}, d.Refused),
    "a repeat of what is unknown": ({"call": "b", "arguments": {"sku": "unknown"}}, d.Denied),
    "a refusal of the caller's": ({"call": "b", "refusal": d.Refused("unknown_tool", "no such tool")}, d.Refused),
    "a denial by step": ({"call": "b", "refusal": d.Denied(Fault("step_limit", "No."))}, d.Denied),
    "a look-up that finds nothing": ({"call": "b", "refusal": d.UNRECORDED}, d.Refused),
}


@pytest.mark.parametrize("how", UNSEEN)
async def test_p2_6_an_attempt_that_got_only_refusals_was_not_seen(bench, how):
    """2.6: they store nothing, so the earlier attempt goes on."""
    await bench.run("call_1", turn="t-1", attempt=1)
    await bench.lost("call_2", {"sku": "unknown"}, turn="t-0")
    asked, answer = UNSEEN[how]
    assert isinstance(await bench.claim(turn="t-1", attempt=2, **{"arguments": {"sku": "x"}, **asked}), answer)
    assert isinstance(await bench.claim("late", {"sku": "late"}, turn="t-1", attempt=1), d.Granted)


async def test_p2_6_an_attempt_left_out_is_the_highest_and_is_never_superseded(bench):
    """2.6: before any was stated it is the first; once a later one was seen, it is that one."""
    await bench.run("call_1", turn="t-1")
    await bench.run("call_2", {"sku": "B"}, turn="t-1", attempt=3)
    assert isinstance(await bench.claim("call_3", {"sku": "C"}, turn="t-1"), d.Granted)
    for attempt in (1, 2):
        refused = await bench.claim("call_4", {"sku": "D"}, turn="t-1", attempt=attempt)
        assert (type(refused), refused.code) == (d.Refused, "attempt_superseded")
    assert isinstance(await bench.claim("call_4", {"sku": "D"}, turn="t-1", attempt=3), d.Granted)
    assert isinstance(await bench.claim("call_5", {"sku": "E"}), d.Granted), "without a turn there is no attempt"


async def test_p2_6_what_an_earlier_attempt_started_is_answered_to_it_in_whatever_state(bench, outcomes):
    """2.6: only what is new is refused, be it under an id, a number, or with a refusal of its own."""
    early = {"turn": "t-1", "attempt": 1}
    retryable = {"mode": Mode.SAFE_TO_RETRY}
    await bench.run("done", {"sku": "1"}, **early)
    await bench.run("failed", {"sku": "2"}, outcome=outcomes.failure, **early)
    await bench.claim("runs", {"sku": "3"}, **early)
    await bench.lost("lost", {"sku": "4"}, **early)
    await bench.lost("again", {"sku": "5"}, **early, **retryable)
    await bench.claim("held", {"sku": "1"}, **early)
    await bench.run("later", {"sku": "6"}, turn="t-1", attempt=2)
    for call, sku, answer in (
        ("done", "1", d.Replay),
        ("failed", "2", d.Replay),
        ("runs", "3", d.Wait),
        ("lost", "4", d.Replay),
        ("again", "5", d.Granted),
        ("held", "1", d.Blocked),
    ):
        assert isinstance(await bench.claim(call, {"sku": sku}, **early, **retryable), answer), call
    refusal = d.Refused("unknown_tool", "no such tool")
    for more in ({}, {"refusal": refusal}, {"call": None}):
        refused = await bench.claim(**{"call": "new", "arguments": {"sku": "7"}, **early, **more})
        assert (type(refused), refused.code) == (d.Refused, "attempt_superseded")


async def test_p2_6_of_two_attempts_at_once_the_later_wins(bench):
    """2.6, 4.15: whatever the order, an earlier one that was granted was granted first."""
    granted = await asyncio.gather(*(bench.claim(f"a{n}", {"n": n}, turn="t-1", attempt=1 + n % 2) for n in range(20)))
    assert all(isinstance(decision, d.Granted) for decision in granted[1::2])
    assert all(isinstance(x, d.Granted) or x.code == "attempt_superseded" for x in granted[::2])
    assert isinstance(await bench.claim("late", {"n": "late"}, turn="t-1", attempt=1), d.Refused)


# --- without an id (2.7) -------------------------------------------------------------------------------------


async def test_k1_06_without_an_id_the_effect_id_is_the_key(bench):
    """2.7: an identical call of the same attempt, or of a later one, is the same; another never shares it."""
    first = await bench.run(None, {"sku": "A"}, turn="t-1", attempt=1)
    for attempt in (1, 1, 2):
        replay = await bench.claim(None, {"sku": "A"}, turn="t-1", attempt=attempt)
        assert isinstance(replay, d.Replay)
        assert replay.effect.effect_id == first.effect_id
    other = await bench.claim(None, {"sku": "B"}, turn="t-1", attempt=1)
    assert isinstance(other, d.Refused)  # attempt 2 was seen
    assert isinstance(await bench.claim(None, {"sku": "B"}, turn="t-1", attempt=2), d.Granted)
    elsewhere = await bench.claim(None, {"sku": "A"}, turn="t-2", attempt=1, window_ms=0)
    assert isinstance(elsewhere, d.Granted)
    assert first.effect_id not in (elsewhere.effect.effect_id, other)


async def test_p2_7_with_and_without_an_id_meet_at_the_effect(bench):
    """2.7, 2.5"""
    first = await bench.run("call_1", turn="t-1", attempt=1)
    assert (await bench.claim(None, turn="t-1", attempt=1)).effect.effect_id == first.effect_id
    held = await bench.claim("call_2", turn="t-1", attempt=1)
    assert isinstance(held, d.Blocked)
    assert held.effect.occurrence == 1


async def test_p2_7_a_call_without_an_id_waits_and_may_be_released(bench):
    """2.7, 4.8"""
    granted = await bench.claim(None, turn="t-1", attempt=1)
    assert isinstance(await bench.claim(None, turn="t-1", attempt=1), d.Wait)
    await bench.release(granted.effect)
    assert isinstance(await bench.claim(None, turn="t-1", attempt=1), d.Granted)


async def test_p2_7_a_repeat_without_an_id_is_answered_alike_each_time(bench):
    """2.7, 4.9: what it was answered with is what its number names."""
    await bench.run("call_1", turn="t-1", on_repeat=REPLAY)
    for _ in range(2):
        replay = await bench.claim(None, turn="t-2", attempt=1, on_repeat=REPLAY)
        assert isinstance(replay, d.Replay)
    assert isinstance(await bench.claim(None, turn="t-2", attempt=1, on_repeat=REPLAY, window_ms=0), d.Replay)


# --- tokens, modes, refusals (4.3, 4.6, 4.10) ----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["at_most_once", "safe_to_retry"])
async def test_p4_3_a_claim_that_is_sent_again_is_answered_yours(bench, mode):
    """4.3: its reply was lost; nobody else's is."""
    asked = bench.ask("call_1", mode=mode)
    granted = await bench.again(asked)
    assert await bench.again(asked) == msgspec.structs.replace(granted, new=False)
    assert (await bench.types()).count("effect.executing") == 1
    assert isinstance(await bench.claim("call_1", mode=mode), d.Wait)


async def test_p4_3_a_second_try_that_is_sent_again_is_answered_yours_too(bench):
    """4.3, 4.6"""
    await bench.lost("call_1", mode="safe_to_retry")
    asked = bench.ask("call_1", mode="safe_to_retry")
    again = await bench.again(asked)
    assert (await bench.again(asked)).effect == again.effect
    repeat = bench.ask("call_2", mode="safe_to_retry")
    assert isinstance(await bench.again(repeat), d.Wait)


async def test_p4_3_a_claim_sent_again_after_its_end_is_a_replay(bench):
    """4.3"""
    asked = bench.ask("call_1")
    granted = await bench.again(asked)
    await bench.settle(granted.effect)
    assert isinstance(await bench.again(asked), d.Replay)


async def test_p4_6_what_the_first_claim_fixed_stays_fixed(bench):
    """4.6: registering the tool anew changes nothing for it."""
    first = {"mode": "safe_to_retry", "version": 1, "endpoint": "https://old.example/"}
    later = {"mode": "at_most_once", "version": 2, "endpoint": "https://new.example/"}
    lost = await bench.lost("call_1", **first)
    again = await bench.claim("call_1", refusal=UNKNOWN_TOOL, **later)
    assert isinstance(again, d.Granted)
    assert (again.effect.mode, again.effect.tool_version, again.effect.endpoint) == (
        ("safe_to_retry", 1, "https://old.example/")
    )
    assert again.effect.effect_id == lost.effect_id
    other = await bench.lost("call_2", {"sku": "B"}, **later)
    assert isinstance(await bench.claim("call_2", {"sku": "B"}, **first), d.Replay)
    assert (await bench.record(other)).status is Status.INDETERMINATE


@pytest.mark.parametrize("refusal", [UNKNOWN_TOOL, STEP_LIMIT], ids=["404", "step limit"])
async def test_p4_10_the_ledger_is_read_before_a_refusal(bench, refusal):
    """4.10: recorded calls replay whatever happened since; new ones are refused, and nothing is stored."""
    effect = await bench.run("call_1", turn="t-1", attempt=1)
    assert (await bench.claim("call_1", turn="t-1", attempt=1, refusal=refusal)).effect == effect
    assert (await bench.claim("again", turn="t-1", attempt=2, refusal=refusal)).effect.effect_id == effect.effect_id
    running = (await bench.claim("call_2", {"sku": "B"})).effect
    assert isinstance(await bench.claim("call_2", {"sku": "B"}, refusal=refusal), d.Wait)
    before = await bench.types()
    assert await bench.claim("call_3", {"sku": "C"}, refusal=refusal) == refusal
    assert await bench.types() == before
    assert (await bench.record(running)).status is Status.EXECUTING


async def test_k1_14_a_turn_resumed_after_a_crash_is_told_that_the_outcome_is_unknown(bench, outcomes):
    """2.1, 4.5, 4.6: a record left executing counts as needing reconciliation, not only a marked one."""
    crashed = (await bench.claim("call_1", lease_ms=0)).effect
    for _ in range(3):
        replay = await bench.claim("call_1", lease_ms=0)
        assert isinstance(replay, d.Replay)
        assert (replay.effect.status, replay.effect.effect_id) == (Status.INDETERMINATE, crashed.effect_id)
    await bench.resolve(crashed, outcomes.success)
    replay = await bench.claim("call_1")
    assert (replay.effect.status, replay.effect.outcome) == (Status.SUCCEEDED, outcomes.success)


async def test_p4_10_a_large_number_in_a_result_is_replayed_intact(bench):
    """4.10, 2.10 (K2-11)"""
    result = b'{"order_id":2512292042121000001,"total":12.50}'
    await bench.run("b1", outcome=Outcome(Status.SUCCEEDED, result))
    assert (await bench.claim("b1")).effect.outcome.result == result


async def test_p2_9_a_number_reaches_the_record_as_it_was_written(bench):
    """2.9, 2.10"""
    asked = bench.ask("call_1", parse('{"n":1.50}'), mode="safe_to_retry")
    assert (await bench.again(asked)).effect.arguments == '{"n":1.50}'
    assert identity.read_arguments('{"n":15e-1}').canonical == asked.arguments.canonical
