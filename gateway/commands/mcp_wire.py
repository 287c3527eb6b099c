"""JSON-RPC as MCP uses it, read within bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from heuristics.formats.json_source import parse_json
from heuristics.formats.unreadable import UnreadableSource, shown

__all__ = ["Budget", "McpTrouble", "RpcRefused", "encoded", "read_message", "result_of"]


class McpTrouble(Exception):
    """Why a server's tools cannot be had: one line."""


class RpcRefused(Exception):
    """An error that the server answered, or a refusal of its HTTP layer: it may speak another version."""


class Budget:
    """How many bytes a server may still send."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def take(self, size: int) -> None:
        """Raises McpTrouble."""
        self._left -= size
        if self._left < 0:
            raise McpTrouble(f"sent over {self._most:,} bytes")


def encoded(method: str, params: Mapping[str, Any], number: int | None = None) -> bytes:
    """A request, or without a number a notification; no line break in it."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params)}
    if number is not None:
        message["id"] = number
    return json.dumps(message).encode()


def read_message(data: bytes) -> dict[str, Any]:
    """Raises McpTrouble for what is no JSON-RPC message."""
    try:
        value = parse_json(data.decode("utf-8"), "message").value
    except UnicodeDecodeError:
        raise McpTrouble("sent something that is not UTF-8") from None
    except UnreadableSource as broken:
        start = shown(data[:80].decode("utf-8", "replace").strip())
        raise McpTrouble(f"sent something that {broken.message}: it begins {start!r}") from None
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise McpTrouble(
            f"sent something that is no MCP message: it begins {shown(data[:80].decode(errors='replace'))!r}"
        )
    return value


def result_of(message: Mapping[str, Any]) -> Any:
    """Raises RpcRefused for an error."""
    error = message.get("error")
    if error is None:
        return message.get("result")
    said = error.get("message") if isinstance(error, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    raise RpcRefused(f"it answered with error {shown(str(code))}: {shown(str(said), 200)}")
