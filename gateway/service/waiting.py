"""Waiting for another's call to end (promise 4.8). Waiting never causes a second send."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.core.ports import Clock

FIRST_LOOK_S: Final = 0.02
LONGEST_LOOK_S: Final = 0.5


class Waiting:
    """Lets callers wait for an effect: woken at once by this process, by looking again for others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken: dict[bytes, asyncio.Event] = {}
        self._waits: dict[bytes, int] = {}

    def ended(self, effect_id: bytes) -> None:
        """Wake those in this process who wait for it."""
        event = self._woken.pop(effect_id, None)
        if event is not None:
            event.set()

    async def for_end(self, effect_id: bytes, deadline: float, looks: int) -> bool:
        """Until it ended here, or it is time to look at the ledger again; False once `deadline` has passed.

        `looks`: how often the caller has looked already; it waits longer each time."""
        left = deadline - self._clock.monotonic()
        if left <= 0:
            return False
        pause = min(left, LONGEST_LOOK_S, FIRST_LOOK_S * 2 ** min(looks, 8))
        event = self._woken.setdefault(effect_id, asyncio.Event())
        self._waits[effect_id] = self._waits.get(effect_id, 0) + 1
        sleeping = asyncio.ensure_future(self._clock.sleep(pause))
        waking = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
            self._waits[effect_id] -= 1
            if not self._waits[effect_id]:
                # Nothing is kept for an effect that nobody here waits for: memory stays flat (9.4).
                del self._waits[effect_id]
                if self._woken.get(effect_id) is event:
                    del self._woken[effect_id]
        return True
