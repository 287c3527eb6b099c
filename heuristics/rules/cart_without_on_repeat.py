"""OG111: a cart tool that does not say what a second identical call means (4.9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule

_CARTS: Final = frozenset({"cart", "carts", "basket", "baskets", "bag", "trolley", "carrito", "panier", "warenkorb"})
_ADDING: Final = frozenset({"add", "put", "append", "insert", "increase", "increment", "anadir", "ajouter"})


def _check(at: Looked) -> Iterator[Remark]:
    if at.tool.format != "oncegate" or not at.side_effecting or at.tool.extras.get("on_repeat") is not None:
        return
    words = set(at.words)
    if words.isdisjoint(_CARTS) or words.isdisjoint(_ADDING):
        return
    yield Remark(
        'The same call a moment later is held as a repeat, but "one more" is wanted in a cart: say on_repeat = "run", '
        'or "hold" if a second one never is.',
    )


RULE: Final = Rule(
    code="OG111",
    name="cart-without-on-repeat",
    severity="warning",
    what="A tool puts something into a cart and does not say `on_repeat` (4.9).",
    why=(
        'An identical call within a minute is held by default, which is right for orders. For a cart, "and another '
        'one" is an ordinary wish: the customer asks for two and gets one and a question.'
    ),
    example="""\
[company]
name = "acme"

[tools.add_to_cart]
description = "Put one item into the cart."
endpoint = "https://shop.example/tools"
idempotency = "safe_to_retry"
parameters = '{"type": "object", "properties": {"item_id": {"type": "string"}}, "additionalProperties": false}'
""",
    instead="""\
[company]
name = "acme"

[tools.add_to_cart]
description = "Put one item into the cart."
endpoint = "https://shop.example/tools"
idempotency = "safe_to_retry"
on_repeat = "run"
parameters = '{"type": "object", "properties": {"item_id": {"type": "string"}}, "additionalProperties": false}'
""",
    check=_check,
)
