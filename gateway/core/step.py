"""The one pure function that decides: `step(view, request)`.

Every rule about an effect's life is below it (`claim`, `repeats`, `granting`, `holding`, `approving`, `settlement`,
`withdrawal`), over one view; the ledger only compares and swaps.
"""

from __future__ import annotations

from gateway.core.approving import grant_approval, refuse
from gateway.core.claim import claim
from gateway.core.conversation import View
from gateway.core.decisions import Step
from gateway.core.expiry import judge_expiry
from gateway.core.renewal import renew
from gateway.core.requests import Claim, Expire, Grant, Refuse, Renew, Request, Withdraw
from gateway.core.settlement import end
from gateway.core.withdrawal import withdraw


def step(view: View, request: Request) -> Step:
    """Judge one request against one view; the step's writes, if any, must hold before its decision may be used."""
    match request:
        case Claim():
            return claim(view, request)
        case Withdraw():
            return withdraw(view, request)
        case Grant():
            return grant_approval(view, request)
        case Refuse():
            return refuse(view, request)
        case Expire():
            return judge_expiry(view, request)
        case Renew():
            return renew(view, request)
        case _:
            return end(view, request)
