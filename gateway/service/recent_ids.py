"""A guess whether a call is new, so that the likelier question is asked of the ledger first."""

from __future__ import annotations

from typing import Final

MOST_KEPT: Final = 20_000


class RecentIds:
    """The ids this process was asked for lately, in two halves: once the newer one is full, the older one goes. Wrong
    guesses cost time, never correctness: the ledger decides."""

    def __init__(self) -> None:
        self._newer: set[bytes] = set()
        self._older: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def known(self, slot: bytes | None) -> bool:
        """Whether this id came before; from now on it has."""
        if slot is None:
            return False
        if slot in self._newer or slot in self._older:
            return True
        if len(self._newer) >= MOST_KEPT // 2:
            self._older, self._newer = self._newer, set()
        self._newer.add(slot)
        return False
