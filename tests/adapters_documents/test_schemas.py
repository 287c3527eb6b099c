"""Arguments against a tool's parameters: every problem named, no value repeated, nothing fetched, work bounded."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from gateway.adapters.schemas import MOST_PROBLEMS, Schemas
from gateway.core.model import Tool
from heuristics import Verdict

CANARY = "4111-CANARY"
VERDICT = Verdict(True, "tool", "", None)


def tool(parameters: dict[str, Any], *, name: str = "t", version: int = 1) -> Tool:
    return Tool("acme", name, version, "https://shop.example/", VERDICT, parameters=parameters)


ORDER = {
    "type": "object",
    "required": ["address", "items"],
    "additionalProperties": False,
    "properties": {
        "address": {"type": "string", "minLength": 3},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"qty": {"type": "integer", "minimum": 1}}},
        },
    },
}


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ({"address": "Kochi", "items": []}, []),
        ({"address": "Kochi", "items": [{"qty": 1}]}, []),
        ({}, [("/arguments/address", "is required"), ("/arguments/items", "is required")]),
        ({"address": 1, "items": []}, [("/arguments/address", 'is not of type "string"')]),
        ({"address": "Kochi", "items": [{"qty": 0}]}, [("/arguments/items/0/qty", "is less than the minimum of 1")]),
        ({"address": "Kochi", "items": [], "a/b": 1}, [("/arguments/a~1b", "is not a field of this tool")]),
    ],
)
def test_every_problem_is_named_by_field(value: Any, problems: list[tuple[str, str]]) -> None:
    """Bad input: 422 that names the field."""
    found = Schemas().problems(tool(ORDER), value)
    assert sorted((each["field"], each["problem"]) for each in found) == problems


KEYWORDS: list[dict[str, Any]] = [
    {"type": "integer"},
    {"enum": ["a", "b"]},
    {"const": "a"},
    {"pattern": "^x$"},
    {"maxLength": 2},
    {"minLength": 99},
    {"not": {"type": "string"}},
    {"anyOf": [{"type": "integer"}, {"maxLength": 1}]},
    {"oneOf": [{"type": "string"}, {"minLength": 1}]},
    {"allOf": [{"maxLength": 2}]},
    {"if": {"type": "string"}, "then": {"maxLength": 2}},
    {"if": {"type": "integer"}, "else": {"maxLength": 2}},
    {"$ref": "#/$defs/short"},
    {"pattern": "^(?=(a+)+b)x"},
]


@pytest.mark.parametrize("keyword", KEYWORDS)
@pytest.mark.parametrize("sensitive", [False, True])
def test_k6_10_p9_3_no_message_repeats_a_value(keyword: dict[str, Any], sensitive: bool) -> None:
    """K6-10, 9.3: whatever a schema says, a card number that breaks it is not in the answer."""
    field = {**keyword, "x-sensitive": True} if sensitive else keyword
    defs = {"$defs": {"short": {"maxLength": 2}}}
    schemas = Schemas()
    for parameters, value in (
        ({"properties": {"card": field}, **defs}, {"card": CANARY}),
        ({"properties": {"cards": {"items": field}}, **defs}, {"cards": [CANARY]}),
        ({"properties": {"cards": {"prefixItems": [field]}}, **defs}, {"cards": [CANARY]}),
        ({"properties": {"cards": {"uniqueItems": True, "x-sensitive": sensitive}}}, {"cards": [CANARY, CANARY]}),
        ({"properties": {"cards": {"contains": {"type": "integer"}}}}, {"cards": [CANARY]}),
        ({"properties": {"cards": {"prefixItems": [True], "items": False}}}, {"cards": [1, CANARY]}),
        ({"properties": {"cards": {"prefixItems": [True], "unevaluatedItems": False}}}, {"cards": [1, CANARY]}),
        ({"additionalProperties": field, **defs}, {"card": CANARY}),
        ({"patternProperties": {"^c": field}, **defs}, {"card": CANARY}),
        ({"dependentSchemas": {"card": {"properties": {"card": field}}}, **defs}, {"card": CANARY}),
    ):
        found = schemas.problems(tool(parameters, name=str(parameters)), value)
        assert found
        assert CANARY not in str(found)


@pytest.mark.parametrize(
    ("parameters", "value", "field"),
    [
        ({"properties": {"pay": {"x-sensitive": True, "additionalProperties": False}}}, {"pay": {CANARY: 1}}, "/pay"),
        ({"properties": {"pay": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"x-sensitive": True, "additionalProperties": {"type": "null"}}}}, {"pay": {CANARY: 1}}, "/pay"),
        ({"properties": {"pay": {"x-sensitive": True, "propertyNames": {"maxLength": 1}}}}, {"pay": {CANARY: 1}}, "/pay"),
        ({"properties": {"pay": {"items": {"x-sensitive": True, "properties": {"n": {"type": "null"}}}}}}, {"pay": [{}, {"n": CANARY}]}, "/pay/1"),
        ({"allOf": [{"properties": {"pay": {"x-sensitive": True, "patternProperties": {"": {"type": "null"}}}}}]}, {"pay": {CANARY: 1}}, "/pay"),
        ({"properties": {"pay": {"allOf": [{"additionalProperties": False}, {"x-sensitive": True}]}}}, {"pay": {CANARY: 1}}, "/pay"),
    ],
)  # fmt: skip
def test_p9_3_below_a_sensitive_field_even_names_are_hidden(parameters: dict[str, Any], value: Any, field: str) -> None:
    """9.3: the field itself is named, nothing below it."""
    found = Schemas().problems(tool(parameters), value)
    assert [each["field"] for each in found] == ["/arguments" + field]
    assert "sensitive" in found[0]["problem"]
    assert CANARY not in str(found)


def test_problems_and_their_texts_are_bounded() -> None:
    value = {"x" * 5_000 + str(number): number for number in range(500)}
    found = Schemas().problems(tool({"additionalProperties": False}), value)
    assert len(found) == MOST_PROBLEMS
    assert len(str(found)) < MOST_PROBLEMS * 400


def test_numbers_beyond_64_bits_are_checked_exactly() -> None:
    """2.10: neighbours beyond 2^53 are two numbers, for a schema as well."""
    parameters = {"properties": {"n": {"type": "integer", "maximum": 2**70}}}
    assert Schemas().problems(tool(parameters), {"n": 2**70}) == []
    assert len(Schemas().problems(tool(parameters), {"n": 2**70 + 1})) == 1
    assert Schemas().problems(tool({"properties": {"n": {"type": "integer"}}}), {"n": 10**999}) == []


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"properties": {"a": {"type": "int"}}}, "/parameters/properties/a/type"),
        ({"properties": {"a": 5}}, "/parameters/properties/a"),
        ({"required": "a"}, "/parameters/required"),
        ({"properties": {"a": {"pattern": "("}}}, "/parameters/properties/a/pattern"),
        ({"properties": {"a": {"minLength": -1}}}, "/parameters/properties/a/minLength"),
        ({"$ref": "https://127.0.0.1:1/s"}, "/parameters/$ref"),
    ],
)
def test_a_schema_that_is_none_is_refused_by_place(parameters: dict[str, Any], field: str) -> None:
    """3.5: parameters are JSON Schema 2020-12, checked when they are registered."""
    assert [each["field"] for each in Schemas().schema_problems(parameters)] == [field]


def test_k6_14_a_schema_that_refers_to_itself_through_its_fields_works() -> None:
    """K6-14: ordinary recursion is fine."""
    tree = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}},
        "additionalProperties": False,
    }
    schemas = Schemas()
    assert schemas.schema_problems(tree) == []
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"left": value, "right": {}}
    assert schemas.problems(tool(tree), value) == []
    assert schemas.problems(tool(tree), {"left": {"right": {"up": 1}}})[0]["field"] == "/arguments/left/right/up"


def test_nothing_is_ever_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """9.2: a schema reaches no network, whatever it points at, wherever the pointer hides."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/s"
        for parameters in (
            {"$ref": url},
            {"$schema": url},
            {"$id": url, "$ref": "x"},
            {"properties": {"a": {"$ref": url}}},
            {"$ref": "#/hidden", "hidden": {"$ref": url}},
            {"$dynamicRef": url},
        ):
            assert Schemas().schema_problems(parameters)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_k6_14_a_schema_that_multiplies_with_depth_is_not_followed_into_deep_arguments() -> None:
    """K6-14, 9.4: checked while that is cheap, refused in words when it is not; never stuck."""
    doubling = {"type": "object", "properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    schemas = Schemas()
    assert schemas.schema_problems(doubling) == []
    value: dict[str, Any] = {}
    for _ in range(8):
        value = {"x": value}
    assert schemas.problems(tool(doubling), value) == []
    for _ in range(50):
        value = {"x": value}
    assert [each["field"] for each in schemas.problems(tool(doubling), value)] == ["/arguments"]


def test_a_pattern_that_backtracks_for_ever_is_given_up() -> None:
    """9.4: a merchant's pattern cannot hold the gateway; what was not matched in time does not fit."""
    evil = {"properties": {"a": {"pattern": "^(?=(a+)+b)(?=(a|aa)+c)x"}}}
    assert len(Schemas().problems(tool(evil), {"a": "a" * 5_000})) == 1


def test_compiled_schemas_are_kept_by_version_and_bounded() -> None:
    schemas = Schemas(most=2)
    first = tool({"required": ["a"]}, version=1)
    assert schemas.problems(first, {}) != []
    assert schemas.problems(tool({}, version=2), {}) == []
    assert schemas.problems(first, {}) != []
    for number in range(10):
        schemas.problems(tool({}, name=f"t{number}"), {})
    assert len(schemas._compiled) == 2
    assert schemas.problems(first, {}) != []
