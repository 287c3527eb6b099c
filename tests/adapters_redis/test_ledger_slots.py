"""Where a conversation's keys lie: in one cluster slot, whatever its names are made of (4.15)."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.ledger_keys import BUCKETS, FENCE, Bucket
from gateway.adapters.redis_slots import key_slot
from gateway.core import identity
from gateway.core.conversation import Where
from gateway.core.identity import Kind, Place, Scope
from gateway.core.record import Mode
from gateway.core.requests import HOLD_MS, Claim, OnRepeat, Terms

NAMES = st.text(st.sampled_from("{}og.0f:ab é"), min_size=1, max_size=40)
TAG = re.compile(rb"\{og\.[0-9a-f]{3}\}")


def where(company: str, conversation: str, call: str, turn: str) -> Where:
    read = identity.read_arguments({"note": call})
    return Claim(
        company=company,
        conversation=conversation,
        tool_call_id=call,
        kind=Kind.TOOL_CALL,
        target="place_order",
        arguments=read,
        fingerprint=identity.fingerprint(Kind.TOOL_CALL, "place_order", read.canonical),
        place=Place(turn, 1, None),
        scope=Scope.AUTO,
        terms=Terms(Mode.AT_MOST_ONCE, OnRepeat.HOLD, 1, 1, "https://shop.example", 1, 1, HOLD_MS),
        token=b"t" * 16,
    ).where()


def keys_of(read: Where) -> list[bytes]:
    bucket = Bucket.of(read.conversation)
    return [
        *(bucket.live, bucket.events, bucket.due, bucket.unknown, bucket.probe, bucket.fence),
        *bucket.keys([*bucket.read_by(read), FENCE]),
        *[bucket.record(effect) for effect in read.effects],
    ]


@given(company=NAMES, conversation=NAMES, calls=st.lists(NAMES, min_size=1, max_size=4), turn=NAMES)
def test_p4_15_no_brace_in_an_id_steers_a_slot(company: str, conversation: str, calls: list[str], turn: str) -> None:
    """4.15: all keys of a conversation start with one of 4,096 tags, and so lie in one slot; what a caller says comes
    behind it."""
    keys = [key for call in calls for key in keys_of(where(company, conversation, call, turn))]
    tags = {key[:8] for key in keys}
    assert len(tags) == 1
    assert all(TAG.fullmatch(tag) for tag in tags)
    assert {key_slot(key) for key in keys} == {key_slot(tags.pop())}


def test_p4_15_the_buckets_are_spread_over_the_slots() -> None:
    """4.15: 4,096 buckets; of any twelfth of the slots no server has more than a fair share by much."""
    slots = [key_slot(Bucket(number).due) for number in range(BUCKETS)]
    assert len(set(slots)) > BUCKETS * 3 // 4
    shares = [sum(first <= slot < first + 16_384 // 12 for slot in slots) for first in range(0, 16_380, 16_384 // 12)]
    assert min(shares) > BUCKETS / 12 * 0.8
    assert max(shares) < BUCKETS / 12 * 1.2


def test_p4_15_at_the_fence_nothing_is_ever_kept() -> None:
    """4.15: its key is no other name's, and nothing writes it."""
    read = where("acme", "c", "call", "turn")
    bucket = Bucket.of(read.conversation)
    others = [*bucket.keys(bucket.read_by(read)), bucket.live, bucket.events, bucket.due, bucket.unknown, bucket.probe]
    assert bucket.fence not in others
