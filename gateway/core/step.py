"""The one pure function that decides: `step(view, request)`.

Every rule about an effect's life is below it (`claim`, `repeats`, `granting`, `settlement`, `withdrawal`), over one
view; the ledger only compares and swaps.
"""

from __future__ import annotations

from gateway.core.claim import claim
from gateway.core.conversation import View
from gateway.core.decisions import Step
from gateway.core.requests import Claim, End, Withdraw
from gateway.core.settlement import end
from gateway.core.withdrawal import withdraw


def step(view: View, request: Claim | End | Withdraw) -> Step:
    """Judge one request against one view; the step's writes, if any, must hold before its decision may be used."""
    if isinstance(request, Claim):
        return claim(view, request)
    return withdraw(view, request) if isinstance(request, Withdraw) else end(view, request)
