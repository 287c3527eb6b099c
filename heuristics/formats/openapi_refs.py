"""Local references of an OpenAPI document, followed one after the other and never around a circle."""

from __future__ import annotations

from typing import Any, Final

from heuristics.formats.source import At

__all__ = ["followed"]

_MOST: Final = 16


def followed(document: Any, value: Any, at: At) -> tuple[Any, At]:
    """What a value stands for and where that is: itself unless it is a local `$ref`, or one that ends nowhere."""
    first = (value, at)
    for _ in range(_MOST):
        ref = value.get("$ref") if isinstance(value, dict) else None
        if not isinstance(ref, str):
            return value, at
        if not ref.startswith("#/"):
            return first
        steps: list[str | int] = []
        value = document
        for token in ref[2:].split("/"):
            key: str | int = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list) and token.isascii() and token.isdecimal() and len(token) < 10:
                key = int(token)
            try:
                value = value[key]
            except (LookupError, TypeError):
                return first
            steps.append(key)
        at = tuple(steps)
    return first
