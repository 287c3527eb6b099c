"""OG109: taken for a read by declaration, though the name changes something (3.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import quoted

_BY: Final = {
    "tool": "the tool's own side_effecting",
    "company": "a company's override",
    "platform_override": "the platform's override",
}


def _check(at: Looked) -> Iterator[Remark]:
    verdict, by_name = at.verdict, at.by_name
    if not at.declared or verdict.side_effecting or not by_name.side_effecting or by_name.verb is None:
        return
    yield Remark(
        f"By {_BY[verdict.source]} it is a read though {quoted(by_name.verb)} changes something: its calls are neither "
        "recorded nor kept from running twice; make sure that nothing is changed.",
    )


RULE: Final = Rule(
    code="OG109",
    name="declared-against-name",
    severity="note",
    what="A declaration or an override makes a tool a read whose name has a verb that changes something.",
    why=(
        "Declarations come first (3.3), which is right for `add_numbers` and a lost order for `add_to_order`. Nothing "
        "else will ask again."
    ),
    example="""\
[company]
name = "acme"

[tools.add_to_order]
description = "Add an item to an order."
endpoint = "https://shop.example/tools"
side_effecting = false
parameters = '{"type": "object", "properties": {"order_id": {"type": "string"}}, "additionalProperties": false}'
""",
    instead="""\
[company]
name = "acme"

[tools.add_to_order]
description = "Add an item to an order."
endpoint = "https://shop.example/tools"
idempotency = "safe_to_retry"
parameters = '{"type": "object", "properties": {"order_id": {"type": "string"}}, "additionalProperties": false}'
""",
    check=_check,
)
