"""OG201: a name that a model provider or MCP does not take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.better_names import plainer
from heuristics.rules.looked import Looked
from heuristics.rules.provider_names import LIMITS, NameLimit
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import joined, quoted


def _check(at: Looked) -> Iterator[Remark]:
    name = at.name
    refusing = [LIMITS[each] for each in at.around.providers if not _takes(LIMITS[each], name)]
    if not refusing:
        return
    whole = f"{joined(limit.called for limit in refusing)} {'takes' if len(refusing) == 1 else 'take'}"
    own = LIMITS.get(at.tool.format)
    every = len(refusing) == len(at.around.providers)
    yield Remark(
        f"{'No provider takes this name' if every else whole + ' no such name'}: {_why(refusing, name)}"
        f"{_instead(at, refusing)}.",
        severity="error" if own in refusing else "warning" if every else None,
    )


def _instead(at: Looked, refusing: list[NameLimit]) -> str:
    names = [
        name for name in plainer(at, min(each.longest for each in refusing)) if all(_takes(e, name) for e in refusing)
    ]
    return f", such as {quoted(names[0])}" if names else ""


def _takes(limit: NameLimit, name: str) -> bool:
    return len(name) <= limit.longest and limit.accepted.fullmatch(name) is not None


def _why(refusing: list[NameLimit], name: str) -> str:
    longest = min(limit.longest for limit in refusing)
    said = [f"it has {len(name):,} characters, and {longest} are the most"] if len(name) > longest else []
    by_signs = [limit for limit in refusing if limit.accepted.fullmatch(name) is None]
    if by_signs:
        strictest = min(by_signs, key=lambda limit: len(limit.allowed))
        said.append(f"use {strictest.allowed}" if name else "it is empty")
    return "; ".join(said)


RULE: Final = Rule(
    code="OG201",
    name="provider-limits",
    severity="note",
    what=(
        "The name is too long for a provider, or has characters that it refuses. An error where the format's own "
        "provider refuses it, a warning where all do, else a note. Limits: OpenAI and Bedrock 64 of letters, digits, "
        "`_` and `-`; Anthropic 128 of these; Gemini 64 of these and `.`, beginning with a letter or `_`; MCP 128 of "
        "letters, digits, `_`, `-` and `.`. `providers` in the settings says which count."
    ),
    why=(
        "The provider refuses the whole request with a 400, so the assistant is down, not only this tool. Or somebody "
        "replaces the characters on the way, and two tools become one."
    ),
    example="""\
{"tools": [{
  "name": "release prod",
  "description": "Say which release runs.",
  "inputSchema": {"type": "object", "properties": {}},
  "annotations": {"readOnlyHint": true}
}]}
""",
    instead="""\
{"tools": [{
  "name": "get_release",
  "description": "Say which release runs.",
  "inputSchema": {"type": "object", "properties": {}},
  "annotations": {"readOnlyHint": true}
}]}
""",
    check=_check,
)
