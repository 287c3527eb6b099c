"""How the effects of a turn are named, so that a turn that is run again finds its own. Pure but for fresh tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from gateway.runtime.canonical import canonical, digest
from gateway.runtime.errors import BadCall


@dataclass(frozen=True, slots=True)
class Named:
    """`claim_token` and, of what is done at most once, the `tool_call_id` that finds it again. `what` and `number`
    are for `TurnNames.back`."""

    what: str
    number: int
    claim_token: str = field(repr=False)
    tool_call_id: str | None = None


class TurnNames:
    """Names for the effects of one attempt of one turn.

    What may be tried again gets a token that is a digest of where it stands: company, conversation, turn, attempt,
    kind, target, canonical arguments, and a number that tells identical ones apart. The same attempt, gone on with by
    another process, makes the same tokens: its claims are its own at once, its outcomes replay.

    What may be done once only never gets such a token: a second process would be told "yours" while the first may be
    at it still. Its token is drawn anew each time, and the digest is its `tool_call_id` (2.1): the second process
    waits for the first, and is told that the outcome is unknown should the first never report.

    Effects that run side by side are numbered as they are asked for. Identical ones among them are exchangeable."""

    def __init__(self, company: str, conversation: str, turn: str, attempt: int, fresh: Callable[[], str]) -> None:
        self._turn = ("oncegate.turn.1", company, conversation, turn)
        self._attempt = str(attempt)
        self._fresh = fresh
        self._used: dict[str, set[int]] = defaultdict(set)

    def next(self, kind: str, target: str, args: Mapping[str, Any], *, at_most_once: bool) -> Named:
        """Raises BadCall where `args` are not JSON."""
        try:
            what = digest(kind, target, canonical(args))
        except ValueError as fault:
            raise BadCall(f"this effect cannot be written as JSON: {fault}") from None
        number = next(each for each in count() if each not in self._used[what])
        self._used[what].add(number)
        if at_most_once:
            return Named(what, number, self._fresh(), f"turn_{digest(*self._turn, what, str(number))}")
        return Named(what, number, digest(*self._turn, self._attempt, what, str(number)))

    def back(self, named: Named) -> None:
        """It came to nothing that is recorded: tried again, it is still the same effect. Under the next number it
        would be one that a later run of the turn does not find, and does once more."""
        self._used[named.what].discard(named.number)
