"""Somebody says how an unknown outcome ended: an operator, or a runtime that names its evidence (promise 5.5)."""

from __future__ import annotations

import logging
from typing import Any

from gateway.core import decisions as d
from gateway.core.answer import iso
from gateway.core.errors import Malformed, NotFound, NotIndeterminate
from gateway.core.model import Principal, Role
from gateway.core.ports import Ledger
from gateway.core.record import Effect, Outcome, Status
from gateway.core.requests import Resolve
from gateway.core.rights import Right, allowed, may
from gateway.service.deciding import Decider
from gateway.service.declarations import Resolution
from gateway.service.find_effect import find_effect, nothing_recorded
from gateway.service.look_up import record_body
from gateway.service.registry import Registry
from gateway.service.waiting import Waiting

_log = logging.getLogger("oncegate.calls")


class ResolveUnknown:
    """`POST /v1/effects/{effect_id}/resolve`. Said again with the same outcome it changes nothing (4.3)."""

    def __init__(
        self, *, registry: Registry, ledger: Ledger, decider: Decider, waiting: Waiting, result_cap: int
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._decider = decider
        self._waiting = waiting
        self._result_cap = result_cap

    async def __call__(self, principal: Principal, effect_id: str, said: Resolution) -> dict[str, Any]:
        """The record as it then stands; `absent` frees its id and its number for a new call (2.4).

        Raises Forbidden, Malformed, NotFound, NotIndeterminate (it names what stands) and LedgerUnavailable.
        """
        await self._registry.refresh()
        self._may(principal, said)
        effect = await find_effect(self._ledger, said.company, said.conversation, effect_id)
        retention_ms = int(self._registry.company(said.company).retention_s * 1000)
        request = Resolve(
            effect.effect_id,
            self._outcome(said),
            principal.name,
            said.note,
            retention_ms,
            said.evidence,
            token=effect.tokens[-1] if effect.tokens else None,
        )
        decision, view = await self._decider.end(request, effect)
        self._waiting.ended(effect.effect_id)
        stands = view.effects.get(effect.effect_id)
        if isinstance(decision, d.Late) or stands is None:
            raise _refused(stands)
        shown = {"effect_id": effect.hex, "outcome": said.outcome, "by": principal.name}
        _log.info("an unknown outcome was resolved", extra=shown)
        return record_body(stands, allowed(principal, Right.READ_RESULTS, said.company))

    def _may(self, principal: Principal, said: Resolution) -> None:
        company = self._registry.company(said.company)
        runtime = principal.role is Role.RUNTIME and principal.may_see(said.company)
        if not (runtime and company.runtime_may_resolve):
            may(principal, Right.RESOLVE, said.company)
        elif said.evidence is None:
            raise Malformed(
                "a runtime resolves an outcome only by naming its evidence",
                details={"fields": [{"field": "/evidence", "problem": "is required of a runtime key"}]},
            )

    def _outcome(self, said: Resolution) -> Outcome | None:
        if said.outcome == "absent":
            return None
        if said.outcome == "failed":
            return Outcome(Status.FAILED, fault=said.fault)
        if said.result is not None and len(said.result) > self._result_cap:
            return Outcome(Status.SUCCEEDED, dropped=True)
        return Outcome(Status.SUCCEEDED, said.result)


def _refused(stands: Effect | None) -> NotFound | NotIndeterminate:
    if stands is None:
        return nothing_recorded()
    if stands.status is Status.EXECUTING:
        message = "It is still executing. Should its outcome stay unknown, it can be resolved then."
    else:
        message = f"Its outcome is not unknown: it stands as {stands.status.value}. Nothing was changed."
    details = {"stands": {"status": stands.status.value, "settled_at": iso(stands.settled_at)}}
    return NotIndeterminate(message, details=details)
