"""What an operator is told when a gateway starts: what is allowed, and is hardly meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.service.registry import Registry
from gateway.settings import Settings

Remark = tuple[str, Mapping[str, object]]
"""A line of the log, and its fields."""


def start_remarks(settings: Settings, registry: Registry) -> Iterator[Remark]:
    """Each with what to do about it. The registry is loaded."""
    if not settings.dev and not registry.stored_keys():
        yield "there is no key yet, so that every call is refused: make one with `oncegate keys create`", {}
    grace_s = settings.stop.grace_s
    slow = [each.tool for each in registry.stored_tools() if each.tool and each.tool.timeout_s >= grace_s]
    if slow:
        slowest = max(slow, key=lambda tool: tool.timeout_s)
        yield (
            "stop.grace_s is not longer than what tools may take: a stop would leave their calls unknown",
            {
                "grace_s": grace_s,
                "tools": len(slow),
                "slowest": f"{slowest.company}/{slowest.name}",
                "timeout_s": slowest.timeout_s,
            },
        )
