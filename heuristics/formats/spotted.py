"""A document with the spot of each of its parts noted while it was read: YAML and TOML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from heuristics.formats.source import At, Spot

__all__ = ["Spots", "SpottedSource"]

Spots: TypeAlias = dict[int, dict[str | int, tuple[Spot, Spot]]]
"""`id` of an object or list of the document to the spots of its parts: key and value. Lives with the document."""


@dataclass(frozen=True, slots=True)
class SpottedSource:
    path: str
    value: Any
    spots: Spots = field(default_factory=dict)
    root: Spot = (1, 1)

    def spot(self, at: At, *, of_value: bool = False) -> Spot | None:
        found = (self.root, self.root)
        value = self.value
        for step in at:
            part = self.spots.get(id(value), {}).get(step)
            if part is None:
                return None
            found = part
            value = value[step]
        return found[1 if of_value else 0]
