"""OG105: an annotation says one thing, the HTTP method another (3.4, RFC 9110 section 9.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule


def _check(at: Looked) -> Iterator[Remark]:
    hints, method = at.tool.hints, at.method
    if hints.read_only and method in ("PUT", "PATCH", "DELETE"):
        yield Remark(
            f"readOnlyHint says that it only reads, but {method} writes; it is taken for side-effecting: correct the "
            "hint or the method.",
        )
    elif method in ("GET", "HEAD") and (hints.read_only is False or hints.destructive):
        said = "readOnlyHint: false" if hints.read_only is False else "destructiveHint: true"
        yield Remark(
            f"{said} says that it changes something, but {method} must not (RFC 9110, 9.2.1), and proxies and clients "
            "may send it again: use POST.",
        )
    elif hints.idempotent is False and method in ("PUT", "DELETE"):
        yield Remark(
            f"idempotentHint says that a repeat does more, but a repeated {method} must not (RFC 9110, 9.2.2): use "
            "POST, or correct the hint.",
            severity="note",
        )


RULE: Final = Rule(
    code="OG105",
    name="hint-contradicts-method",
    severity="warning",
    what=(
        "An annotation and the HTTP method contradict each other: `readOnlyHint: true` on a PUT, PATCH or DELETE, "
        "`readOnlyHint: false` or `destructiveHint: true` on a GET, `idempotentHint: false` on a PUT or DELETE. A POST "
        "contradicts nothing: search and lookup are POSTed everywhere."
    ),
    why=(
        "Everything between an assistant and a shop goes by the method: a GET is prefetched, cached and sent again "
        "after a broken connection. If it changes something, it does so each time."
    ),
    example="""\
[company]
name = "acme"

[tools.start_return]
description = "Start the return of an order."
endpoint = "https://shop.example/returns"
idempotency = "safe_to_retry"
hints = { readOnlyHint = false, httpMethod = "GET" }
parameters = '{"type": "object", "properties": {"order_id": {"type": "string"}}, "additionalProperties": false}'
""",
    instead="""\
[company]
name = "acme"

[tools.start_return]
description = "Start the return of an order."
endpoint = "https://shop.example/returns"
idempotency = "safe_to_retry"
hints = { readOnlyHint = false, httpMethod = "POST" }
parameters = '{"type": "object", "properties": {"order_id": {"type": "string"}}, "additionalProperties": false}'
""",
    check=_check,
)
