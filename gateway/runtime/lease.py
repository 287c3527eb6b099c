"""Keeping a claim while its work lasts (7.2)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from gateway.runtime.errors import OncegateError, Problem

RENEWALS_A_LEASE = 3
"""So two renewals may be lost before the lease is."""
DEFAULT_LEASE_S = 60.0


@contextlib.asynccontextmanager
async def renewed(
    renew: Callable[[], Awaitable[object]], lease_s: float | None, sleep: Callable[[float], Awaitable[object]]
) -> AsyncIterator[None]:
    """Renews in the background for as long as the block lasts. A lease that is lost stops the renewing, not the
    work: its success still counts where nothing else is recorded (4.4)."""
    every_s = (lease_s or DEFAULT_LEASE_S) / RENEWALS_A_LEASE
    renewing = asyncio.create_task(_renew(renew, every_s, sleep))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def _renew(
    renew: Callable[[], Awaitable[object]], every_s: float, sleep: Callable[[float], Awaitable[object]]
) -> None:
    while True:
        await sleep(every_s)
        try:
            await renew()
        except Problem as problem:
            if problem.status in (404, 409):
                return
        except OncegateError:
            continue  # the gateway is away; the next renewal may find it
