"""`/readyz`: can this process take a new call now?"""

from __future__ import annotations

import asyncio

from gateway.core.errors import GatewayError, LedgerUnavailable, Stopping
from gateway.web.operations import Asked
from gateway.web.replies import Reply, json_reply
from gateway.web.services import Services


class Readiness:
    """Asks the ledger, for everyone who asks meanwhile: anonymous probes cannot multiply into ledger traffic."""

    def __init__(self, services: Services) -> None:
        self._ledger = services.ledger
        self._stopping = services.stopping
        self._wait_s = services.limits.ready_s
        self._probe: asyncio.Task[Exception | None] | None = None

    async def __call__(self, asked: Asked) -> Reply:
        """Raises Stopping, LedgerUnavailable within the wait."""
        if self._stopping.begun:
            raise Stopping
        if self._probe is None or self._probe.done():
            self._probe = asyncio.get_running_loop().create_task(self._ask())
        done, _ = await asyncio.wait({self._probe}, timeout=self._wait_s)
        if not done:
            raise LedgerUnavailable(f"the ledger did not say within {self._wait_s:g} s that a claim could be written")
        fault = self._probe.result()
        if isinstance(fault, GatewayError):
            raise LedgerUnavailable(fault.message)
        if fault is not None:
            raise LedgerUnavailable(f"the ledger cannot be asked: {type(fault).__name__}")
        return json_reply({"status": "ok"})

    async def _ask(self) -> Exception | None:
        try:
            await self._ledger.ready()
        except Exception as fault:
            return fault
        return None
