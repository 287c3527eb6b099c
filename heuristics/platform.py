"""The platform's own heuristic (promise 3.1): a bare substring rule, kept word for word so that it can be asked for."""

from __future__ import annotations

__all__ = ["PLATFORM_VERBS", "platform_verb"]

PLATFORM_VERBS = (
    "create",
    "place",
    "add",
    "update",
    "remove",
    "delete",
    "cancel",
    "checkout",
    "pay",
    "book",
    "submit",
    "set",
)


def platform_verb(name: str) -> str | None:
    """The first of the twelve, in 3.1's order, that the lowercased name starts with or contains; else None."""
    lowered = name.lower()
    for verb in PLATFORM_VERBS:
        if verb in lowered:
            return verb
    return None
