"""Every source that cannot be read gets one clear line with its place, in bounded time and memory (K6-14)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heuristics.declared_tool import DeclaredTool
from heuristics.formats import FORMATS, MAX_BYTES, UnreadableSource, find_tools, read_tools, yaml_source

Refusal = Callable[..., UnreadableSource]

_LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
BROKEN = {
    # text: (line, column, words)
    '{"a": 1,}': (1, 9, "not valid JSON: expecting property name"),
    '[{"name": "a",\n "input_schema": {"x": 1': (2, 25, "ends too early"),
    '{"tools": [],\n "tools": []}': (2, 2, 'the key "tools" stands twice'),
    '{"a": [{"b": {"c": 1, "d": 2, "c": 3}}]}': (1, 31, 'the key "c" stands twice'),
    '{"a": NaN}': (1, 7, "NaN"),
    '{"a": -Infinity}': (1, 7, "Infinity"),
    '["NaN", {"a": "\\ud83d"}]': (1, 16, "half of a surrogate pair"),
    '["\\ud83d\\ude00", "\\ude00"]': (1, 19, "half of a surrogate pair"),
    '{"a": ' + "9" * 5_000 + "}": (1, 7, "over 4,300 digits"),
    "[" * 500 + "]" * 500: (1, 129, "deeper than 128"),
    "[" * 5_000 + "]" * 5_000: (1, 129, "deeper than 128"),
    "[" * 1_000_000 + "]" * 1_000_000: (1, 129, "deeper than 128"),
    '{"a":' * 1_000_000: (1, 641, "deeper than 128"),
    "a: [1": (1, 6, "not valid YAML"),
    "a: 1\nb: 2\na: 3": (3, 1, 'the key "a" stands twice'),
    "a: &x [*x]": (1, 8, "a part of"),
    "a: *x": (1, 4, "no anchor is called x"),
    "a: !!python/object:os.system x": (1, 4, "the tag"),
    "a: !!int x": (1, 4, "!!int"),
    "? [a]\n: 1": (1, 3, "key is itself"),
    "a: 1\n---\nb: 1": (2, 1, "more than one YAML document"),
    _LAUGHS: (6, None, "aliases repeat over 100,000"),
    "- " * 10_000: (1, 257, "deeper than 128"),
    "a: " + "[" * 100_000: (1, None, "deeper than 128"),
    "[tools.a]\nendpoint = ": (2, 12, "not valid TOML"),
    "[tools.a]\n[tools.a]": (2, None, "not valid TOML"),
    "a" + ".a" * 100_000 + " = 1": (1, 1, "deeper than 128"),
    "a = " + "[" * 5_000: (1, 133, "deeper than 128"),
    "b = 1\na = " + "[" * 200 + "]" * 200: (2, 133, "deeper than 128"),
    "import os\ndef f(:": (2, 7, "not valid Python"),
    "import os\nx = " + "(" * 1_000: (2, None, "not valid Python"),
    "import os\nx = a" + ".b" * 200_000: (None, None, "nested too deeply"),
    "import os\nx = " + "-" * 200_000 + "1": (None, None, "nested too deeply"),
    "": (1, 1, "is empty"),
    "# only words\n": (1, 1, "is empty"),
    "plain words": (1, 1, "neither JSON, YAML, TOML nor Python"),
    "a\0b": (1, 2, "zero bytes"),
}
OTHER_KINDS = {
    '{"swagger": "2.0", "paths": {}}': (1, 2, "Swagger 2.0"),
    "openapi: 2.5.0": (1, 1, "OpenAPI 2.5.0"),
    "asyncapi: 3.0.0": (1, 1, "AsyncAPI"),
    '{"mcpServers": {}}': (1, 2, "lint a server itself"),
    '{"name": "shop", "version": "1.0.0"}': (1, 1, "declares no tools"),
    '{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no\\u202e"}}': (1, 29, "no\\u202e"),
    '[{"name": "a", "input_schema": []}]': (1, 16, "input_schema must be an object, not a list"),
    '[{"name": 1, "input_schema": {}}]': (1, 3, "name must be a text, not a number"),
    '[{"input_schema": {}}]': (1, 2, "this tool has no name"),
    '[{"name": "a", "input_schema": {}}, 7]': (1, 37, "a tool must be an object, not a number"),
    '[{"name": "a", "inputSchema": {}, "annotations": {"readOnlyHint": "yes"}}]': (
        1,
        51,
        "readOnlyHint must be true or",
    ),
    "openapi: 3.1.0\npaths: []": (2, 1, "paths must be an object"),
    "[tools.a]\nendpoint = 'x'\nparameters = '''\n{\"a\": 1,\n}'''": (5, 1, "not valid JSON"),
    "[tools]\na = 1\n[company]": (2, 1, "a tool must be a table, not a number"),
}


@pytest.mark.parametrize("text", [*BROKEN, *OTHER_KINDS], ids=lambda text: ascii(text[:30]))
def test_k6_14_what_cannot_be_read_gets_one_line_with_its_place(text: str, refusal: Refusal) -> None:
    line, column, words = {**BROKEN, **OTHER_KINDS}[text]
    error = refusal(text, "there")
    assert words in error.message
    assert (error.place.path, error.place.line) == ("there", line)
    assert column is None or error.place.column == column
    assert len(str(error)) < 600
    assert str(error).isprintable()


def test_k6_14_a_reference_to_itself_is_kept_and_not_expanded() -> None:
    schema = {"type": "object", "properties": {"self": {"$ref": "#"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
    tool = read_tools(json.dumps([{"name": "a", "input_schema": schema}]).encode(), "t")[0]
    assert tool.parameters == schema
    circle = {
        "openapi": "3.1.0",
        "paths": {
            "/a": {
                "parameters": [{"$ref": "#/components/parameters/p"}],
                "post": {
                    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/a"}}}}
                },
            }
        },
        "components": {
            "parameters": {"p": {"$ref": "#/components/parameters/p"}},
            "schemas": {"a": {"allOf": [{"$ref": "#/components/schemas/a"}, {"$ref": "#/components/schemas/a"}]}},
        },
    }
    tool = read_tools(json.dumps(circle).encode(), "t")[0]
    assert tool.parameters is not None
    assert tool.parameters["properties"]["body"] == {"$ref": "#/components/schemas/a"}


def test_a_source_over_the_limit_is_not_looked_at(refusal: Refusal) -> None:
    assert "at most 67,108,864" in refusal(b"[" * (MAX_BYTES + 1)).message
    assert "of YAML; at most" in refusal(b"a: " + b"x" * (17 << 20)).message
    assert "of TOML; at most" in refusal(b"a = '" + b"x" * (3 << 20) + b"'").message
    assert "of Python; at most" in refusal(b"import os\n" + b"#" * (3 << 20)).message
    assert "over 5,000,000 values" in refusal(b"[" + b"[]," * 2_600_000).message


def test_fifty_megabytes_are_read() -> None:
    data = json.dumps([{"name": "a", "description": "x" * 50_000_000, "input_schema": {}}]).encode()
    assert len(read_tools(data, "t")[0].description or "") == 50_000_000


def test_without_its_library_yaml_says_what_to_install(monkeypatch: pytest.MonkeyPatch, refusal: Refusal) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    assert "pip install 'oncegate[lint]'" in refusal("openapi: 3.0.0").message
    assert read_tools(b'[{"name": "a", "input_schema": {}}]', "t")[0].name == "a"


def test_yaml_is_read_the_same_without_its_c_parser(monkeypatch: pytest.MonkeyPatch, refusal: Refusal) -> None:
    yaml = pytest.importorskip("yaml")
    text = "tools:\n- name: a\n  input_schema: &s {type: object}\n- <<: {name: b}\n  input_schema: *s\n"
    fast = read_tools(text.encode(), "t")
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    slow = read_tools(text.encode(), "t")
    assert [(t.name, t.parameters, t.place) for t in slow] == [(t.name, t.parameters, t.place) for t in fast]
    assert [t.name for t in slow] == ["a", "b"]
    assert "at most 1,048,576" in refusal("a: " + "x" * (1 << 21)).message
    assert yaml_source.MAX_DEPTH == 128


_LIKELY = st.sampled_from(
    [
        *(
            '{"tools":[',
            "]}",
            '{"name":"a","input_schema":{}}',
            "openapi: 3.0.0\n",
            "paths:\n  /a:\n    get:\n",
            "[tools.a]\n",
        ),
        *(
            "endpoint = 'x'\n",
            "parameters = '''{",
            "'''",
            "import merchant_sdk\n",
            "@shop.tool()\ndef f(w, a: list[int]):\n  ...",
        ),
        *(
            "- ",
            ": ",
            "*a",
            "&a ",
            "<<: ",
            "{",
            "}",
            "[",
            "]",
            '"',
            ",",
            "\\ud800",
            "\n",
            "  ",
            "#",
            "!!str ",
            "---\n",
            "\0",
            "=",
            ".",
        ),
    ]
)


def tools_or_line(read: Callable[[], list[DeclaredTool]]) -> list[DeclaredTool]:
    """The tools, none if they were refused in one printable line. Anything else fails."""
    said = ""
    try:
        return read()
    except UnreadableSource as error:
        said = str(error)
    assert said.isprintable()
    assert said.startswith("t:")
    return []


@given(st.one_of(st.binary(max_size=200), st.lists(_LIKELY, max_size=20).map(lambda parts: "".join(parts).encode())))
def test_any_bytes_give_tools_or_one_line(data: bytes) -> None:
    for format_ in FORMATS:
        for tool in tools_or_line(lambda format_=format_: read_tools(data, "t", format=format_)):
            assert all(tool.places[pointer].path == "t" for pointer in tool.places)
    tools_or_line(lambda: find_tools(data, "t") or [])


_KEYS = (
    *(
        "name",
        "type",
        "function",
        "parameters",
        "input_schema",
        "inputSchema",
        "functionDeclarations",
        "tools",
        "openapi",
    ),
    *(
        "paths",
        "/a",
        "get",
        "post",
        "requestBody",
        "content",
        "schema",
        "allOf",
        "properties",
        "required",
        "$ref",
        "in",
    ),
    *(
        "annotations",
        "readOnlyHint",
        "hints",
        "endpoint",
        "company",
        "operationId",
        "tags",
        "jsonrpc",
        "result",
        "error",
    ),
    *("description", "functions", "namespace"),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(_JSON, st.sampled_from(FORMATS[:-1]))
def test_any_json_gives_tools_or_one_line(value: object, format_: str) -> None:
    for tool in tools_or_line(lambda: read_tools(json.dumps(value).encode(), "t", format=format_)):
        assert isinstance(tool.name, str)
        assert all(tool.places[pointer].line for pointer in tool.places)
