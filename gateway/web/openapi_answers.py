"""The schema of an answer to a call, from the very struct that is sent (section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.core.answer import Answer
from gateway.core.record import Status
from gateway.web.metrics import DECISIONS

PROBLEM_REF: Final = {"$ref": "#/components/schemas/Problem"}


def _answer_schema() -> dict[str, Any]:
    _, found = msgspec.json.schema_components([Answer], ref_template="#/components/schemas/{name}")
    schema = dict(found["Answer"])
    properties = dict(schema["properties"])
    properties["decision"] = {"enum": sorted(DECISIONS)}
    properties["status"] = {"enum": [*(s.value for s in Status if s is not Status.ABSENT), None]}
    schema["properties"] = {name: _without_default(part) for name, part in properties.items()}
    # A struct writes all of its fields, those with defaults too.
    schema["required"] = list(properties)
    return schema


def _without_default(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "default"}


ANSWER_SCHEMA: Final[Mapping[str, Any]] = _answer_schema()
BATCH_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"answers": {"type": "array", "items": {"anyOf": [ANSWER_SCHEMA, PROBLEM_REF]}}},
    "required": ["answers"],
}
