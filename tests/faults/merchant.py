"""The merchant: its own orders, and what it honestly knows of a key. Nothing here trusts the gateway."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from merchant_sdk.errors import StoreBusy
from tests.faults.replies import GONE, OK, REPLIES, Meaning, Reply, Work
from tests.faults.sdk_shop import Ruled, SdkShop


@dataclass(frozen=True)
class Order:
    """One effect in the merchant's books."""

    number: int
    key: str
    conversation: str
    turn: str | None
    tool_call_id: str | None
    tool: str
    sku: str
    shop: str = ""

    @property
    def json(self) -> bytes:
        return b'{"order":"O-%d","sku":"%b"}' % (self.number, self.sku.encode())

    @property
    def text(self) -> bytes:
        return b"order O-%d of %b" % (self.number, self.sku.encode())


class Begun(NamedTuple):
    """A request that a shop has taken: how it will be answered, the SDK's shop whose work it is in, and the order that
    was found."""

    reply: Reply
    sdk: SdkShop | None
    first: Order | None = None


@dataclass
class Books:
    """Everything that the merchant ever did. `honours_keys`: tools whose requests are done once a key: their shops are
    written with the SDK, and the others' take whatever comes. `now` gives seconds."""

    honours_keys: frozenset[str]
    now: Callable[[], float]
    orders: list[Order] = field(default_factory=list)
    by_key: dict[str, list[Order]] = field(default_factory=dict)
    voided: set[tuple[str, str]] = field(default_factory=set)
    """Keys that a shop without the SDK will refuse, should they arrive there."""
    sdk_shops: dict[str, SdkShop] = field(default_factory=dict)
    on_the_way: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests that may yet become orders, by shop and key."""
    working: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those of them that have arrived."""

    def begin(self, shop: str, key: str, body: bytes, planned: Reply) -> Begun | None:
        """What it is going to do with a request that arrived; None: it has to wait for another under its key."""
        if (shop, key) in self.voided:
            return Begun(GONE, None)
        if json.loads(body)["tool"] not in self.honours_keys:
            return Begun(planned, None)
        sdk = self.sdk_shops.setdefault(shop, SdkShop(self.now))
        answers = planned.meaning in (Meaning.DONE, Meaning.REFUSED)
        try:
            stored = sdk.enter(key, body)
        except StoreBusy:
            return None
        except Ruled as no:
            return Begun((GONE if no.void else REPLIES[f"HTTP {no.status}"]) if answers else planned, None)
        if stored is None:
            return Begun(planned, sdk)
        first = next(order for order in self.orders if json.loads(order.json) == stored)
        return Begun(planned if planned.meaning is not Meaning.REFUSED else OK, None, first)

    def finish(self, shop: str, key: str, body: bytes, begun: Begun) -> Order | None:
        """Do the work, if it is one that is done; the order that the reply speaks of."""
        reply, sdk, first = begun
        if first is not None or (shop, key) in self.voided or reply is GONE:
            return first
        if sdk is None and json.loads(body)["tool"] in self.honours_keys:
            return None
        if reply.work is Work.NOT:
            if sdk is not None and reply.meaning is Meaning.REFUSED:
                sdk.refused(key, reply.status)
            elif sdk is not None:
                sdk.crashed(key)
            return None
        said = json.loads(body)
        context = said["context"]
        order = Order(
            len(self.orders) + 1,
            key,
            context["conversation"],
            context["turn"],
            context["tool_call_id"],
            said["tool"],
            said["arguments"]["sku"],
            shop,
        )
        if sdk is None:
            self._book(order)
        else:
            sdk.done(key, lambda: self._book(order), json.loads(order.json))
        return order

    def of(self, key: str) -> list[Order]:
        return self.by_key.get(key, [])

    def pending(self, key: str) -> bool:
        """Whether a request that is still on its way may yet become an order."""
        ways = (way for way, number in self.on_the_way.items() if way[1] == key and number > 0)
        return any(way not in self.voided and not self._knows(*way) for way in ways)

    def status(self, shop: str, key: str, tool: str, first_at: float | None) -> bytes:
        """What an honest endpoint says of a key. Binding: a shop that says void will refuse it later (5.4)."""
        if tool in self.honours_keys:
            return self.sdk_shops.setdefault(shop, SdkShop(self.now)).status(key, first_at).to_json().encode()
        done = [order for order in self.of(key) if order.shop == shop]
        if done:
            return b'{"status": "committed", "result": %b}' % done[0].json
        if self.working[shop, key]:
            return b'{"status": "in_progress"}'
        self.voided.add((shop, key))
        return b'{"status": "void"}'

    def _book(self, order: Order) -> None:
        self.orders.append(order)
        self.by_key.setdefault(order.key, []).append(order)

    def _knows(self, shop: str, key: str) -> bool:
        return shop in self.sdk_shops and self.sdk_shops[shop].knows(key)


def body_of(reply: Reply, order: Order | None) -> bytes:
    """The bytes of a reply: the order where there is one to speak of."""
    if reply.body is not None:
        return reply.body
    if order is None:
        return b"{}"
    return order.text if reply.content_type == "text/plain" else order.json
