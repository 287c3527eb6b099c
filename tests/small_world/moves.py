"""Where a request stands, and one thing that can happen to it."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.small_world.answers import Answer

UNREAD: Final = -1
NOBODY: Final = -1
OVER: Final = ("over", "dead")


class Worker(NamedTuple):
    """Where one request stands. Numbers name what the machine has met: a request, a where, a view, a record."""

    caller: int
    token: int
    gateway: int
    phase: str
    request: int
    where: int = UNREAD
    view: int = UNREAD
    since: int = 0
    """The worker's clock when its claim left (4.5)."""
    effect: int = UNREAD
    tries: int = 0
    sends: int = 0
    reply: str | None = None
    unknown: bool = False
    """Whether an earlier try may have been carried out."""
    answered: bool = False


class Move(NamedTuple):
    """One thing that can happen; `delayed` is a swap that is under way still: (request, where, view)."""

    told: str
    contents: int
    worker: Worker
    answer: Answer | None = None
    delayed: tuple[int, int, int] | None = None


def over(worker: Worker, phase: str = "over") -> Worker:
    """Done, or "dead" with its gateway, and nothing remembered but who it was."""
    return Worker(worker.caller, worker.token, worker.gateway, phase, 0, answered=True)
