"""OG110: a mutating tool that does not say what may be done about an unknown outcome (4.6)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule

_STATED: Final = ("idempotency", "status_endpoint", "unavailable_means_not_executed", "key")
_ARGUMENT: Final = frozenset({"idempotencykey", "requestid", "clientrequestid", "clienttoken", "idempotencytoken"})
_SAYS: Final = {
    "oncegate": 'say idempotency = "safe_to_retry" (the shop honours Idempotency-Key) or "at_most_once", or name a '
    "status_endpoint",
    "mcp": "say idempotentHint, true or false",
    "openapi": "declare an Idempotency-Key header",
}


def _check(at: Looked) -> Iterator[Remark]:
    tool = at.tool
    say = _SAYS.get(tool.format)
    if say is None or not at.side_effecting or tool.hints.idempotent is not None:
        return
    if at.method in ("PUT", "DELETE") or any(tool.extras.get(name) is not None for name in _STATED):
        return
    if any(field.top and _is_key(field.name) for field in at.fields.all):
        return
    yield Remark(
        f"Nothing says whether a call may be sent again, so one whose answer is lost stays unknown until somebody "
        f"looks: {say}.",
    )


@lru_cache(maxsize=4_096)
def _is_key(name: str) -> bool:
    return name.replace("-", "").replace("_", "").lower() in _ARGUMENT


RULE: Final = Rule(
    code="OG110",
    name="no-idempotency-contract",
    severity="note",
    what=(
        "A tool changes something and does not say what a repeat does: no `idempotency` or `status_endpoint` "
        "(Oncegate), no `idempotentHint` (MCP), no `Idempotency-Key` and no PUT or DELETE (OpenAPI), and no argument "
        "that is such a key. Formats that cannot say it are not asked."
    ),
    why=(
        "When an answer is lost, nobody knows whether the order was placed. Without a contract it must not be sent "
        "again (4.6): the customer waits until a person has looked."
    ),
    example="""\
[company]
name = "acme"

[tools.place_order]
description = "Order what is in the cart."
endpoint = "https://shop.example/tools"
parameters = '{"type": "object", "properties": {"cart_id": {"type": "string"}}, "additionalProperties": false}'
""",
    instead="""\
[company]
name = "acme"

[tools.place_order]
description = "Order what is in the cart."
endpoint = "https://shop.example/tools"
idempotency = "safe_to_retry"
parameters = '{"type": "object", "properties": {"cart_id": {"type": "string"}}, "additionalProperties": false}'
""",
    check=_check,
)
