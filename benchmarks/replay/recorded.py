"""Recorded calls as they stand in the file: one conversation a line, in the order they were made."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.replay.exact import arguments_of, exact, is_json
from gateway.core.identity import check_id
from gateway.core.registration import name_problem
from gateway.web.call_fields import MOST_COUNTED

REFUSAL: Final = "Error"
"""What the recorded answer of a refused call starts with."""

_TEXTS: Final = ("tool_call_id", "tool", "arguments", "result")


class BadRecording(Exception):
    """The file cannot be replayed. Says the line."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call and the answer it got. `arguments` is the model's text as it came."""

    conversation: str
    turn: str
    step: int
    tool_call_id: str
    tool: str
    arguments: str
    result: str
    what: Hashable = field(repr=False)
    """Tool and arguments as values: equal for identical calls."""

    @property
    def refused(self) -> bool:
        return self.result.startswith(REFUSAL)

    @property
    def shown(self) -> Any:
        """The result a runtime has to see, as an `exact` value: JSON as it is, text as a string, nothing as null."""
        if not self.result.strip():
            return None
        return exact(self.result) if is_json(self.result) else self.result

    @property
    def at_the_shop(self) -> Hashable:
        """What a merchant can tell calls apart by: a step is not among it."""
        return (self.conversation, self.turn, self.tool_call_id, self.what)

    @property
    def name(self) -> str:
        return f"{self.conversation} turn {self.turn} step {self.step} {self.tool} {self.tool_call_id}"


def load(path: Path, limit: int | None = None) -> list[RecordedCall]:
    """All calls of the first `limit` conversations. Raises BadRecording, OSError."""
    calls: list[RecordedCall] = []
    try:
        # Not splitlines(): texts in JSON may hold what it takes for the end of a line.
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise BadRecording(f"{path.name} is not UTF-8") from None
    for number, line in enumerate(lines[:limit], 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            conversation = _id("conversation", document["conversation"])
            calls.extend(_call(conversation, each) for each in document["calls"])
        except RecursionError:
            raise BadRecording(f"{path.name}, line {number}: nested too deeply") from None
        except (ValueError, KeyError, TypeError) as error:
            raise BadRecording(f"{path.name}, line {number}: {error!r}") from error
    if not calls:
        raise BadRecording(f"{path.name} holds no calls")
    return calls


def _call(conversation: str, each: dict[str, Any]) -> RecordedCall:
    for name in _TEXTS:
        if not isinstance(each[name], str):
            raise ValueError(f"{name} is not text")
    if (problem := name_problem(each["tool"])) is not None:
        raise ValueError(f"tool {problem}")
    each["result"].encode()  # a shop has to answer with it
    if type(each["step"]) is not int or not 1 <= each["step"] <= MOST_COUNTED:
        raise ValueError(f"step is not a whole number from 1 to {MOST_COUNTED:,}")
    if type(each["turn"]) not in (int, float, str):
        raise ValueError("turn is neither a number nor a text")
    return RecordedCall(
        conversation=conversation,
        turn=_id("turn", str(each["turn"])),
        step=each["step"],
        tool_call_id=_id("tool_call_id", each["tool_call_id"]),
        tool=each["tool"],
        arguments=each["arguments"],
        result=each["result"],
        what=(each["tool"], arguments_of(each["arguments"])),
    )


def _id(name: str, value: Any) -> str:
    try:
        return check_id(value)
    except ValueError as wrong:
        raise ValueError(f"{name} {wrong}") from None
