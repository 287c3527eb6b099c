"""A parsed document that still knows where each of its parts stood, and the places of one tool within it.

Positions are asked for far less often than documents are read: a source answers them late, part by part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from heuristics.declared_tool import Place

__all__ = ["At", "Source", "Spot", "Target", "ToolPlaces", "Unlocated", "place_of", "pointer_of", "value_at"]

At: TypeAlias = tuple[str | int, ...]
"""The way to a part: keys and list indices from the document's root."""
Spot: TypeAlias = tuple[int, int]
"""Line and column, both from 1; a column counts characters."""


class Source(Protocol):
    """`value` is made of dict (keys are str), list, str, int, float, bool and None; in TOML also dates."""

    @property
    def path(self) -> str: ...

    @property
    def value(self) -> Any: ...

    def spot(self, at: At, *, of_value: bool = False) -> Spot | None:
        """Where a part stands: a member at its key (or, if wanted, its value), an element at itself."""
        ...


@dataclass(frozen=True, slots=True)
class Unlocated:
    """A document without positions, as one that came over a wire."""

    path: str
    value: Any

    def spot(self, at: At, *, of_value: bool = False) -> Spot | None:
        return None


def pointer_of(at: At) -> str:
    """The JSON Pointer (RFC 6901) of a part."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in at)


def value_at(value: Any, at: At) -> Any:
    """The part itself. Raises KeyError if there is none."""
    for step in at:
        try:
            value = value[step]
        except (LookupError, TypeError):
            raise KeyError(pointer_of(at)) from None
    return value


def place_of(source: Source, at: At = (), *, of_value: bool = False) -> Place:
    line, column = source.spot(at, of_value=of_value) or (None, None)
    return Place(source.path, line, column, pointer_of(at))


class Target(NamedTuple):
    """Where one part of a tool comes from. What lies below it lies below `inner` there, or has, with `whole`, no
    place of its own."""

    source: Source
    at: At
    of_value: bool = False
    whole: bool = False
    inner: At = ()


@dataclass(frozen=True, slots=True)
class ToolPlaces(Mapping[str, Place]):
    """`DeclaredTool.places`, found when asked for. `targets` has the pointers that do not follow from a longer one:
    all that lies below a target is found below what the target names. `below` has what the pointers lead through."""

    targets: Mapping[str, Target]
    below: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, pointer: str) -> Place:
        head = pointer
        while head not in self.targets:
            if not head:
                raise KeyError(pointer)
            head = head[: head.rindex("/")] if "/" in head else ""
        target = self.targets[head]
        value = self.below.get(head)
        steps: list[str | int] = []
        for token in pointer[len(head) :].split("/")[1:]:
            key: str | int = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list):
                if not (token.isascii() and token.isdecimal() and len(token) < 10):
                    raise KeyError(pointer)
                key = int(token)
            elif not isinstance(value, Mapping):
                raise KeyError(pointer)
            try:
                value = value[key]  # type: ignore[index]  # a list gets an int, a mapping a str
            except LookupError:
                raise KeyError(pointer) from None
            steps.append(key)
        if target.whole:
            return place_of(target.source, target.at)
        if not steps:
            return place_of(target.source, target.at, of_value=target.of_value)
        at = (*target.at, *target.inner, *steps)
        place = place_of(target.source, at)
        while place.line is None and len(at) > len(target.at):  # what a reader put together stands where its parts do
            at = at[:-1]
            place = place_of(target.source, at)
        return place

    def __iter__(self) -> Iterator[str]:
        seen = set(self.targets)
        yield from self.targets
        todo = [(pointer, self.below[pointer]) for pointer in self.targets if pointer in self.below]
        while todo:
            pointer, value = todo.pop()
            parts: list[tuple[str | int, Any]] = []
            if isinstance(value, Mapping):
                parts = list(value.items())
            elif isinstance(value, list):
                parts = list(enumerate(value))
            for key, part in parts:
                inner = pointer + pointer_of((key,))
                if inner not in seen:
                    seen.add(inner)
                    yield inner
                todo.append((inner, part))

    def __len__(self) -> int:
        return sum(1 for _ in self)
