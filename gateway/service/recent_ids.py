"""A guess whether a call is new, so that the likelier question is asked of the ledger first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

MOST_KEPT: Final = 50_000


class RecentIds:
    """The ids this process was asked for lately. Wrong guesses cost time, never correctness: the ledger decides."""

    def __init__(self) -> None:
        # Not a dict that loses its first key: finding that again walks over every one that was lost before it.
        self._kept: OrderedDict[bytes, None] = OrderedDict()

    def known(self, slot: bytes | None) -> bool:
        """Whether this id came before; from now on it has."""
        if slot is None:
            return False
        if slot in self._kept:
            return True
        self._kept[slot] = None
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return False
