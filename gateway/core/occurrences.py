"""Which occurrence a call is, and so which effect (promises 2.4, 2.5, 2.7). Pure."""

from __future__ import annotations

from typing import NamedTuple

from gateway.core.conversation import View
from gateway.core.requests import Claim


class Occurrence(NamedTuple):
    """The number a call has within its turn and attempt, and the effect which that number names."""

    number: int
    effect: bytes


def occurrence_of(view: View, request: Claim) -> Occurrence:
    """What a call that its id does not name would be: the lowest number free in its attempt.

    A number that another attempt gave to an effect names that effect, also one of another turn that the call
    was answered with: else a turn that is run over, whose repeat was replayed, would do the work again.
    Without an id, number zero is the key (2.7); of what is submitted its token is (7.2).
    """
    within, attempt = request.numbered_within, request.attempt(view)
    if request.tool_call_id is None and not request.submitted:
        return Occurrence(0, _named(view, request, within, 0))
    number = view.identical.lowest_free(within, attempt)
    return Occurrence(number, _named(view, request, within, number))


def _named(view: View, request: Claim, within: str, number: int) -> bytes:
    fresh = request.effect_id(number)
    others = {
        t.attempt: t.effect
        for t in view.identical.taken
        if t.place == within and t.number == number and t.effect != fresh and view.may_stand(t.effect)
    }
    if not others or view.identical.numbers(fresh, within, number):
        return fresh
    return others[max(others)]
