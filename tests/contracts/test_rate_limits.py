"""Counters of rate limits, over both ledgers (promises 7.5, 9.4)."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.redis_counters import PREFIX, RedisCounters
from gateway.core.identity import read_arguments
from gateway.core.policy_limits import RateLimit
from gateway.core.policy_values import pointer
from gateway.core.ports import Counter
from gateway.service.rate_limits import MOST, counter_of
from gateway.service.refusal_log import Subject


def counter(amount: int = 1, most: int = 3, window_ms: int = 60_000, key: bytes = b"k" * 16) -> Counter:
    return Counter(key, amount, most, window_ms)


@pytest.fixture
def counters(bench):
    return RedisCounters(bench.wire)


@pytest.fixture
def memory_counters(memory_bench):
    return RedisCounters(memory_bench.wire)


async def limit_keys(bench):
    return [key for key in await bench.keys() if key.startswith(PREFIX)]


async def test_p7_5_as_many_as_a_limit_says_and_no_more(counters):
    """7.5"""
    took = [await counters.take(counter()) for _ in range(5)]
    assert [each.granted for each in took] == [True, True, True, False, False]
    assert all(0 < each.wait_ms <= 60_000 for each in took)


async def test_p7_5_what_is_refused_is_not_counted(counters):
    """7.5: a large one that does not fit leaves room for a small one."""
    assert (await counters.take(counter(2))).granted
    assert not (await counters.take(counter(2))).granted
    assert (await counters.take(counter(1))).granted
    assert not (await counters.take(counter(1))).granted
    assert (await counters.take(counter(0))).granted


async def test_p7_5_count_and_end_are_one_step_under_a_crowd(counters, bench):
    """7.5: forty at once, ten of them pass, and there is no moment without an end."""
    took = await asyncio.gather(*(counters.take(counter(most=10)) for _ in range(40)))
    assert sum(each.granted for each in took) == 10
    (key,) = await limit_keys(bench)
    assert 0 < await bench.wire.do("PTTL", key) <= 60_000


async def test_p7_5_a_window_begins_with_its_first_and_ends_for_all_at_once(memory_counters, memory_time):
    """7.5: the later ones do not move its end."""
    for _ in range(3):
        assert (await memory_counters.take(counter())).granted
        memory_time.advance(19_000)
    refused = await memory_counters.take(counter())
    assert not refused.granted
    assert 2_000 <= refused.wait_ms <= 3_000
    memory_time.advance(refused.wait_ms)
    assert (await memory_counters.take(counter())).granted


async def test_p9_4_a_counter_lives_as_long_as_its_window(memory_counters, memory_bench, memory_time):
    """9.4: buyers come and go; what is left of them is nothing."""
    for number in range(200):
        await memory_counters.take(counter(key=number.to_bytes(16, "big"), window_ms=1_000))
    assert len(await limit_keys(memory_bench)) == 200
    memory_time.advance(1_001)
    assert await limit_keys(memory_bench) == []


async def test_p7_5_what_is_given_back_may_be_taken_again(counters):
    """7.5: once, and never below nothing."""
    taken = [await counters.take(counter()) for _ in range(3)]
    assert not (await counters.take(counter())).granted
    await counters.give_back(counter(), taken[0])
    assert (await counters.take(counter())).granted
    assert not (await counters.take(counter())).granted
    for _ in range(9):
        await counters.give_back(counter(), taken[1])
    assert [(await counters.take(counter())).granted for _ in range(4)] == [True, True, True, False]


async def test_p7_5_giving_back_keeps_the_end_of_the_window(counters, bench):
    """7.5: a key without an end would limit for ever."""
    taken = await counters.take(counter())
    await counters.give_back(counter(), taken)
    (key,) = await limit_keys(bench)
    assert 0 < await bench.wire.do("PTTL", key) <= 60_000


async def test_p7_5_nothing_is_given_back_to_another_window(memory_counters, memory_time, memory_bench):
    """7.5: it was counted in one that is over."""
    old = await memory_counters.take(counter())
    memory_time.advance(60_001)
    await memory_counters.give_back(counter(), old)
    assert await limit_keys(memory_bench) == []
    assert (await memory_counters.take(counter(3))).granted
    await memory_counters.give_back(counter(), old)
    assert not (await memory_counters.take(counter())).granted


async def test_p7_5_a_shorter_window_counts_at_once(memory_counters, memory_time):
    """7.5: a rule that was changed; nobody waits for the end of the old one."""
    assert (await memory_counters.take(counter(3, window_ms=86_400_000))).granted
    memory_time.advance(61_000)
    assert not (await memory_counters.take(counter(window_ms=86_400_000))).granted
    assert (await memory_counters.take(counter(window_ms=60_000))).granted


@pytest.mark.parametrize(("amount", "most"), [(MOST, MOST), (MOST - 1, MOST)])
async def test_p7_5_the_largest_counts_are_exact(counters, amount, most):
    """7.5: at the edge of what a double holds."""
    assert (await counters.take(counter(amount, most))).granted
    left = most - amount
    assert not (await counters.take(counter(left + 1, most))).granted
    assert (await counters.take(counter(left, most))).granted


# --- which counter, and how much (7.5) -----------------------------------------------------------------------


def subject(arguments: str = "{}", company: str = "acme", conversation: str = "c-1", turn: str | None = "t-1"):
    return Subject(company, conversation, "refund", "call_1", turn, read_arguments(arguments), None, 86_400_000)


def limit(maximum="100", per="company", sum_of="/amount", **more):
    at = pointer(per) if per.startswith("/") else per
    return RateLimit("", "r", Decimal(maximum), 60, at, pointer(sum_of) if sum_of else None, **more)


@given(st.decimals(0, 10**9, places=6), st.decimals("0.0001", 10**9, places=6))
def test_p7_5_a_sum_is_exact_and_rounded_against_the_one_who_asks(amount: Decimal, most: Decimal):
    """7.5: in ten-thousandths; what has more decimals counts as the next higher."""
    found = counter_of(limit(f"{most:f}"), subject(f'{{"amount": {amount:f}}}'))
    assert found is not None
    assert 0 <= found.amount - amount * 10_000 < 1
    assert 0 <= most * 10_000 - found.most < 1


@pytest.mark.parametrize(
    ("most", "amount", "fits"),
    [
        ("0.3", "0.3", True),
        ("0.3", "0.30000000000000000000000000000000000001", False),
        ("1", "1.00000000000000000000000000000000000000", True),
        ("0.99999999999999999999999999999999999", "1", False),
        ("1000000000000", "5000000000000", False),
        ("100000000000000000000000000000", "100000000000000000000000000001", False),
        ("100", "1e300", False),
        ("100", "0e400", True),
        ("100", '"99.99"', True),
        ("100", '"100.01"', False),
        ("900719925474.0991", "900719925474.0991", True),
    ],
)
def test_p7_5_no_rounding_ever_lets_more_through(most, amount, fits):
    """7.5: beyond what a counter can hold exactly, everything is over the limit."""
    found = counter_of(limit(most), subject(f'{{"amount": {amount}}}'))
    assert found is not None
    assert (found.amount <= found.most) is fits


@pytest.mark.parametrize("amount", ["-1", '"-0.01"', '"7,400"', "null", "true", "[1]", '"1e3"', '""'])
def test_p7_5_what_cannot_be_counted_has_no_counter(amount):
    """7.5: its `on_error` decides; an amount below zero would make room for others."""
    assert counter_of(limit(), subject(f'{{"amount": {amount}}}')) is None
    assert counter_of(limit(), subject("{}")) is None


KEYS = {
    "company": ("company", [{}, {"conversation": "c-2"}, {"turn": None}], [{"company": "other"}]),
    "conversation": (
        "conversation",
        [{}, {"turn": "t-2"}],
        [{"conversation": "c-2"}, {"company": "other"}, {"conversation": "c-1t-1"}],
    ),
    "turn": ("turn", [{}], [{"turn": "t-2"}, {"conversation": "c-2"}, {"company": "other"}]),
    "buyer": (
        "/buyer",
        [{"arguments": '{"buyer": 7}'}, {"arguments": '{"buyer": "7"}', "conversation": "c-9"}, {"arguments": '{"buyer": 7.0}'}],
        [{"arguments": '{"buyer": 8}'}, {"arguments": '{"buyer": "7 "}'}, {"arguments": '{"buyer": 7}', "company": "other"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("per", "alike", "apart"), KEYS.values(), ids=KEYS.keys())
def test_p7_5_what_is_counted_apart(per, alike, apart):
    """7.5, 9.1: a company's counters are never another's."""
    counted = limit("5", per, None)
    keys = {counter_of(counted, subject(**each)).key for each in alike}
    assert len(keys) == 1
    others = {counter_of(counted, subject(**each)).key for each in apart}
    assert len(others) == len(apart)
    assert not keys & others


def test_p7_5_a_turn_that_is_not_stated_and_a_buyer_that_is_none_have_no_counter():
    """7.5"""
    assert counter_of(limit("5", "turn", None), subject(turn=None)) is None
    for buyer in ("{}", '{"buyer": null}', '{"buyer": ""}', '{"buyer": []}', '{"buyer": true}'):
        assert counter_of(limit("5", "/buyer", None), subject(buyer)) is None


def test_p7_5_two_rules_and_two_owners_count_apart():
    """7.5"""
    keys = {
        counter_of(RateLimit(owner, rule, 5, 60, "company"), subject()).key
        for owner, rule in (("", "r"), ("", "s"), ("acme", "r"), ("a", "cmer"))
    }
    assert len(keys) == 4
