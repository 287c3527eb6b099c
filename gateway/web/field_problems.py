"""What is wrong with a request, field by field, all of it at once and none of its values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from gateway.core.errors import Malformed

MOST_NAMED: Final = 32
LONGEST_NAME: Final = 80


class FieldProblems:
    """Collects `{"field", "problem"}`: a JSON pointer (RFC 6901) into the body, or a parameter's name."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[dict[str, str]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, field: str, problem: str) -> None:
        """`field` as it is to be shown; "" is the whole body."""
        if len(self._found) < MOST_NAMED:
            self._found.append({"field": field, "problem": problem})

    def add_at(self, name: str, problem: str) -> None:
        """A top-level field of the body."""
        self.add("/" + _segment(name), problem)

    def add_unknown(self, names: Iterable[str]) -> None:
        for name in sorted(names)[:MOST_NAMED]:
            self.add_at(name, "is not a field of this request")

    def malformed(self) -> Malformed:
        """The error to raise; its message names the first few."""
        named = "; ".join(f"{p['field'] or 'the body'} {p['problem']}" for p in self._found[:3])
        more = f"; and {len(self._found) - 3} more" if len(self._found) > 3 else ""
        return Malformed(named + more, details={"fields": self._found})


def checked_query(model: type[BaseModel], sent: dict[str, str]) -> Any:
    """The query's parameters as `model`. Raises Malformed with every problem."""
    try:
        return model.model_validate(sent)
    except ValidationError as wrong:
        problems = FieldProblems()
        for loc, problem in _problems(wrong):
            problems.add(_cut(str(loc[0])) if loc else "", problem)
        raise problems.malformed() from None


def _problems(wrong: ValidationError) -> Iterable[tuple[tuple[int | str, ...], str]]:
    for found in wrong.errors(include_url=False, include_input=False, include_context=False):
        yield found["loc"], _WORDS.get(found["type"]) or _lowered(found["msg"])


_WORDS: Final = {"missing": "is missing", "extra_forbidden": "is not a field of this request"}


def _lowered(message: str) -> str:
    """Pydantic's sentence, as the end of ours: `Input should be …` -> `should be …`."""
    message = message.removeprefix("Value error, ").removeprefix("Input ")
    return message[:1].lower() + message[1:]


def _segment(name: str) -> str:
    return _cut(name).replace("~", "~0").replace("/", "~1")


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"
