"""The query of a request: UTF-8, each parameter once. A `+` is a space, as forms have it: write `%2B` for a plus."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

from pydantic import BaseModel

from gateway.core.errors import Malformed
from gateway.web.field_problems import checked_query

MOST_PARAMETERS: Final = 32


def read_query(raw: bytes, model: type[BaseModel]) -> Any:
    """The parameters as `model`. Raises Malformed naming what is wrong."""
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise Malformed("the query is not percent-encoded UTF-8, or has too many parameters") from None
    sent = dict(pairs)
    if len(sent) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Malformed(
            "a query parameter came twice", details={"fields": [{"field": twice[:80], "problem": "came twice"}]}
        )
    return checked_query(model, sent)
