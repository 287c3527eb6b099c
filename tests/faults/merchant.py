"""The merchant: its own orders, and what it honestly knows of a key. Nothing here trusts the gateway."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from tests.faults.replies import BUSY, GONE, Meaning, Reply, Way, Work


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
        return b'{"order": "O-%d", "sku": "%b"}' % (self.number, self.sku.encode())

    @property
    def text(self) -> bytes:
        return b"order O-%d of %b" % (self.number, self.sku.encode())


@dataclass
class Books:
    """Everything that the merchant ever did. `honours_keys`: tools whose requests are done once a key."""

    honours_keys: frozenset[str]
    orders: list[Order] = field(default_factory=list)
    by_key: dict[str, list[Order]] = field(default_factory=dict)
    voided: set[tuple[str, str]] = field(default_factory=set)
    """Keys that a shop will refuse, should they arrive there."""
    kept: dict[tuple[str, str], tuple[Reply, Order | None]] = field(default_factory=dict)
    """By shop, under keys that are honoured: the final answer, given again to whoever comes with the key again."""
    busy: set[tuple[str, str]] = field(default_factory=set)
    on_the_way: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests that may yet become orders, by shop and key."""
    working: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those of them that have arrived."""

    def begin(self, shop: str, key: str, body: bytes, planned: Reply) -> Reply:
        """What it is going to do with a request that arrived."""
        if (shop, key) in self.voided:
            return GONE
        if json.loads(body)["tool"] not in self.honours_keys:
            return planned
        if (shop, key) in self.kept and planned.meaning in (Meaning.DONE, Meaning.REFUSED):
            return self.kept[shop, key][0]
        if (shop, key) in self.busy and planned.way is Way.REPLY:
            return BUSY
        self.busy.add((shop, key))
        return planned

    def finish(self, shop: str, key: str, body: bytes, reply: Reply) -> Order | None:
        """Do the work, if it is one that is done; the order that the reply speaks of."""
        said = json.loads(body)
        honoured = said["tool"] in self.honours_keys
        if reply is not BUSY:
            self.busy.discard((shop, key))
        if (shop, key) in self.voided:
            return None
        if honoured and (shop, key) in self.kept:
            return self.kept[shop, key][1]
        if reply.work is Work.NOT:
            if honoured and reply.meaning is Meaning.REFUSED:
                self.kept[shop, key] = (reply, None)
            return None
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
        self.orders.append(order)
        self.by_key.setdefault(key, []).append(order)
        if honoured:
            plain = reply if reply.meaning is Meaning.DONE else Reply("order", Meaning.DONE, Work.DONE)
            self.kept[shop, key] = (plain, order)
        return order

    def of(self, key: str) -> list[Order]:
        return self.by_key.get(key, [])

    def pending(self, key: str) -> bool:
        """Whether a request that is still on its way may yet become an order."""
        ways = (way for way, number in self.on_the_way.items() if way[1] == key and number > 0)
        return any(way not in self.voided and way not in self.kept for way in ways)

    def void(self, shop: str, key: str) -> None:
        """Binding: the shop will refuse the key, should it arrive later (5.4)."""
        self.voided.add((shop, key))


def body_of(reply: Reply, order: Order | None) -> bytes:
    """The bytes of a reply: the order where there is one to speak of."""
    if reply.body is not None:
        return reply.body
    if order is None:
        return b"{}"
    return order.text if reply.content_type == "text/plain" else order.json
