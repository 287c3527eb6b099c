"""What a fault is played with: requests, ways to send them, and the merchant's own count before and after."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.commands.merchant_check.counting import count
from gateway.commands.merchant_check.exchange import Exchange
from gateway.commands.merchant_check.judging import Convicted
from gateway.commands.merchant_check.link import Link
from gateway.commands.merchant_check.target import Target
from gateway.commands.merchant_check.wire import Sealed, Writer

MOST_LOOKS: Final = 10


class Bench:
    """For one fault. `remarks` are said beside a verdict."""

    def __init__(self, target: Target, writer: Writer, link: Link) -> None:
        self.target = target
        self.write = writer
        self.link = link
        self.remarks: list[str] = []
        self._before: int | None = None

    async def begin(self, *, unsettled: bool) -> None:
        """Take the count that `must_have_done` starts from; `unsettled`: once it stands still, since what the last
        fault left running must not be charged to this one."""
        self._before = await count(self.target, self.write, self.link)
        for _ in range(MOST_LOOKS if unsettled and self._before is not None else 0):
            await self.settle()
            before, self._before = self._before, await count(self.target, self.write, self.link)
            if before == self._before:
                return

    async def send(self, what: str, sent: Sealed) -> Exchange:
        return await self.link.post(what, sent)

    async def settle(self) -> None:
        """Let the merchant end what nobody waits for."""
        await asyncio.sleep(self.target.settle_s)

    def remark(self, text: str) -> None:
        if text and text not in self.remarks:
            self.remarks.append(text)

    async def must_have_done(self, expected: int) -> None:
        """Raises Convicted if the merchant counts another number of new orders, now or a moment later."""
        if self._before is None:
            return
        at_once = await self._since()
        if at_once == expected == 0:
            return
        await self.settle()
        later = await self._since()
        if at_once < expected <= later:
            raise Convicted("the answer came before its order: it replies first and commits later")
        for found in (at_once, later):
            if found != expected:
                raise Convicted(f"it did {_times(found)}, where {_times(expected)} was right")

    async def must_have_done_nothing_by_now(self) -> None:
        """As `must_have_done(0)`, after what may still be under way has ended."""
        await self.settle()
        await self.must_have_done(0)

    async def _since(self) -> int:
        now = await count(self.target, self.write, self.link)
        assert now is not None
        assert self._before is not None
        return now - self._before


def _times(number: int) -> str:
    return {0: "nothing", 1: "one order"}.get(number, f"{number} orders")
