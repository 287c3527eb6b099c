"""The requests of a bench, encoded before they are needed: about 1 KB each, as a chat's runtime sends them.

A conversation has three turns of four calls, one after another on one connection; turn, step, attempt and id
are stated; no two orders are alike.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from benchmarks.processes import DEV_KEY, LOOPBACK

COMPANY: Final = "acme"
RULED: Final = "ruled"
"""A company whose every new call is judged by RULES."""
ORDER: Final = "place_order"
MENU: Final = "get_menu"
TURNS: Final = 3
STEPS: Final = 4

_NUMBER: Final = "%010d"
_ITEM: Final = {
    "type": "object",
    "properties": {
        "sku": {"type": "string", "maxLength": 64},
        "quantity": {"type": "integer", "minimum": 1, "maximum": 99},
        "note": {"type": "string", "maxLength": 200},
    },
    "required": ["sku", "quantity"],
    "additionalProperties": False,
}
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "cart": {"type": "string", "maxLength": 64},
        "customer": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "phone": {"type": "string", "pattern": "^[+0-9 ]{6,20}$"}},
            "required": ["name", "phone"],
        },
        "address": {"type": "string", "minLength": 3, "maxLength": 300},
        "items": {"type": "array", "items": _ITEM, "minItems": 1, "maxItems": 50},
        "payment": {"enum": ["cash", "card", "upi"]},
        "note": {"type": "string", "maxLength": 500},
    },
    "required": ["cart", "address", "items"],
    "additionalProperties": False,
}
_ARGUMENTS: Final[dict[str, Any]] = {
    "cart": f"cart-{_NUMBER}",
    "customer": {"name": "Anitha Varghese", "phone": "+91 98470 12345"},
    "address": "12 Marine Drive, Ernakulam, Kochi 682011, Kerala",
    "items": [
        {"sku": "masala-dosa", "quantity": 2, "note": "extra chutney, please pack the sambar apart"},
        {"sku": "filter-coffee", "quantity": 2, "note": "less sugar in one of them"},
        {"sku": "medu-vada", "quantity": 4},
        {"sku": "ghee-roast", "quantity": 1, "note": "crisp"},
        {"sku": "idli-plate", "quantity": 3},
    ],
    "payment": "upi",
    "note": "Please ring the bell twice and leave it with the guard at the gate if nobody opens the door. "
    "If the filter coffee has run out, send two teas with milk instead; anything else may be left out. "
    "We need two sets of plates and spoons, and a bill made out to the office.",
}


_DOCUMENT: Final[dict[str, Any]] = {
    "company": COMPANY,
    "conversation": f"c-{_NUMBER}",
    "tool_call_id": f"call_{_NUMBER}aVm3Kq",
    "tool": "",
    "arguments": _ARGUMENTS,
    "turn": f"t-{_NUMBER}",
    "step": "%d",
    "attempt": 1,
}


RULES: Final[list[dict[str, Any]]] = [
    {
        "id": f"rule-{number}",
        "priority": number,
        # Every tenth is about the tool and looks into its arguments; none of them is met, so all of these are asked.
        "when": {"target": "place_order", "arguments": {f"/items/{number // 10}/quantity": {"gt": 90}}}
        if number % 10 == 0
        else {"target": f"other_tool_{number:03}", "arguments": {"/total": {"gt": "5000.00"}}},
        "then": {"decision": "require_approval"},
    }
    for number in range(200)
]


class Calls:
    """Requests to one server: conversation, id, cart, turn and step are filled in, the rest is always the same."""

    def __init__(self, port: int, tool: str, company: str = COMPANY) -> None:
        body = json.dumps({**_DOCUMENT, "tool": tool, "company": company}).replace('"%d"', "%d").encode()
        head = (
            f"POST /v1/calls HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nAuthorization: Bearer {DEV_KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body % (0, 0, 0, 0, 0))}\r\n\r\n"
        )
        self._form = head.encode() + body

    def request(self, conversation: int, place: int) -> bytes:
        """The call at `place` (from 0) of a conversation."""
        number = conversation * TURNS * STEPS + place
        turn, step = divmod(place, STEPS)
        return self._form % (conversation, number, number, turn, step + 1)


class NewCalls:
    """Requests nobody has sent before; each connection gets conversations of its own.

    `made` keeps those that were answered, for replays (unless `keep` is off); `hot` is one of them.
    """

    def __init__(self, calls: Calls, *, keep: bool = True) -> None:
        self._calls = calls
        self._keep = keep
        self._numbers = itertools.count(1)
        self.made: deque[bytes] = deque()
        self.hot = b""

    def source(self) -> Iterator[bytes]:
        """An endless row of conversations, for one connection, which takes the next when the last is answered."""
        while True:
            conversation = next(self._numbers)
            for place in range(TURNS * STEPS):
                request = self._calls.request(conversation, place)
                yield request
                if self._keep:
                    self.made.append(request)
                    self.hot = self.hot or request


def asking(requests: Iterable[bytes]) -> Iterator[bytes]:
    """The same calls again and again with the attempt left out: no process may answer those by what it has kept, so
    each asks the ledger."""
    stated = b', "attempt": 1'
    again = []
    for request in requests:
        head, _, body = request.partition(b"\r\n\r\n")
        shorter = body.replace(stated, b"")
        length = b"Content-Length: %d"
        again.append(head.replace(length % len(body), length % len(shorter)) + b"\r\n\r\n" + shorter)
    return itertools.cycle(again)


def repeats(made: deque[bytes]) -> Iterator[bytes]:
    """Each once; ends when none is left."""
    while made:
        yield made.popleft()
