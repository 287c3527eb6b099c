"""What of a request to a model says which question it is, and what is only how it is asked. Data, and one reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.runtime.canonical import digest

NOISE: Final[frozenset[str]] = frozenset(
    {
        # how the answer travels
        "stream",
        "stream_options",
        "timeout",
        "max_retries",
        # what names this one request
        "request_id",
        "idempotency_key",
        "extra_headers",
        "headers",
        # for whom, and for whose books
        "user",
        "safety_identifier",
        "metadata",
        # where and how dear it is computed
        "store",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_retention",
    }
)
"""Fields of a request's top level that make no other question of it. Everything else counts, `seed` and
`temperature` too: a field left out wrongly gets the answer to another question, one that counts wrongly is only asked
again. A seed that is drawn anew in each run is drawn in a step of the turn."""

LONGEST_TEXT: Final = 32_768
"""Characters; a longer text (an image, a document) is named by its digest, for a request is at most 1 MiB (9.4)."""


def question_of(request: Mapping[str, Any], noise: frozenset[str] = NOISE) -> dict[str, Any]:
    """The canonical body: `request` without `noise`, long texts as `{"sha256", "characters"}`."""
    return {name: _shortened(value) for name, value in request.items() if name not in noise}


def _shortened(value: Any) -> Any:
    match value:
        case str() if len(value) > LONGEST_TEXT:
            return {"sha256": digest(value), "characters": len(value)}
        case Mapping():
            return {name: _shortened(item) for name, item in value.items()}
        case list() | tuple():
            return [_shortened(item) for item in value]
    return value
