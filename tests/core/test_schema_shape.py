"""What a tool's parameters may be made of: nothing fetched, nothing endless, nothing that multiplies."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.schema_shape import DIALECT, MAX_BYTES, shape_problems, visits


def chain(length: int, times: int) -> dict[str, Any]:
    """Definitions that each name the next one several times."""
    links = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * times} for n in range(length)}
    return {"$ref": "#/$defs/a0", "$defs": {**links, f"a{length}": {"type": "object"}}}


FINE: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"type": ["object", "null"], "$schema": DIALECT},
    {"properties": {"child": {"$ref": "#"}}},
    {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
    {"properties": {"a": {"$ref": "#/$defs/n~1m"}}, "$defs": {"n/m": {"items": {"$ref": "#/$defs/n~1m"}}}},
    {"properties": {"a": {"enum": [{"$ref": "http://x"}]}}},
    {"properties": {"a": {"$ref": "#/allOf/0"}}, "allOf": [{"type": "object"}]},
    chain(10, 2),
]


@pytest.mark.parametrize("schema", FINE)
def test_ordinary_schemas_have_a_good_shape(schema: dict[str, Any]) -> None:
    assert shape_problems(schema) == []


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "http://127.0.0.1/x"}, "/$ref"),
        ({"$ref": "file:///etc/passwd"}, "/$ref"),
        ({"$ref": "other.json"}, "/$ref"),
        ({"$ref": "#named"}, "/$ref"),
        ({"$ref": "#/nothing"}, "/$ref"),
        ({"$ref": "#/allOf/7", "allOf": [{}]}, "/$ref"),
        ({"$ref": 3}, "/$ref"),
        ({"properties": {"a/b": {"items": {"$ref": "x"}}}}, "/properties/a~1b/items/$ref"),
        ({"$ref": "#/hidden", "hidden": {"not": {"$ref": "http://x"}}}, "/hidden/not/$ref"),
        ({"$ref": "#/hidden", "hidden": {"$dynamicRef": "#x"}}, "/hidden/$dynamicRef"),
        ({"$id": "https://x/"}, "/$id"),
        ({"properties": {"a": {"$id": "https://x/"}}}, "/properties/a/$id"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema"),
        ({"type": "array"}, "/type"),
        ({"type": ["string", "null"]}, "/type"),
        ({"description": "x" * MAX_BYTES}, ""),
        (nested(40), ""),
        ({"$ref": "#"}, ""),
        ({"allOf": [{"$ref": "#"}]}, ""),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, ""),
        (chain(40, 2), ""),
        (chain(6, 9), ""),
    ],
)
def test_k6_14_a_schema_that_fetches_recurs_or_explodes_is_refused_by_place(
    schema: dict[str, Any], pointer: str
) -> None:
    """K6-14: a self-referencing $ref or deep nesting is a clear refusal, never a crash."""
    assert [place for place, _ in shape_problems(schema)] == [pointer]


MARK: dict[str, Any] = {"x-sensitive": True}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"card": {"x-sensitive": "true"}}}, "/properties/card/x-sensitive"),
        ({"properties": {"card": {"x-sensitive": 1}}}, "/properties/card/x-sensitive"),
        ({"x-sensitive": None}, "/x-sensitive"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"x-sensitive": []}}}}, "/$defs/a/items/x-sensitive"),
        ({"properties": {"card": {}, **MARK}}, "/properties/x-sensitive"),
        ({"properties": {"cards": {"additionalItems": MARK}}}, "/properties/cards/additionalItems/x-sensitive"),
        ({"dependencies": {"a": {"properties": {"card": MARK}}}}, "/dependencies/a/properties/card/x-sensitive"),
        ({"allOf": {"a~b": MARK}}, "/allOf/a~0b/x-sensitive"),
        ({"properties": {"card": [{}, MARK]}}, "/properties/card/1/x-sensitive"),
    ],
)
def test_p9_3_a_mark_that_would_hide_nothing_is_refused_by_place(schema: dict[str, Any], pointer: str) -> None:
    """9.3: whoever marks a value takes it for hidden from then on."""
    assert [place for place, _ in shape_problems(schema)] == [pointer]


@pytest.mark.parametrize(
    "schema",
    [
        MARK,
        {"properties": {"card": {"x-sensitive": False}}},
        {"properties": {"card": MARK, "x-sensitive": {"type": "string"}}},
        {"properties": {"card": {"$ref": "#/parts/card"}}, "parts": {"card": MARK}},
        {"properties": {"card": {"items": {"anyOf": [MARK, {"not": MARK}]}}}},
        {"properties": {"a": {"enum": [MARK], "default": MARK, "examples": [MARK], "const": MARK}}},
        {"$defs": {"unused": {"x-sensitive": True}}},
    ],
)
def test_p9_3_a_mark_where_it_hides_something_is_none_of_the_shapes_business(schema: dict[str, Any]) -> None:
    """9.3: also where a property is called like that, and where one is only a value."""
    assert shape_problems(schema) == []


def test_visits_count_what_a_value_nested_so_deep_may_cause() -> None:
    assert visits({"properties": {"a": {}, "b": {}}})[:3] == (1, 2, 2)
    assert visits({"properties": {"a": {"$ref": "#"}}})[:4] == (1, 3, 5, 7)
    doubling = visits({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}})
    assert doubling[10] > 2**10
    assert doubling[64] >= 1_000_000_000
