"""Recorded calls as they stand in the file: one conversation a line, in the order they were made."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.replay.exact import arguments_of, exact, is_json

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
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines[:limit], 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            calls.extend(_call(document["conversation"], each) for each in document["calls"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadRecording(f"{path.name}, line {number}: {error!r}") from error
    if not calls:
        raise BadRecording(f"{path.name} holds no calls")
    return calls


def _call(conversation: str, each: dict[str, Any]) -> RecordedCall:
    for name in _TEXTS:
        if not isinstance(each[name], str):
            raise ValueError(f"{name} is not text")
    if type(each["step"]) is not int or each["step"] < 1:
        raise ValueError("step is not a whole number from 1")
    return RecordedCall(
        conversation=conversation,
        turn=str(each["turn"]),
        step=each["step"],
        tool_call_id=each["tool_call_id"],
        tool=each["tool"],
        arguments=each["arguments"],
        result=each["result"],
        what=(each["tool"], arguments_of(each["arguments"])),
    )
