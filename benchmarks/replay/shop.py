"""The shop of a replay: gives the recorded answer for the recorded call, and writes down all that reached it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

from benchmarks.processes import LOOPBACK
from benchmarks.replay.exact import exact, frozen, is_json
from benchmarks.replay.expected import Expected, Fate
from benchmarks.replay.recorded import RecordedCall
from merchant_sdk import SignatureError, verify

REFUSED: Final = 422
_LARGEST: Final = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request that reached the shop. `call` is None for one that nobody recorded."""

    call: RecordedCall | None
    key: str | None
    note: str = ""


class RecordedShop:
    """`async with RecordedShop() as shop`, then `prepare`, then `shop.url`."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.url = ""
        self._secret = ""
        self._answers: dict[Hashable, list[RecordedCall]] = {}
        self._keys: dict[Hashable, list[str]] = defaultdict(list)
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_post("/tools", self._serve)
        self._runner = web.AppRunner(app, access_log=None)

    def prepare(self, expected: Iterable[Expected], secret: str) -> None:
        """What to answer, and the secret requests are signed with."""
        self._secret = secret
        self._answers.clear()
        for each in expected:
            if each.fate in (Fate.SENT, Fate.READ):
                self._answers.setdefault(each.call.at_the_shop, []).append(each.call)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/tools"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        body = await request.read()
        key = request.headers.get("Idempotency-Key")
        note = self._fault(request, body, key)
        call = self._recorded(exact(body), key)
        self.deliveries.append(Delivery(call, key, note if call else f"{note} not among the recorded calls".strip()))
        if call is None:
            return web.Response(status=REFUSED, text="Error: nobody recorded this call")
        if call.refused:
            return web.Response(status=REFUSED, text=call.result)
        kind = "application/json" if is_json(call.result) else "text/plain"
        return web.Response(body=call.result.encode(), content_type=kind, charset="utf-8")

    def _fault(self, request: web.Request, body: bytes, key: str | None) -> str:
        try:
            verified = verify([self._secret], request.headers, body, now=time.time())
        except SignatureError as error:
            return f"signature: {error}"
        return "Idempotency-Key and webhook-id differ" if key not in (None, verified.id) else ""

    def _recorded(self, document: Any, key: str | None) -> RecordedCall | None:
        """Which recorded call this is. Where several look alike to a merchant, each new key is the next of them."""
        context = document["context"]
        what = (document["tool"], frozen(document["arguments"]))
        place = (context["conversation"], context["turn"], context["tool_call_id"], what)
        alike = self._answers.get(place)
        if alike is None:
            return None
        if key is None:
            return alike[0]
        keys = self._keys[place]
        if key not in keys:
            keys.append(key)
        return alike[min(keys.index(key), len(alike) - 1)]
