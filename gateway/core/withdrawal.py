"""Taking back a claim of which nobody knows whether it landed (promise 4.11). Pure."""

from __future__ import annotations

from gateway.core.conversation import View, Writes
from gateway.core.decisions import Gone, Need, Step
from gateway.core.record import UNENDING
from gateway.core.requests import Release, Withdraw
from gateway.core.settlement import end


def withdraw(view: View, request: Withdraw) -> Step:
    """Release what the claim's token holds; where it holds nothing, see to it that it never will.

    A claim that was sent may reach the ledger after this looked: a network or a stopped server can hold a command
    back for long, and what it then grants nobody runs and nobody ends. But it applies only if nothing has changed
    since it was decided, and every claim compares the slot of its fingerprint. So that slot is written anew, as it
    is: the late claim finds it changed. This costs a claim nothing.
    """
    claim = request.claim
    running = tuple(known.effect for known in view.identical.known if known.status in UNENDING)
    unread = tuple(effect for effect in running if effect not in view.effects)
    if unread:
        return Step(Need(unread))
    for effect_id in running:
        effect = view.effects[effect_id]
        if effect is not None and claim.token in effect.tokens:
            return end(view, Release(effect_id, claim.token, "claim withdrawn", claim.terms.retention_ms))
    return Step(Gone(), Writes(identical=view.identical, keep_ms=claim.terms.retention_ms, though_full=True))
