"""What the histories went through: faults by kind, answers, and the cells of the table in 4.1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from gateway.core import decisions as d
from gateway.core.conversation import View
from gateway.core.record import SETTLED, TRANSITIONS, Move, Status
from gateway.core.requests import Claim, Grant, Lose, Refuse, Release, Resolve, Settle, Withdraw
from gateway.service import deciding
from tests.faults.plan import How
from tests.faults.replies import FAULTS as REPLIED
from tests.faults.runtimes import DEATHS
from tests.faults.themes import FAULTS

Cell = tuple[str, str, str]
_OF_EFFORTS: Final = (
    *(f"runtime killed {when}" for when in DEATHS),
    *(f"runtime says {what}" for what in ("complete", "fail", "release", "renew")),
    *(
        "runtime naps at work",
        "runtime sleeps past its lease",
        "granted submission claimed",
        "approval granted",
        "approval denied",
    ),
    *("approval: approval_decided", "approval: approval_outdated", "approval: grant_refused", "approval: forbidden"),
)
KINDS: Final = frozenset(
    {*FAULTS, *REPLIED, *_OF_EFFORTS, "caller hangs up", *(str(how) for how in How if how is not How.NEW)}
)
"""Every kind of fault and every way to ask again that a run has to have met."""

UNREACHABLE: Final[dict[Cell, str]] = {}
"""Cells of TRANSITIONS that nothing can reach, and why: none."""
CELLS: Final = frozenset(
    (str(before), str(move), str(after))
    for before, moves in TRANSITIONS.items()
    for move, afters in moves.items()
    for after in afters
)
_MOVES: Final = {
    Settle: Move.SETTLE,
    Release: Move.RELEASE,
    Lose: Move.LOST,
    Resolve: Move.RESOLVE,
    Withdraw: Move.RELEASE,
    Grant: Move.GRANT,
    Refuse: Move.REFUSE,
}


@contextmanager
def watched() -> Generator[Counter[Cell]]:
    """Count the cells that the real `step` goes through meanwhile."""
    cells: Counter[Cell] = Counter()
    real = deciding.step

    def step(view: View, request: Any) -> d.Step:
        judged = real(view, request)
        for before, move, after in _cells(view, request, judged):
            cells[str(before), str(move), str(after)] += 1
        return judged

    deciding.step = step
    try:
        yield cells
    finally:
        deciding.step = real


def _cells(view: View, request: Any, judged: d.Step) -> list[tuple[Status, Move, Status]]:
    writes, decision = judged.writes, judged.decision
    found: list[tuple[Status, Move, Status]] = []
    for effect_id, after in writes.effects.items() if writes is not None else ():
        stood = view.effects.get(effect_id)
        before = Status.ABSENT if stood is None else stood.status
        becomes = Status.ABSENT if after is None else after.status
        move = _MOVES.get(type(request), Move.CLAIM)
        if isinstance(request, Resolve) and request.said_by_merchant:
            move = Move.SETTLE  # the merchant's own word ends it as its reply would have (5.4)
        if isinstance(decision, d.Again):
            move = Move.EXPIRE if becomes is Status.DENIED else Move.LOST
        if isinstance(decision, d.Reopened):
            move = Move.CLAIM  # held anew, since what was to be approved has changed
        found.append((before, move, becomes))
    if found:
        return found
    if isinstance(request, Claim):
        match decision:
            case d.Replay(effect=effect) | d.Blocked(effect=effect):
                return [(effect.status, Move.CLAIM, effect.status)]
            case d.Wait():
                return [(Status.EXECUTING, Move.CLAIM, Status.EXECUTING)]
    elif isinstance(request, Settle) and isinstance(decision, d.Settled | d.Conflicting):
        # What is said of a settled effect changes nothing: it is done, or a conflict.
        stands = decision.effect.status
        return [(stands, Move.SETTLE, stands)] if stands in SETTLED else []
    return []
