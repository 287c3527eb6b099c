"""A registered tool in the forms that models and their APIs take: one row a format (api.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from gateway.core.model import Tool
from gateway.web.models import HintsShown, ToolShown, VerdictShown


def shown(tool: Tool) -> dict[str, Any]:
    """As stored, credentials in its addresses left out (9.3)."""
    return ToolShown(
        company=tool.company,
        tool=tool.name,
        version=tool.version,
        description=tool.description,
        parameters=dict(tool.parameters),
        endpoint=shown_address(tool.endpoint),
        side_effecting=tool.side_effecting,
        idempotency=None if tool.idempotency is None else tool.idempotency.value,
        on_repeat=None if tool.on_repeat is None else tool.on_repeat.value,
        timeout_s=tool.timeout_s,
        status_endpoint=None if tool.status_endpoint is None else shown_address(tool.status_endpoint),
        unavailable_means_not_executed=tool.unavailable_means_not_executed,
        hints=HintsShown(
            readOnlyHint=tool.hints.read_only,
            destructiveHint=tool.hints.destructive,
            idempotentHint=tool.hints.idempotent,
        ),
        verdict=VerdictShown(
            side_effecting=tool.verdict.side_effecting,
            source=tool.verdict.source,
            reason=tool.verdict.reason,
            verb=tool.verdict.verb,
        ),
    ).model_dump()


def shown_address(address: str) -> str:
    """An address without user and password, its query's values masked: tokens are put in both."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "***"
    query = "&".join(part.partition("=")[0] + "=***" for part in parts.query.split("&")) if parts.query else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def _openai(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }


def _anthropic(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}


def _gemini(tool: Tool) -> dict[str, Any]:
    # `parameters` would be a subset of OpenAPI 3.0; the other field takes JSON Schema as it is.
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": dict(tool.parameters)}


def _mcp(tool: Tool) -> dict[str, Any]:
    stated = {"destructiveHint": tool.hints.destructive, "idempotentHint": tool.hints.idempotent}
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": dict(tool.parameters),
        "annotations": {
            "readOnlyHint": not tool.verdict.side_effecting,
            **{name: hint for name, hint in stated.items() if hint is not None},
        },
    }


FORMS: Final[Mapping[str, Callable[[Tool], dict[str, Any]]]] = {
    "oncegate": shown,
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "mcp": _mcp,
}
