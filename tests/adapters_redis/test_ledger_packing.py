"""What is stored is as short as it can be said, is read back as it was, and stays readable (promise 4.13)."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters import ledger_codec as codec
from gateway.adapters import ledger_packing as packing
from gateway.adapters.ledger_events import read_events
from gateway.core.conversation import Binding, CallSlot, Event, Known, PrintSlot, Taken
from gateway.core.event_types import EVENT_TYPES
from gateway.core.identity import Kind
from gateway.core.record import FORMAT, Effect, Fault, Mode, Outcome, Status

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "stored.json").read_text())
IDS = st.binary(min_size=32, max_size=32)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
STATUSES = st.sampled_from(list(Status))
KNOWN = st.builds(Known, IDS, st.none() | TEXT, STATUSES, st.none() | st.integers(0, 2**50), st.booleans())
PLACES = TEXT.map("t{}".format) | TEXT.map("i{}".format)


def _effect(**changes: object) -> Effect:
    effect = Effect(
        format=FORMAT,
        effect_id=bytes(range(32)),
        company="acme",
        conversation="c-1",
        kind=Kind.TOOL_CALL,
        target="place_order",
        fingerprint=bytes(range(32, 64)),
        tool_call_id="call_1",
        turn="t-1",
        step=1,
        attempt=1,
        occurrence=0,
        fields={"qty": 1, "sku": 2},
        mode=Mode.AT_MOST_ONCE,
        tool_version=3,
        endpoint="https://shop.example/tools",
        status=Status.EXECUTING,
        tokens=(b"token-0000000001",),
        lease_ms=15_000,
        slots=(b"slot-00000000001",),
    )
    return msgspec.structs.replace(effect, **changes)


def _settled(result: bytes) -> Effect:
    outcome = Outcome(Status.SUCCEEDED, result)
    return _effect(status=Status.SUCCEEDED, outcome=outcome, settled_by=b"token-0000000001", first_at=1, claimed_at=1)


SAMPLES = {
    "executing": codec.effect_payload(_effect()),
    "succeeded": codec.effect_payload(_settled(b'"MO-1"')),
    "failed": codec.effect_payload(
        _effect(status=Status.FAILED, outcome=Outcome(Status.FAILED, fault=Fault("merchant_refused", "No.", b"{}")))
    ),
    "slot": codec.slot_payload(
        CallSlot((Binding(bytes(range(32)), bytes(range(32, 64)), "t-1", 1, 1, True),)), {bytes(range(32)): _effect()}
    ),
    "slot of another turn": codec.slot_payload(
        CallSlot((Binding(bytes(range(32)), bytes(range(32, 64)), "t-2", 1, 1, False),)), {bytes(range(32)): _effect()}
    ),
    "identical": codec.identical_payload(
        PrintSlot(
            (Known(bytes(range(32)), "t-1", Status.INDETERMINATE, None, True),),
            (Taken("tt-1", 1, 0, bytes(range(32))), Taken("tt-2", 2, 1, bytes(range(32)))),
        )
    ),
    "events": b"|".join(
        codec.event_lines(
            (
                Event(
                    "effect.proposed", bytes(range(32)), {"kind": "tool_call", "target": "place_order", "turn": "t-1"}
                ),
                Event("effect.allowed", bytes(range(32))),
                Event("effect.executing", bytes(range(32)), {"lease_s": 15.0}),
            )
        )
    ),
}


@pytest.mark.parametrize("name", list(SAMPLES))
def test_p4_13_what_is_stored_keeps_its_bytes(name: str) -> None:
    """4.13: a change of these is a new format, and the old one has to be read for as long as the retention time."""
    assert SAMPLES[name].hex() == VECTORS["payloads"][name]


@pytest.mark.parametrize("name", VECTORS["payloads_before_approvals"])
def test_p4_13_records_of_before_approvals_are_read(name: str) -> None:
    """4.13: they have no approval, and are else what is written today."""
    before = codec.Stored(b"v" * 8, 7, bytes.fromhex(VECTORS["payloads_before_approvals"][name]))
    assert codec.effect_of(before) == codec.effect_of(codec.Stored(b"v" * 8, 7, SAMPLES[name]))


def test_p4_13_a_deflated_record_is_read_whatever_deflated_it() -> None:
    """4.13: other builds of zlib write other bytes, so only reading is pinned."""
    payload = bytes.fromhex(VECTORS["deflated"])
    assert payload[1:2] == b"\xc1"
    stored = codec.Stored(b"v" * 8, 1, payload)
    assert codec.effect_of(stored) == codec.stamped(_settled(b'"%b"' % (b"MO-1 " * 300)), 1)


@pytest.mark.parametrize("size", [0, 1, 400, 1_000, 60_000, 70_000, 1_048_576])
def test_p4_12_a_result_of_any_size_is_read_as_it_was(size: int) -> None:
    """4.12, 4.13"""
    effect = _settled(b'"%b"' % (b"x" * size))
    payload = codec.effect_payload(effect)
    assert codec.effect_of(codec.Stored(b"v" * 8, 7, payload)) == codec.stamped(effect, 7)
    assert len(payload) < size + 600


@pytest.mark.parametrize(
    "payload", [b"\x00\xc1", b"\x00\xc1junk", b"\x00\xc1" + b"\x00" * 40, SAMPLES["executing"][:40]], ids=repr
)
def test_p4_13_a_record_that_cannot_be_read_is_no_record_that_is_absent(payload: bytes) -> None:
    """4.13: as good as no ledger."""
    with pytest.raises(codec.UnknownFormat):
        codec.effect_of(codec.Stored(b"v" * 8, 1, payload))


def test_p9_4_a_deflated_record_opens_into_no_more_than_was_ever_deflated() -> None:
    """9.4"""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -12)
    bomb = b"\x00\xc1" + deflater.compress(b"\x00" * 50_000_000) + deflater.flush()
    with pytest.raises(codec.UnknownFormat):
        codec.effect_of(codec.Stored(b"v" * 8, 1, bomb))


@given(st.lists(KNOWN, max_size=4, unique_by=lambda k: k.effect), st.data())
def test_p4_13_the_identical_calls_are_read_as_they_were(known: list[Known], data: st.DataObject) -> None:
    """4.13, 2.4"""
    effects = st.sampled_from([k.effect for k in known]) | IDS if known else IDS
    turns = st.sampled_from([f"t{k.turn}" for k in known]) | PLACES if known else PLACES
    taken = data.draw(st.lists(st.builds(Taken, turns, st.integers(1, 3), st.integers(0, 3), effects), max_size=5))
    slot = PrintSlot(tuple(known), tuple(taken))
    assert packing.unpack_identical(packing.pack_identical(slot)) == slot


@given(st.lists(KNOWN, max_size=4, unique_by=lambda k: k.effect), st.integers(0, 2**42))
def test_p4_9_the_identical_calls_keep_their_order_and_when_each_was_last_touched(known: list[Known], now: int) -> None:
    """4.9: the latest of these is found again, read by read; what was written last counts as of that write."""
    slot = PrintSlot(tuple(known))
    stored = codec.Stored(b"v" * 8, now, codec.identical_payload(slot))
    read = codec.identical_of(stored)
    assert [k.effect for k in read.known] == [k.effect for k in known]
    assert [k.at for k in read.known] == [now if k.at is None else k.at for k in known]
    later = codec.Stored(b"w" * 8, now + 1, codec.identical_payload(read))
    assert codec.identical_of(later) == read


@given(st.lists(st.tuples(TEXT, st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=7))
def test_p4_13_an_ids_calls_are_read_as_they_were(calls: list[tuple[str, int, bool, bool]]) -> None:
    """4.13, 2.3: some as their records say, some of another place, those not pointed to in full."""
    bindings, records = [], {}
    for number, (turn, step, recorded, open_) in enumerate(calls):
        effect = _effect(effect_id=bytes([number]) * 32, turn=turn, step=step)
        records[effect.effect_id] = effect
        place = turn if recorded else f"{turn}!"
        bindings.append(Binding(effect.effect_id, effect.fingerprint, place, step, 1, open_))
    payload = codec.slot_payload(CallSlot(tuple(bindings)), records)
    stored = codec.Stored(b"v" * 8, 1, payload)
    by_prefix = {id_[:16]: effect for id_, effect in records.items()}
    assert {*codec.pointers_of(stored)} <= {*by_prefix}
    assert codec.slot_of(stored, by_prefix) == CallSlot(tuple(bindings))


EFFECTS = [
    _effect(effect_id=bytes([n]) * 16 + bytes([n + m]) * 16, turn=turn, step=step, attempt=attempt)
    for n, (m, turn, step, attempt) in enumerate([(0, None, None, 1), (1, "t", None, 1), (0, "t", 1, 2), (7, "", 0, 1)])
]
BINDINGS = st.builds(
    Binding,
    st.sampled_from([e.effect_id for e in EFFECTS]) | IDS,
    st.sampled_from([EFFECTS[0].fingerprint, b"f" * 32]),
    st.none() | st.sampled_from(["t", "", "u"]),
    st.none() | st.integers(0, 2),
    st.none() | st.integers(1, 2),
    st.booleans(),
)


@given(st.lists(BINDINGS | st.sampled_from(EFFECTS), min_size=1, max_size=9), st.sets(st.sampled_from(range(4))))
def test_p2_3_an_ids_calls_are_read_as_they_were_wherever_they_stood(
    calls: list[Binding | Effect], gone: set[int]
) -> None:
    """4.13, 2.3: several of one effect, some as its record says and some of elsewhere; some whose record was not there
    when they were written."""
    slot = CallSlot(
        tuple(
            Binding(c.effect_id, c.fingerprint, c.place.turn, c.place.step, c.place.attempt, True)
            if isinstance(c, Effect)
            else c
            for c in calls
        )
    )
    records = {e.effect_id: e for n, e in enumerate(EFFECTS) if n not in gone}
    stored = codec.Stored(b"v" * 8, 1, codec.slot_payload(slot, records))
    read = dict.fromkeys(codec.pointers_of(stored)) | {id_[:16]: e for id_, e in records.items()}
    assert codec.slot_of(stored, read) == slot


def test_p2_1_what_an_id_points_to_and_is_gone_names_nothing() -> None:
    """2.1, 4.13: the record's retention is over, the slot's is not."""
    effect = _effect()
    slot = CallSlot((Binding(effect.effect_id, effect.fingerprint, "t-1", 1, 1, False),))
    stored = codec.Stored(b"v" * 8, 1, codec.slot_payload(slot, {effect.effect_id: effect}))
    assert codec.slot_of(stored, {effect.effect_id[:16]: None}) == CallSlot()


SAYINGS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from([name for name in packing.SAID if name not in ("kind", "lease_s")]) | TEXT
SAID = st.builds(
    lambda said, kind, lease: said | kind | lease,
    st.dictionaries(NAMES.filter(lambda name: name not in ("kind", "lease_s")), SAYINGS, max_size=4),
    st.just({}) | st.fixed_dictionaries({"kind": st.sampled_from(packing.KINDS) | TEXT}),
    st.just({}) | st.fixed_dictionaries({"lease_s": st.floats(0, 2**30)}),
)
EVENTS = st.builds(
    Event,
    st.sampled_from(list(EVENT_TYPES)),
    st.none() | st.sampled_from([e.effect_id for e in EFFECTS]),
    SAID,
)


@given(st.lists(st.lists(EVENTS, min_size=1, max_size=4), max_size=5))
async def test_p7_6_whatever_an_event_says_is_read_as_it_was(batches: list[list[Event]]) -> None:
    """7.6, 4.13: known words and others, and every kind of value; the type of a value stays too."""
    together = [[Event("effect.proposed", effect.effect_id)] for effect in EFFECTS] + batches
    lines = [line for batch in together for line in codec.event_lines(batch)]

    async def read(start: int, number: int) -> list[bytes]:
        return [b"\x00" * 6 + line for line in lines[start : start + number]]

    found = [logged.event for logged in await read_events(read, 0, 1_000)]
    written = [event for batch in together for event in batch]
    assert found == written
    assert [repr(event.data) for event in found] == [repr(event.data) for event in written]


async def test_p7_6_events_have_their_whole_ids_on_every_page() -> None:
    """7.6: whatever page is asked for, also one that begins in the middle of what was written together."""
    written: list[Event] = []
    lines: list[bytes] = []
    for number in range(400):
        effect = bytes([number % 256, number // 256]) * 16
        together = (
            Event("effect.proposed", effect, {"target": "place_order"}),
            Event("effect.allowed", effect),
            Event("effect.executing", effect, {"lease_s": 1.5}),
        )
        lines += codec.event_lines(together)
        written += together
    ends = [Event("effect.succeeded", written[3 * number].effect_id) for number in range(400)]
    for end in (*ends, Event("effect.denied", None, {"code": "step_limit"})):
        lines += codec.event_lines([end])
        written.append(end)

    async def read(start: int, number: int) -> list[bytes]:
        return [b"\x00" * 6 + line for line in lines[start : start + number]]

    for after, limit in [(0, 10_000), (0, 1), (1, 1), (2, 5), (1_199, 3), (1_201, 2), (1_600, 10), (5_000, 3)]:
        found = await read_events(read, after, limit)
        assert [logged.event for logged in found] == written[after : after + limit]
        assert [logged.seq for logged in found] == [*range(after + 1, after + 1 + len(found))]
