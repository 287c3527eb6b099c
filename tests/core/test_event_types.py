"""The closed taxonomy of the event log (7.6)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.adapters import ledger_packing as packing
from gateway.core.conversation import Event
from gateway.core.event_types import EVENT_TYPES, unlisted
from gateway.core.explain_texts import TEXTS

GATEWAY = Path(__file__).parents[2] / "gateway"

PROMISED = [
    "effect.proposed",
    ".allowed",
    ".denied",
    ".rate_limited",
    ".awaiting_approval",
    ".executing",
    ".renewed",
    ".succeeded",
    ".failed",
    ".indeterminate",
    ".released",
    ".resolved",
    ".conflict",
    ".replayed",
    "approval.requested",
    ".granted",
    ".denied",
    ".expired",
    ".used",
    "tool.registered",
    ".removed",
]


def promised() -> Iterator[str]:
    group = ""
    for name in PROMISED:
        group = group if name.startswith(".") else name.partition(".")[0]
        yield group + name if name.startswith(".") else name


def test_p7_6_the_types_are_those_of_the_promise() -> None:
    assert list(EVENT_TYPES) == list(promised())


@pytest.mark.parametrize("type_", ["effect.paid", "effect.", "", "tool.registered "])
def test_p7_6_a_type_that_is_not_listed_cannot_be_written(type_: str) -> None:
    with pytest.raises(KeyError):
        packing.pack_events([Event(type_, None, {})])


@pytest.mark.parametrize("type_", EVENT_TYPES)
def test_p7_6_every_type_can_be_written_with_all_it_may_say(type_: str) -> None:
    event = Event(type_, b"e" * 32, dict.fromkeys(EVENT_TYPES[type_].said, "x"))
    (line,) = packing.pack_events([event])
    unpacked, _, data = packing.unpack_event(line)
    assert unpacked == type_
    assert data == event.data


def test_p7_6_what_explains_a_call_knows_every_type_of_effects_and_approvals() -> None:
    assert set(TEXTS) == {type_ for type_ in EVENT_TYPES if not type_.startswith("tool.")}


def test_p7_6_what_is_said_beyond_the_table_is_named() -> None:
    assert unlisted("effect.executing", {"lease_s": 1.0, "arguments": {}}) == ["effect.executing: arguments"]
    assert unlisted("effect.paid", {}) == ["effect.paid"]


def test_p7_6_every_type_written_in_the_code_is_listed() -> None:
    """A type that is misspelt would be found only when its moment comes."""
    found = set[str]()
    for file in sorted(GATEWAY.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Event" and node.args:
                first = node.args[0]
                found |= {first.value} if isinstance(first, ast.Constant) else set()
    assert len(found) > 10
    assert found <= set(EVENT_TYPES)
