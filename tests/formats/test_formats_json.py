"""What is read of JSON, in every format, and where its parts stand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heuristics.declared_tool import Place
from heuristics.formats import (
    FORMATS,
    UnreadableSource,
    find_tools,
    json_source,
    looks_like_tools,
    read_document,
    read_tools,
)
from heuristics.formats.json_levels import Level
from heuristics.formats.source import At
from heuristics.hints import Hints

Refusal = Callable[..., UnreadableSource]


def spot(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def at(place: Place) -> tuple[int | None, int | None]:
    return place.line, place.column


def test_every_format_is_known_by_its_content_and_gives_the_same_tools(manifest: tuple[str, str]) -> None:
    format_, text = manifest
    for options in ({}, {"format": format_}):
        tools = read_tools(text.encode(), "some.file", **options)
        assert [(tool.name, tool.description) for tool in tools] == [
            ("place_order", "About place_order."),
            ("find_orders", "About find_orders."),
        ]
        for tool in tools:
            assert tool.format == format_
            assert tool.parameters is not None
            assert tool.parameters["properties"]["price"] == {"type": "number"}
            assert tool.document == tool.parameters  # what #/$defs would mean
            assert not tool.extras
            assert tool.place.path == "some.file"


def test_every_tool_name_and_property_has_its_line_and_column(manifest: tuple[str, str]) -> None:
    _, text = manifest
    for tool in read_tools(text.encode(), "t.json"):
        written = re.search(rf'"{tool.name}"', text)
        assert written is not None
        assert at(tool.places["/name"]) == spot(text, written.start())
        price = text.index('"price"', written.start())
        assert at(tool.places["/parameters/properties/price"]) == spot(text, price)
        assert at(tool.places["/parameters/properties/price/type"]) == spot(text, text.index('"type"', price))
        assert at(tool.places["/parameters/required/0"]) == spot(
            text, text.index('"sku"', text.index('"required"', price))
        )
        assert at(tool.places["/description"]) <= at(tool.places["/parameters"])
        assert tool.place.line is not None
        assert (tool.place.line, tool.place.column) <= at(tool.places["/name"])
        assert "/parameters/properties/nothing" not in tool.places
        assert "/parameters/required/7" not in tool.places
        assert all(tool.places[pointer].line is not None for pointer in tool.places)


def test_yaml_of_the_same_document_gives_the_same_tools(manifest: tuple[str, str]) -> None:
    yaml = pytest.importorskip("yaml")
    _, text = manifest
    block = yaml.safe_dump(json.loads(text), sort_keys=False)
    from_json, from_yaml = read_tools(text.encode(), "t"), read_tools(block.encode(), "t")
    assert [(t.name, t.parameters, t.hints, t.format) for t in from_yaml] == [
        (t.name, t.parameters, t.hints, t.format) for t in from_json
    ]
    for tool in from_yaml:
        line = block.splitlines()[(tool.places["/name"].line or 0) - 1]
        assert line[(tool.places["/name"].column or 0) - 1 :].startswith(tool.name)


def test_mcp_annotations_and_oncegates_own_fields_are_kept() -> None:
    mcp = [
        {"name": "a", "inputSchema": {}, "annotations": {"readOnlyHint": True, "destructiveHint": False, "title": "A"}}
    ]
    assert read_tools(json.dumps(mcp).encode(), "t")[0].hints == Hints(True, False, None, None)
    body = {
        "name": "pay",
        "company": "acme",
        "endpoint": "https://shop.example",
        "side_effecting": True,
        "idempotency": "safe_to_retry",
        "on_repeat": None,
        "timeout_s": 10,
        "hints": {"httpMethod": "POST", "idempotentHint": True},
    }
    tool = read_tools(json.dumps([body]).encode(), "t")[0]
    assert (tool.company, tool.side_effecting, tool.hints) == ("acme", True, Hints(None, None, True, "POST"))
    assert tool.extras == {"idempotency": "safe_to_retry", "timeout_s": 10}


def test_a_put_body_is_called_as_its_file_and_standard_input_has_no_name(refusal: Refusal) -> None:
    body = json.dumps({"endpoint": "https://shop.example", "parameters": {"type": "object"}})
    assert read_tools(body.encode(), "tools/place.order.json")[0].name == "place.order"
    assert "has no name" in refusal(body, "-").message


def test_geminis_types_become_json_schemas_but_values_stay() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "enum": ["STRING"]},
            "n": {"type": "ARRAY", "items": {"type": "NUMBER"}},
        },
    }
    tool = read_tools(json.dumps([{"name": "a", "parameters": schema}]).encode(), "t")[0]
    assert tool.format == "gemini"
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["STRING"]},
            "n": {"type": "array", "items": {"type": "number"}},
        },
    }


def test_what_fits_several_formats_is_asked_about_and_its_neighbours_decide(refusal: Refusal) -> None:
    bare: dict[str, Any] = {"name": "a", "parameters": {"type": "object"}}
    assert "--from openai" in refusal(json.dumps([bare])).message
    assert refusal(json.dumps([bare])).place.column == 2
    for format_ in ("openai", "gemini"):
        assert read_tools(json.dumps([bare]).encode(), "t", format=format_)[0].format == format_
    beside = [bare, {"type": "function", "name": "b"}]
    assert [tool.format for tool in read_tools(json.dumps(beside).encode(), "t")] == ["openai", "openai"]
    mixed = [{"name": "a", "input_schema": {}}, {"name": "b", "inputSchema": {}}]
    assert "tool 1 is anthropic, tool 2 is mcp" in refusal(json.dumps(mixed)).message


def test_unknown_formats_are_refused_and_auto_is_one() -> None:
    assert FORMATS[0] == "auto"
    with pytest.raises(ValueError, match="graphql"):
        read_tools(b"[]", "t", format="graphql")


def test_an_empty_list_of_tools_is_read_as_none() -> None:
    assert read_tools(b'{"tools": []}', "t") == []
    assert read_tools(b"[]", "t", format="openai") == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_is_no_part_of_the_text(encoding: str) -> None:
    tool = read_tools('[{"name": "żółw", "input_schema": {}}]'.encode(encoding), "t")[0]
    assert (tool.name, tool.place.column) == ("żółw", 2)


@pytest.mark.parametrize(
    "name", ["x" * 10_000, "🛒_add", "הזמנה", "a\u202eb", "a\nb\x00\x1b[2J", "", " ", "a/b~c", "阿里巴巴"], ids=ascii
)
def test_k5_08_any_name_is_read_as_it_is(name: str) -> None:
    tools = [{"name": name, "input_schema": {"type": "object", "properties": {name: {"type": "string"}}}}]
    tool = read_tools(json.dumps(tools).encode(), "t")[0]
    assert tool.name == name
    pointer = "/parameters/properties/" + name.replace("~", "~0").replace("/", "~1")
    assert tool.places[pointer].line == 1
    assert pointer in list(tool.places)


def test_places_cost_nothing_until_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    class Counted(Level):
        def __init__(self, text: str, offset: int) -> None:
            looked.append(offset)
            super().__init__(text, offset)

    monkeypatch.setattr(json_source, "Level", Counted)
    for count in (10, 1_000):
        data = json.dumps([{"type": "function", "function": {"name": f"t{n}", "parameters": {}}} for n in range(count)])
        looked.clear()
        tools = read_tools(data.encode(), "t")
        assert looked == []  # the list was located while it was read
        assert tools[-1].places["/name"].column == data.rindex('"t') + 1
        assert len(looked) == 2  # one tool and its function


def test_a_parsed_document_has_tools_without_lines() -> None:
    tool = read_document({"tools": [{"name": "a", "inputSchema": {}}]}, "https://shop.example/mcp")[0]
    assert tool.place == Place("https://shop.example/mcp", None, None, "/tools/0")
    assert tool.places["/name"] == Place("https://shop.example/mcp", None, None, "/tools/0/name")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"name": "shop", "version": "1.0.0", "scripts": {}}', False),
        ('{"compilerOptions": {}, // comment\n}', False),
        ("name: ci\non: [push]\njobs: {}\n", False),
        ("[tool.ruff]\nline-length = 120\n", False),
        ("import os\n\n\ndef tool() -> None: ...\n", False),
        ("plain words", False),
        ("", False),
        ('[{"name": "a", "input_schema": {}}]', True),
        ('[{"name": "a", "input_schema": {}},', True),
        ("openapi: 3.0.0\npaths: [", True),
        ("[tools.a]\nendpoint = ", True),
    ],
)
def test_a_walk_passes_over_what_holds_no_tools_and_stops_at_broken_ones(text: str, found: bool) -> None:
    assert looks_like_tools(text.encode(), "some/file") is found
    if not found:
        assert find_tools(text.encode(), "some/file") is None
        with pytest.raises(UnreadableSource):
            read_tools(text.encode(), "some/file")


DOCUMENT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(DOCUMENT, st.sampled_from([None, 0, 2]))
def test_what_is_read_level_by_level_is_what_the_decoder_reads_and_stands_where_it_stands(
    value: object, indent: int | None
) -> None:
    text = json.dumps(value, indent=indent, separators=(" , ", " : ") if indent == 0 else None)
    assume(not re.search(r"\\u[dD][89a-fA-F]", text))
    source = json_source.parse_json(text, "t")
    assert source.value == json.loads(text)
    todo: list[tuple[At, object]] = [((), source.value)]
    while todo:
        at, part = todo.pop()
        line, column = source.spot(at, of_value=True) or (0, 0)
        offset = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
        assert json.JSONDecoder().raw_decode(text, offset)[0] == part
        parts = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        todo += [((*at, key), below) for key, below in parts]


BROKEN = [
    "",
    " ",
    "[",
    "{",
    "[1,]",
    "[1 2]",
    '{"a":1,}',
    '{"a" 1}',
    "{1:2}",
    '{"a":1 "b":2}',
    "[] x",
    "[1]]",
    '{"a":1]',
]
BROKEN += ['{"a":[', '["\n"]', '{"a\n":1}', "tru", '{"a":[1,{"b":}]}']


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_json_is_said_where_the_decoder_says_it(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as wrong:
        json.loads(text)
    with pytest.raises(UnreadableSource) as refused:
        json_source.parse_json(text, "t")
    assert (refused.value.place.line, refused.value.place.column) == (wrong.value.lineno, wrong.value.colno)


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":2}', '[{"a":1,"a":2}]', '{"a":{"b":1,"b":2}}', "[NaN]", "[" * 200 + "]" * 200]
)
def test_what_the_decoder_lets_pass_is_refused(text: str) -> None:
    with pytest.raises(UnreadableSource):
        json_source.parse_json(text, "t")
