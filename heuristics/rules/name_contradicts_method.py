"""OG106: the name says one thing, the HTTP method another (RFC 9110 section 9.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from heuristics.lexicon import Role
from heuristics.rules.better_names import acting, reading
from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import either, quoted

_MEANS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"PUT": ("update", "set"), "PATCH": ("update",), "DELETE": ("delete", "remove")}
)


def _check(at: Looked) -> Iterator[Remark]:
    method, by_name = at.method, at.by_name
    if at.declared or by_name.verb is None:
        return
    entry = at.verb
    if method in ("GET", "HEAD") and by_name.side_effecting and not (entry and entry.role is Role.DISPATCHER):
        yield Remark(
            f"{quoted(by_name.verb)} changes something, but {method} must not (RFC 9110, 9.2.1), and proxies and "
            f"clients may send it again: use POST, or {either(reading(at))} so that it reads.",
        )
    elif method in ("PUT", "PATCH", "DELETE") and not by_name.side_effecting:
        yield Remark(
            f"The name reads ({by_name.reason}), but {method} writes; it is taken for side-effecting: "
            f"{either(acting(at, _MEANS[method]))}, or use GET or POST.",
        )


RULE: Final = Rule(
    code="OG106",
    name="name-contradicts-method",
    severity="warning",
    what=(
        "A GET whose name changes something, or a PUT, PATCH or DELETE whose name reads. A POST contradicts nothing."
    ),
    why=(
        "A GET is prefetched, cached and sent again by everything on its way; a purchase behind one is made as often. "
        "And a PUT called `get_…` is run by an assistant that believes it only looks."
    ),
    example="""\
openapi: 3.1.0
info: {title: Shop, version: "1"}
paths:
  /carts/{cart_id}/cancel:
    get:
      operationId: cancelCart
      summary: Empty the cart and forget it.
      parameters:
        - {name: cart_id, in: path, required: true, schema: {type: string}}
""",
    instead="""\
openapi: 3.1.0
info: {title: Shop, version: "1"}
paths:
  /carts/{cart_id}/cancel:
    post:
      operationId: cancelCart
      summary: Empty the cart and forget it.
      parameters:
        - {name: cart_id, in: path, required: true, schema: {type: string}}
        - {name: Idempotency-Key, in: header, required: true, schema: {type: string}}
""",
    check=_check,
)
