"""What a tool says of itself: MCP annotations, its HTTP method. This may raise protection, never lower it (3.4)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Hints", "raised_by"]

# POST is absent: search and lookup are POSTed everywhere, and a name without a known read verb is protected anyway.
_WRITING_METHODS = ("PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Hints:
    """MCP `readOnlyHint`, `destructiveHint`, `idempotentHint`; the HTTP method in any case. None where not stated."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    http_method: str | None = None


def raised_by(hints: Hints) -> str | None:
    """Why these hints make a tool side-effecting, or None if they do not.

    `idempotent` says how a repeat ends, not whether anything changes, so it never counts here.
    """
    if hints.destructive:
        return "the tool declares itself destructive"
    if hints.read_only is False:
        return "the tool declares that it is not read-only"
    method = (hints.http_method or "").upper()
    if method in _WRITING_METHODS:
        return f"its HTTP method is {method}"
    return None
