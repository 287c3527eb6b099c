"""Renewing a lease: whoever runs a submitted effect says that it is still at work (promise 7.2). Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.core.conversation import Event, View, Writes
from gateway.core.decisions import Late, Renewed, Step
from gateway.core.granting import lapse
from gateway.core.record import Move, Status, check_move
from gateway.core.requests import Renew

LONGEST_MS: Final = 86_400_000
"""How long a claim may be at work, however often its lease is renewed: each renewal is a line in the log (9.4)."""


def renew(view: View, request: Renew) -> Step:
    """The lease counts anew; a stale token, or one whose lease has lapsed, is too late."""
    effect = view.effects.get(request.effect_id)
    if effect is None or view.now_ms is None:
        return Step(Late(effect))
    if effect.lapsed(view.now_ms):
        return lapse(view, effect)
    ours = effect.status is Status.EXECUTING and effect.tokens[-1] == request.token
    # From when it was claimed, which stays: it may have been held for days, or been taken up again, before that.
    at_work = 0 if effect.claimed_at is None else view.now_ms - effect.claimed_at
    if not ours or at_work >= LONGEST_MS:
        return Step(Late(effect))
    check_move(effect.status, Move.CLAIM, effect.status)
    after = msgspec.structs.replace(effect, lease_ms=max(effect.lease_ms, at_work + request.lease_ms))
    event = Event("effect.renewed", effect.effect_id, {"lease_s": request.lease_ms / 1000})
    return Step(Renewed(after), Writes(effects={effect.effect_id: after}, events=(event,)))
