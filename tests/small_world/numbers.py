"""Things met during a search, each by a small number: a state of the world is then a tuple of integers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Numbers:
    """Equal keys get equal numbers; the first thing that came under a key stays."""

    def __init__(self) -> None:
        self._of: dict[Hashable, int] = {}
        self._things: list[Any] = []

    def of(self, key: Hashable, thing: Any = None) -> int:
        number = self._of.get(key)
        if number is None:
            number = self._of[key] = len(self._things)
            self._things.append(key if thing is None else thing)
        return number

    def __getitem__(self, number: int) -> Any:
        return self._things[number]

    def __len__(self) -> int:
        return len(self._things)
