"""What the service asks of a JSON Schema checker."""

from __future__ import annotations

from typing import Any, Protocol

from gateway.core.model import Tool


class ArgumentCheck(Protocol):
    """Checks arguments against a tool's parameters (JSON Schema 2020-12)."""

    def problems(self, tool: Tool, value: Any) -> list[dict[str, str]]:
        """`{"field": JSON pointer, "problem": words}` for each; no value of a call is repeated in them."""
        ...
