"""The table of states and moves, and the record that makes them (promises 4.1, 4.5, 4.13)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import msgspec
import pytest

from gateway.core.identity import Kind, Place
from gateway.core.record import (
    FORMAT,
    SETTLED,
    TRANSITIONS,
    UNENDING,
    Effect,
    ImpossibleMove,
    Mode,
    Move,
    Status,
    check_move,
    moved,
)

S, M = Status, Move

# The table of 4.1, cell by cell as the semantics word it; what stands as "(nothing changes)" there is the state itself.
PROMISED = {
    (S.ABSENT, M.CLAIM): {S.EXECUTING, S.AWAITING_APPROVAL},
    (S.ABSENT, M.SETTLE): {S.SUCCEEDED},  # a resolved absence, by 4.4
    (S.AWAITING_APPROVAL, M.CLAIM): {S.AWAITING_APPROVAL, S.EXECUTING},
    (S.AWAITING_APPROVAL, M.GRANT): {S.EXECUTING, S.AWAITING_APPROVAL},
    (S.AWAITING_APPROVAL, M.REFUSE): {S.DENIED},
    (S.AWAITING_APPROVAL, M.EXPIRE): {S.DENIED},
    (S.EXECUTING, M.CLAIM): {S.EXECUTING},
    (S.EXECUTING, M.SETTLE): {S.SUCCEEDED, S.FAILED},
    (S.EXECUTING, M.RELEASE): {S.ABSENT, S.INDETERMINATE},
    (S.EXECUTING, M.LOST): {S.INDETERMINATE},
    (S.INDETERMINATE, M.CLAIM): {S.INDETERMINATE, S.EXECUTING},
    (S.INDETERMINATE, M.SETTLE): {S.SUCCEEDED, S.FAILED},
    (S.INDETERMINATE, M.RELEASE): {S.ABSENT},
    (S.INDETERMINATE, M.RESOLVE): {S.SUCCEEDED, S.FAILED, S.ABSENT},
    **{(status, move): {status} for status in (S.SUCCEEDED, S.FAILED, S.DENIED) for move in (M.CLAIM, M.SETTLE)},
}
CELLS = [(before, move, after) for before in Status for move in Move for after in Status]


def effect(status, **fields):
    return Effect(
        format=FORMAT,
        effect_id=b"e" * 32,
        company="acme",
        conversation="c-1",
        kind=Kind.TOOL_CALL,
        target="place_order",
        fingerprint=b"f" * 32,
        tool_call_id="call_1",
        turn=None,
        step=None,
        attempt=1,
        occurrence=0,
        fields={},
        mode=Mode.AT_MOST_ONCE,
        tool_version=1,
        endpoint="https://shop.example/tools",
        status=status,
        **fields,
    )


@pytest.mark.parametrize(("before", "move", "after"), CELLS)
def test_p4_1_a_move_is_made_where_the_table_has_it_and_refused_elsewhere(before, move, after):
    """4.1: a missing cell is an error."""
    if after in PROMISED.get((before, move), set()):
        check_move(before, move, after)
        assert moved(effect(before), move, after).status is after
    else:
        with pytest.raises(ImpossibleMove, match=f"{before} does not become {after} by {move}"):
            moved(effect(before), move, after)


def test_p4_1_settle_resolve_and_release_are_the_only_ways_out_of_executing_and_unknown():
    """4.1: nothing that is settled changes, and a claim never leads from unknown to settled."""
    for status in SETTLED:
        assert set().union(*TRANSITIONS[status].values()) == {status}
    assert not TRANSITIONS[S.INDETERMINATE][M.CLAIM] & SETTLED
    assert not TRANSITIONS[S.EXECUTING][M.LOST] & SETTLED


def test_p4_13_what_ends_by_itself_and_what_never_does():
    """4.13"""
    assert {S.EXECUTING, S.INDETERMINATE} == UNENDING
    assert {S.SUCCEEDED, S.FAILED, S.DENIED} == SETTLED


def test_p4_1_the_drawing_in_the_docs_is_what_the_table_says():
    """4.1: the docs' drawing is generated from the table (run docs/draw_states.py)."""
    script = Path(__file__).parents[2] / "docs" / "draw_states.py"
    spec = importlib.util.spec_from_file_location("draw_states", script)
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    assert draw.PAGE.read_text(encoding="utf-8") == draw.drawing()
    for before, moves in TRANSITIONS.items():
        assert all(f"{before.value} --> {after.value}" in draw.drawing() for a in moves.values() for after in a)


@pytest.mark.parametrize(
    ("status", "claimed_at", "now", "lapsed"),
    [
        (S.EXECUTING, 1_000, 5_999, False),
        (S.EXECUTING, 1_000, 6_000, True),
        (S.EXECUTING, None, 9_999_999, False),
        (S.INDETERMINATE, 1_000, 6_000, False),
        (S.SUCCEEDED, 1_000, 6_000, False),
    ],
)
def test_p4_5_a_lease_lapses_by_the_ledgers_clock(status, claimed_at, now, lapsed):
    """4.5"""
    assert effect(status, lease_ms=5_000, claimed_at=claimed_at).lapsed(now) is lapsed


def test_p4_13_an_older_record_is_read_and_what_it_lacks_is_left_out():
    """4.13: a record written before its later fields existed."""
    older = msgspec.msgpack.encode(msgspec.to_builtins(effect(S.SUCCEEDED), builtin_types=(bytes,))[:17])
    assert msgspec.msgpack.decode(older, type=Effect) == effect(S.SUCCEEDED)


def test_an_effect_shows_its_id_as_the_wire_does_and_its_place():
    record = effect(S.EXECUTING)
    assert record.hex == "65" * 32
    assert record.place.attempt is None
    assert msgspec.structs.replace(record, turn="t-1", step=2).place == Place("t-1", 2, 1)
