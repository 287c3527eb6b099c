"""A held call's arguments as those who decide about it see them: without what its tool marks sensitive (9.3)."""

from __future__ import annotations

import msgspec

from gateway.core.identity import Kind
from gateway.core.masking import MASK, marks_any, masked
from gateway.core.model import Tool
from gateway.core.record import Effect
from gateway.core.strict_json import dumps, parse


def shown_arguments(effect: Effect, tool: Tool | None) -> msgspec.Raw | str | None:
    """`tool`: as it is registered now. Marks of another version than the call was held under are not known any more, so
    then nothing is shown; nobody can grant such a call before it is held anew (7.4). A tool that was registered only
    after the call came is another version too: its values are the same, and now they are marked."""
    if effect.arguments is None:
        return None
    if effect.kind is not Kind.TOOL_CALL or (tool is None and not effect.tool_version):
        return msgspec.Raw(effect.arguments.encode())  # nothing that is registered: nothing is marked
    if tool is None or tool.version != effect.tool_version:
        return MASK
    if not marks_any(tool.parameters):
        return msgspec.Raw(effect.arguments.encode())
    return msgspec.Raw(dumps(masked(tool.parameters, parse(effect.arguments))).encode())
