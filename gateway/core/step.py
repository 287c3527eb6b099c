"""The one pure function that decides: `step(view, request)`.

Every rule about an effect's life is below it (`claim`, `repeats`, `granting`, `settlement`), over one view; the
ledger only compares and swaps.
"""

from __future__ import annotations

from gateway.core.claim import claim
from gateway.core.conversation import View
from gateway.core.decisions import Step
from gateway.core.requests import Claim, End
from gateway.core.settlement import end


def step(view: View, request: Claim | End) -> Step:
    """Judge one request against one view; the step's writes, if any, must hold before its decision may be used."""
    return claim(view, request) if isinstance(request, Claim) else end(view, request)
