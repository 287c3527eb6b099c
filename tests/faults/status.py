"""The merchant's status endpoint (5.4), and the wire to it: what an honest one says, and what others do.

Nobody can hold the gateway to a `void` that does not bind, or to a `committed` of what was never done; but a merchant
that only fails to answer, or that answers too early or too late, changes nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from gateway.core.outcome import Reason, Seen, SeenKind
from gateway.core.ports import MerchantRequest
from tests.faults.clock import wake
from tests.faults.loop import NOBODY
from tests.faults.plan import Fault, On
from tests.faults.shop import STATUS

if TYPE_CHECKING:
    from tests.faults.gateways import Process
    from tests.faults.run import World

NO_ANSWERS: Final = {
    "404": (404, b'{"status": "void"}'),
    "503": (503, b""),
    "html": (200, b"<html>unknown order</html>"),
    "another word": (200, b'{"status": "unknown"}'),
    "both words": (200, b'{"status": "void", "status": "committed"}'),
    "empty": (200, b""),
}
"""Answers that say nothing, whatever the merchant knows."""
FAULTS: Final = {
    "status endpoint says nothing": tuple(NO_ANSWERS),
    "status endpoint is away": ("no connection", "slow", "reply lost"),
    "status endpoint says in_progress": ("in_progress",),
    "status endpoint's void does not bind": ("void",),
    "status endpoint lies": ("committed", "committed, another result"),
}
"""What one may do but be honest, by kind."""
MISTAKEN: Final = ("status endpoint's void does not bind", "status endpoint lies")


class StatusWire:
    """The exchange of one question."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    async def ask(self, request: MerchantRequest, *, deadline_s: float) -> Seen:
        world, loop = self._world, self._world.loop
        said = json.loads(request.body)
        key = said["idempotency_key"]
        fault = world.meets(On.ASK)
        if fault is not None:
            world.inject(fault, None)
        world.watch.asking(self._process, key, request)
        if fault is not None and fault.what == "no connection":
            return Seen(SeenKind.NOT_CONNECTED, Reason.CONNECT_FAILED, False)
        heard = loop.create_future()
        timer = loop.call_later(deadline_s, wake, heard, context=NOBODY)
        shop = request.url.removesuffix(STATUS)
        loop.call_later(world.distance(10), self._arrive, shop, said, fault, heard, context=NOBODY)
        try:
            answer = await heard
        finally:
            timer.cancel()
        if answer is None:
            return Seen(SeenKind.TIMEOUT, Reason.TIMED_OUT, True)
        status, body = answer
        world.watch.told(self._process, key, body, honest=fault is None)
        return Seen(SeenKind.REPLY, Reason.REPLIED, True, status, "application/json", None, "", body)

    def _arrive(self, shop: str, said: Any, fault: Fault | None, heard: Any) -> None:
        world, key = self._world, said["idempotency_key"]
        answer = self._answer(shop, said, fault)
        world.say("merchant", f"is asked about {key[:8]}, answers {answer[0]} {answer[1].decode()}")
        back = world.distance(11)
        if fault is not None and fault.what == "slow":
            back += 2.5
        if fault is None or fault.what != "reply lost":
            world.loop.call_later(back, _hear, heard, answer, context=NOBODY)

    def _answer(self, shop: str, said: Any, fault: Fault | None) -> tuple[int, bytes]:
        key = said["idempotency_key"]
        if fault is not None and fault.what in NO_ANSWERS:
            return NO_ANSWERS[fault.what]
        if fault is not None and fault.kind in MISTAKEN:
            self._world.watch.said_wrongly[key] = fault.kind
            result = b', "result": {"order": "O-0"}' if "another" in fault.what else b""
            return 200, b'{"status": "%b"%b}' % (fault.what.partition(",")[0].encode(), result)
        if fault is not None and fault.what == "in_progress":
            return 200, b'{"status": "in_progress"}'
        return 200, self._world.books.status(shop, key, said["tool"], said.get("first_at"))


def _hear(heard: Any, answer: tuple[int, bytes]) -> None:
    if not heard.done():
        heard.set_result(answer)
