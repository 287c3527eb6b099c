"""A company's tools as each model provider wants them, names kept as registered (api.md, `GET …/tools?format=`).

A name that a provider refuses is not rewritten: the model would then ask for a tool that is not registered,
and two tools could become one. Registration remarks on such names instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from gateway.core.addresses import redact_url
from gateway.core.findings import Finding
from gateway.core.model import Tool


class ToolFormat(StrEnum):
    ONCEGATE = "oncegate"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    MCP = "mcp"


def tool_list(tools: Sequence[Tool], format_: ToolFormat) -> list[dict[str, Any]]:
    """The value of `tools` in a request to that provider (or in MCP's `tools/list` result)."""
    return FORMATS[format_](tools)


def tool_body(tool: Tool, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    """A stored tool as the API shows it. The query of a URL may hold a credential and is hidden (9.3)."""
    return {
        "company": tool.company,
        "name": tool.name,
        "version": tool.version,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "endpoint": redact_url(tool.endpoint),
        "side_effecting": tool.side_effecting,
        "idempotency": tool.idempotency.value if tool.idempotency is not None else None,
        "on_repeat": tool.on_repeat.value if tool.on_repeat is not None else None,
        "timeout_s": tool.timeout_s,
        "status_endpoint": redact_url(tool.status_endpoint) if tool.status_endpoint is not None else None,
        "unavailable_means_not_executed": tool.unavailable_means_not_executed,
        "hints": {
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "httpMethod": tool.hints.http_method,
        },
        "verdict": {
            "side_effecting": tool.verdict.side_effecting,
            "source": tool.verdict.source,
            "reason": tool.verdict.reason,
            "verb": tool.verdict.verb,
        },
        "findings": [finding_body(finding) for finding in findings],
    }


def finding_body(finding: Finding) -> dict[str, str]:
    """A lint finding on the wire: the rule's stable code, its name, and what it says."""
    return {
        "code": finding.code,
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
    }


def _oncegate(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [tool_body(tool) for tool in tools]


def _openai(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": _described(tool, "parameters")} for tool in tools]


def _anthropic(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [_described(tool, "input_schema") for tool in tools]


def _gemini(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    declarations = [_described(tool, "parametersJsonSchema") for tool in tools]
    return [{"functionDeclarations": declarations}] if declarations else []


def _mcp(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{**_described(tool, "inputSchema"), "annotations": _annotations(tool)} for tool in tools]


def _described(tool: Tool, schema_key: str) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, schema_key: _object_schema(tool.parameters)}


def _object_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Every provider wants `type: object` said at the root."""
    return {**parameters, "type": "object"}


def _annotations(tool: Tool) -> dict[str, bool]:
    """MCP's hints: what the gateway's verdict says first, then what the merchant declared."""
    said: dict[str, bool | None] = {
        "readOnlyHint": not tool.verdict.side_effecting,
        "destructiveHint": tool.hints.destructive,
        "idempotentHint": tool.hints.idempotent,
    }
    return {name: value for name, value in said.items() if value is not None}


FORMATS: Final[Mapping[ToolFormat, Callable[[Sequence[Tool]], list[dict[str, Any]]]]] = {
    ToolFormat.ONCEGATE: _oncegate,
    ToolFormat.OPENAI: _openai,
    ToolFormat.ANTHROPIC: _anthropic,
    ToolFormat.GEMINI: _gemini,
    ToolFormat.MCP: _mcp,
}
