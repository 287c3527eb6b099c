"""A company's tools as each model provider wants them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.model import Tool
from gateway.core.registration import declared_by
from gateway.core.tool_lists import ToolFormat, tool_list
from heuristics import Verdict

URL = "https://shop.example/tools"
WRITES = Verdict(True, "tool", "declared by the tool itself", None)
TOOL = Tool("acme", "place.order", 3, URL, WRITES, "Places.", {"properties": {"n": {"type": "integer"}}})
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        (
            ToolFormat.OPENAI,
            {"type": "function", "function": {"name": "place.order", "description": "Places.", "parameters": SCHEMA}},
        ),
        (ToolFormat.ANTHROPIC, {"name": "place.order", "description": "Places.", "input_schema": SCHEMA}),
        (
            ToolFormat.GEMINI,
            {
                "functionDeclarations": [
                    {"name": "place.order", "description": "Places.", "parametersJsonSchema": SCHEMA}
                ]
            },
        ),
        (
            ToolFormat.MCP,
            {
                "name": "place.order",
                "description": "Places.",
                "inputSchema": SCHEMA,
                "annotations": {"readOnlyHint": False},
            },
        ),
    ],
)
def test_tools_are_listed_as_each_provider_wants_them(format_: ToolFormat, expected: dict[str, Any]) -> None:
    assert tool_list([TOOL], format_) == [expected]
    assert tool_list([], format_) == []


def test_k5_06_lists_keep_the_registered_names() -> None:
    """K5-06: nothing is replaced, so nothing can collide."""
    for format_ in ToolFormat:
        assert "place.order" in str(tool_list([TOOL], format_))


def test_the_gateways_own_list_shows_what_was_declared_and_judged() -> None:
    (listed,) = tool_list([TOOL], ToolFormat.ONCEGATE)
    assert (listed["version"], listed["verdict"]["source"], listed["findings"]) == (3, "tool", [])
    assert declared_by(TOOL).parameters == listed["parameters"]
