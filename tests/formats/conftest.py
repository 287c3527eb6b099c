"""Manifests in every format, each with the same two tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from heuristics.formats import UnreadableSource, read_tools

SCHEMA = {"type": "object", "properties": {"price": {"type": "number"}, "sku": {"type": "string"}}, "required": ["sku"]}


def one(name: str, schema_key: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"About {name}.", schema_key: SCHEMA, **more}


NAMES = ("place_order", "find_orders")
MANIFESTS: dict[str, tuple[str, Any]] = {
    "openai chat": ("openai", [{"type": "function", "function": one(n, "parameters")} for n in NAMES]),
    "openai responses": ("openai", [one(n, "parameters", type="function", strict=True) for n in NAMES]),
    "openai request": (
        "openai",
        {
            "model": "m",
            "messages": [],
            "tools": [{"type": "web_search"}, *({"type": "function", "function": one(n, "parameters")} for n in NAMES)],
        },
    ),
    "openai namespace": (
        "openai",
        [{"type": "namespace", "name": "shop", "tools": [one(n, "parameters", type="function") for n in NAMES]}],
    ),
    "openai functions": ("openai", {"model": "m", "functions": [one(n, "parameters") for n in NAMES]}),
    "anthropic": ("anthropic", [one(n, "input_schema") for n in NAMES]),
    "anthropic request": (
        "anthropic",
        {
            "max_tokens": 1,
            "tools": [{"type": "bash_20250124", "name": "bash"}, *(one(n, "input_schema") for n in NAMES)],
        },
    ),
    "gemini request": (
        "gemini",
        {"tools": [{"functionDeclarations": [one(n, "parameters") for n in NAMES]}, {"googleSearch": {}}]},
    ),
    "gemini snake": ("gemini", [{"function_declarations": [one(n, "parameters") for n in NAMES]}]),
    "gemini json schema": ("gemini", [one(n, "parametersJsonSchema") for n in NAMES]),
    "mcp reply": ("mcp", {"jsonrpc": "2.0", "id": 1, "result": {"tools": [one(n, "inputSchema") for n in NAMES]}}),
    "mcp result": ("mcp", {"tools": [one(n, "inputSchema") for n in NAMES], "nextCursor": "2"}),
    "mcp list": ("mcp", [one(n, "inputSchema", annotations={"readOnlyHint": True}) for n in NAMES]),
    "oncegate answer": ("oncegate", {"tools": [one(n, "parameters", endpoint="https://shop.example") for n in NAMES]}),
    "oncegate table": (
        "oncegate",
        {
            "tools": {
                n: {"endpoint": "https://s.example", "description": f"About {n}.", "parameters": SCHEMA} for n in NAMES
            }
        },
    ),
}


@pytest.fixture
def refusal() -> Callable[..., UnreadableSource]:
    """What is said of a source; fails if it is read."""

    def read(text: str | bytes, path: str = "tools", **options: str) -> UnreadableSource:
        with pytest.raises(UnreadableSource) as caught:
            read_tools(text.encode() if isinstance(text, str) else text, path, **options)
        return caught.value

    return read


@pytest.fixture(params=sorted(MANIFESTS))
def manifest(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Format and JSON text."""
    format_, value = MANIFESTS[request.param]
    return format_, json.dumps(value, indent=2)
