"""Argument values marked `x-sensitive` are masked, whatever the schema looks like (9.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.masking import MASK, hidden_at, marks_any, masked

S = {"x-sensitive": True}
TOKEN = "s3cr3t"

CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "a field": ({"properties": {"pin": S}}, {"pin": TOKEN, "a": 1}, {"pin": MASK, "a": 1}),
    "nested": ({"properties": {"card": {"properties": {"no": S}}}}, {"card": {"no": 4}}, {"card": {"no": MASK}}),
    "a whole object": ({"properties": {"card": S}}, {"card": {"no": TOKEN}}, {"card": MASK}),
    "items": ({"properties": {"l": {"items": S}}}, {"l": [TOKEN, 2]}, {"l": [MASK, MASK]}),
    "a first item": ({"properties": {"l": {"prefixItems": [S]}}}, {"l": [TOKEN, 2]}, {"l": [MASK, 2]}),
    "$ref": ({"$defs": {"p": S}, "properties": {"a": {"$ref": "#/$defs/p"}}}, {"a": TOKEN}, {"a": MASK}),
    "$ref to itself": (
        {"properties": {"next": {"$ref": "#"}, "pin": S}},
        {"next": {"next": {"pin": TOKEN}}},
        {"next": {"next": {"pin": MASK}}},
    ),
    "one of many": ({"properties": {"a": {"anyOf": [{"type": "null"}, S]}}}, {"a": TOKEN}, {"a": MASK}),
    "if and else": ({"if": {}, "else": {"properties": {"a": S}}}, {"a": TOKEN}, {"a": MASK}),
    "not": ({"not": {"properties": {"a": S}}}, {"a": TOKEN}, {"a": MASK}),
    "if itself": ({"if": {"properties": {"a": S}}}, {"a": TOKEN}, {"a": MASK}),
    "then": ({"if": {}, "then": {"properties": {"a": S}}}, {"a": TOKEN}, {"a": MASK}),
    "all of": ({"properties": {"a": {"allOf": [{}, S]}}}, {"a": TOKEN}, {"a": MASK}),
    "exactly one of": ({"properties": {"a": {"oneOf": [{}, S]}}}, {"a": TOKEN}, {"a": MASK}),
    "fields that nothing else judges": ({"unevaluatedProperties": S}, {"a": TOKEN}, {"a": MASK}),
    "items that nothing else judges": ({"properties": {"l": {"unevaluatedItems": S}}}, {"l": [TOKEN]}, {"l": [MASK]}),
    "some item": ({"properties": {"l": {"contains": S}}}, {"l": [TOKEN, 1]}, {"l": [MASK, MASK]}),
    "lists in lists": ({"properties": {"l": {"items": {"items": S}}}}, {"l": [[TOKEN], []]}, {"l": [[MASK], []]}),
    "objects in lists": (
        {"properties": {"l": {"items": {"properties": {"pin": S}}}}},
        {"l": [{"pin": TOKEN, "a": 1}]},
        {"l": [{"pin": MASK, "a": 1}]},
    ),
    "$ref to $ref": (
        {"$defs": {"p": {"$ref": "#/$defs/q"}, "q": S}, "properties": {"a": {"$ref": "#/$defs/p"}}},
        {"a": TOKEN},
        {"a": MASK},
    ),
    "$ref of items": (
        {"$defs": {"p": {"properties": {"pin": S}}}, "properties": {"l": {"items": {"$ref": "#/$defs/p"}}}},
        {"l": [{"pin": TOKEN}]},
        {"l": [{"pin": MASK}]},
    ),
    "a $ref in a form that the value has not": (
        {"$defs": {"p": S}, "properties": {"a": {"items": {"$ref": "#/$defs/p"}}}},
        {"a": {"b": TOKEN}},
        {"a": MASK},
    ),
    **{
        f"{key} of what is no object": ({"properties": {"a": {key: below}}}, {"a": [TOKEN]}, {"a": MASK})
        for key, below in {
            "properties": {"pin": S},
            "patternProperties": {"pin": S},
            "propertyNames": S,
            "additionalProperties": S,
            "unevaluatedProperties": S,
        }.items()
    },
    **{
        f"{key} of what is no list": ({"properties": {"a": {key: below}}}, {"a": {"b": TOKEN}}, {"a": MASK})
        for key, below in {"prefixItems": [S], "items": S, "unevaluatedItems": S, "contains": S}.items()
    },
    "dependent": ({"dependentSchemas": {"b": {"properties": {"a": S}}}}, {"a": TOKEN}, {"a": MASK}),
    "other fields": ({"additionalProperties": S, "properties": {}}, {"a": TOKEN}, {"a": MASK}),
    "a plain pattern": ({"patternProperties": {"^pin": S}}, {"pin2": TOKEN, "a": 1}, {"pin2": MASK, "a": 1}),
    "a pattern not run": ({"patternProperties": {"(a+)+$": S}}, {"b": TOKEN}, {"b": MASK}),
    "names": ({"propertyNames": S}, {TOKEN: 1}, MASK),
    "a text with a document": (
        {"properties": {"doc": {"contentSchema": {"properties": {"pin": S}}}}},
        {"doc": '{"pin": "s3cr3t"}'},
        {"doc": MASK},
    ),
    "all of it": (S, {"a": TOKEN}, MASK),
    "marked false": ({"properties": {"a": {"x-sensitive": False}}}, {"a": 1}, {"a": 1}),
    "a reference to nothing": ({"properties": {"a": {"$ref": "#/nowhere"}}}, {"a": 1}, {"a": 1}),
}


@pytest.mark.parametrize(("schema", "value", "shown"), CASES.values(), ids=CASES)
def test_p9_3_marked_values_are_masked(schema: dict[str, Any], value: Any, shown: Any) -> None:
    assert masked(schema, value) == shown
    assert marks_any(schema) == (shown != value)


HIDDEN: dict[str, tuple[dict[str, Any], list[str | int], int | None]] = {
    "a field": ({"properties": {"pin": S}}, ["pin"], 1),
    "its neighbour": ({"properties": {"pin": S}}, ["a"], None),
    "nested": ({"properties": {"card": {"properties": {"no": S}}}}, ["card", "no"], 2),
    "under one": ({"properties": {"card": S}}, ["card", "no", 0], 1),
    "above one": ({"properties": {"card": {"properties": {"no": S}}}}, ["card"], None),
    "an item": ({"properties": {"l": {"items": S}}}, ["l", 3], 2),
    "the first item": ({"properties": {"l": {"prefixItems": [S]}}}, ["l", 0], 2),
    "the second of them": ({"properties": {"l": {"prefixItems": [S]}}}, ["l", 1], None),
    "$ref": ({"$defs": {"p": S}, "properties": {"a": {"$ref": "#/$defs/p"}}}, ["a"], 1),
    "$ref of items": ({"$defs": {"p": {"items": S}}, "properties": {"a": {"$ref": "#/$defs/p"}}}, ["a", 0], 2),
    "names": ({"properties": {"a": {"propertyNames": S}}}, ["a", TOKEN], 1),
    "names by $ref": ({"$defs": {"p": S}, "propertyNames": {"$ref": "#/$defs/p"}}, [TOKEN], 0),
    "all of it": (S, ["a"], 0),
    "all of it, itself": (S, [], 0),
    "nothing": ({"properties": {"a": {}}}, ["a", 0, "b"], None),
}


@pytest.mark.parametrize(("schema", "path", "depth"), HIDDEN.values(), ids=HIDDEN)
def test_p9_3_a_problem_is_told_from_the_outermost_sensitive_place_on(
    schema: dict[str, Any], path: list[str | int], depth: int | None
) -> None:
    assert hidden_at(schema, path) == depth


def test_p9_3_what_was_given_stays_as_it_is() -> None:
    """It is still to be sent to the merchant."""
    given_ = {"a": {"pin": TOKEN}}
    masked({"properties": {"a": {"properties": {"pin": S}}}}, given_)
    assert given_ == {"a": {"pin": TOKEN}}


def test_p9_3_a_value_too_large_to_be_looked_through_is_masked_rather_than_shown() -> None:
    shown = masked({"properties": {"l": {"items": {"properties": {"pin": S}}}}}, {"l": [{"pin": TOKEN}] * 60_000})
    assert TOKEN not in json.dumps(shown)


NAMES = st.sampled_from(["a", "b", "c"])
PLACES = st.lists(st.one_of(NAMES, st.integers(0, 2)), min_size=1, max_size=4)
HIDES = ("plain", "anyOf", "oneOf", "allOf", "if", "then", "else", "not", "$ref", "dependentSchemas")


@given(PLACES, st.lists(st.sampled_from(HIDES), min_size=5, max_size=5), st.data())
def test_p9_3_a_sensitive_value_never_shows_wherever_it_lies(place: list[Any], hides: list[str], data: Any) -> None:
    """The place is reached through combinators and references at random, amid values that are not sensitive."""
    defs: dict[str, Any] = {}

    def wrapped(schema: dict[str, Any], how: str) -> dict[str, Any]:
        if how == "plain":
            return schema
        if how == "$ref":
            name = f"d{len(defs)}"
            defs[name] = schema
            return {"$ref": f"#/$defs/{name}"}
        if how == "dependentSchemas":
            return {how: {"x": schema}}
        return {how: [{"type": "string"}, schema] if how.endswith("Of") else schema}

    schema, value = wrapped({"x-sensitive": True}, hides[-1]), data.draw(st.sampled_from([TOKEN, {TOKEN: 1}, [TOKEN]]))
    for word, how in zip(reversed(place), hides, strict=False):
        if isinstance(word, str):
            keyword = data.draw(st.sampled_from(["properties", "additionalProperties", "patternProperties"]))
            part = {"properties": {word: schema}, "patternProperties": {f"^{word}$": schema}}.get(keyword, schema)
            schema, value = {keyword: part}, {"z": "shown", word: value}
        else:
            part = [{}] * word + [schema]
            schema = data.draw(st.sampled_from([{"prefixItems": part}, {"items": schema}]))
            value = [*(["shown"] * word), value]
        schema = wrapped(schema, how)
    assert TOKEN not in json.dumps(masked({**schema, "$defs": defs}, value))
