"""Refusals before anything is recorded: what a call is told, and the problem that it becomes on the wire (8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gateway.core import decisions as d
from gateway.core import errors
from gateway.core.errors import GatewayError
from gateway.core.masking import hidden_at, marks_any
from gateway.core.model import Tool

PROBLEMS: Final = {
    "unknown_tool": errors.UnknownTool,
    "invalid_arguments": errors.InvalidArguments,
    "tool_call_id_reused": errors.ToolCallIdReused,
    "attempt_superseded": errors.AttemptSuperseded,
    "conversation_full": errors.ConversationFull,
    "merchant_not_ready": errors.MerchantNotReady,
}
"""Refusals, of this layer and of the core, as the problems they are on the wire."""
ARGUMENTS: Final = ("arguments", "args")
MOST_SAID: Final = 5
LONGEST_SAID: Final = 200
"""Problems in a message, and characters of each: a model reads it. `fields` has them all."""


class Refusal(d.Refused, frozen=True):
    """A refusal of this layer; `details` are members of its problem document."""

    details: Mapping[str, Any] = {}


def unknown_tool(company: str, tool: str, near: Sequence[str]) -> Refusal:
    """`near`: registered names like it, the likest first."""
    hint = f"; nearest: {', '.join(near)}" if near else ""
    message = f"{company} has no tool named {json.dumps(tool, ensure_ascii=False)}{hint}."
    return Refusal("unknown_tool", message, details={"nearest": list(near)} if near else {})


def no_secret(company: str) -> Refusal:
    return Refusal("merchant_not_ready", f"{company} has no signing secret yet; add one first.")


def invalid_arguments(problems: Sequence[Mapping[str, str]]) -> Refusal:
    """`problems` as `ArgumentCheck` has them. The message names them as well: many a model sees nothing else."""
    said = "; ".join(_cut(f"{each['field']} {each['problem']}") for each in problems[:MOST_SAID])
    more = f"; and {len(problems) - MOST_SAID} more" if len(problems) > MOST_SAID else ""
    message = f"{errors.InvalidArguments.title}: {said}{more}."
    return Refusal("invalid_arguments", message, details={"fields": [dict(each) for each in problems]})


def problem_of(
    refused: d.Refused, find: Callable[[str], Tool | None] = lambda _: None, asked: str | None = None
) -> GatewayError:
    """What the core names are fields that differ from another call's (2.2); `find` gives a tool, `asked` names the one
    that was asked for. Where the whole of its arguments is sensitive, or of the record's, the names of their fields are
    as well (9.3); and where the marks that the record was made under are gone."""
    if isinstance(refused, Refusal):
        details = refused.details
    else:
        fields = refused.fields
        target, version = refused.recorded
        held_under = find(target) if version else None
        if version and (held_under is None or held_under.version != version):
            fields = tuple(dict.fromkeys(_folded(field) for field in fields))
        for tool in (held_under, find(asked) if asked is not None else None):
            if tool is not None and marks_any(tool.parameters):
                fields = tuple(dict.fromkeys(_named(tool, field) for field in fields))
        named = [{"field": field, "problem": "differs"} for field in fields]
        details = {"fields": named} if named else {}
    return PROBLEMS[refused.code](refused.message, details=details)


def _folded(field: str) -> str:
    """Without what is below the arguments."""
    of = field.split("/", 2)[1]
    return f"/{of}" if of in ARGUMENTS else field


def _named(tool: Tool, field: str) -> str:
    """A pointer below the arguments, as a call (`/arguments`) or a submission (`/args`) names them."""
    _, of, *below = field.split("/", 2)
    if of not in ARGUMENTS or not below:
        return field
    name = below[0].replace("~1", "/").replace("~0", "~")
    return f"/{of}" if hidden_at(tool.parameters, [name]) == 0 else field


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SAID else text[:LONGEST_SAID] + "…"
