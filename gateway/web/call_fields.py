"""The fields of a call: one table that checks them and that the OpenAPI document is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.identity import MAX_ID_BYTES, Scope, check_id
from gateway.core.strict_json import MAX_DEPTH, Json
from gateway.service.call_request import CallRequest
from gateway.web.field_problems import FieldProblems

MOST_COUNTED: Final = 1_000_000_000
"""The highest step or attempt."""
CALL_DEPTH: Final = MAX_DEPTH + 1
"""Nesting of a call's body, so that `arguments` itself may use all of its own (2.9)."""
BATCH_DEPTH: Final = CALL_DEPTH + 2

ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `read` gives the value as the service wants it, or raises ValueError in words for an answer."""

    name: str
    read: Callable[[Json], Any]
    schema: Mapping[str, Any]
    required: bool = False


def optional_id(sent: Json) -> str | None:
    return None if sent is None else check_id(sent)


def call_id(sent: Json) -> str | None:
    """Absent, null and blank are one (2.7)."""
    if sent is None or (type(sent) is str and not sent.strip()):
        return None
    return check_id(sent)


def count(sent: Json) -> int | None:
    # A bool is an int to Python, and 1.0 would be one step under another text.
    if sent is None or (type(sent) is int and 1 <= sent <= MOST_COUNTED):
        return sent
    raise ValueError(f"must be a whole number from 1 to {MOST_COUNTED:,}, written without fraction or exponent")


def _arguments(sent: Json) -> Json:
    if type(sent) is dict or type(sent) is str:
        return sent
    raise ValueError("must be an object or a JSON text holding one")


SCOPES: Final = {scope.value: scope for scope in Scope}


def scope_of(sent: Json) -> Scope | None:
    if sent is None:
        return None
    if type(sent) is str and sent in SCOPES:
        return SCOPES[sent]
    raise ValueError(f"must be one of {', '.join(SCOPES)}")


ID_SCHEMA: Final = {"type": "string", "minLength": 1, "maxLength": MAX_ID_BYTES, "description": "1 to 1,024 bytes"}
OPTIONAL_ID_SCHEMA: Final = {**ID_SCHEMA, "type": ["string", "null"]}
COUNT_SCHEMA: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": MOST_COUNTED}

FIELDS: Final = (
    Field("company", check_id, ID_SCHEMA, required=True),
    Field("conversation", check_id, ID_SCHEMA, required=True),
    Field("tool", check_id, ID_SCHEMA, required=True),
    Field(
        "arguments",
        _arguments,
        {"type": ["object", "string"], "description": "an object, or a JSON text holding one (peeled at most twice)"},
        required=True,
    ),
    Field(
        "tool_call_id",
        call_id,
        {
            "type": ["string", "null"],
            "maxLength": MAX_ID_BYTES,
            "description": "up to 1,024 bytes; absent, null and blank are one",
        },
    ),
    Field("turn", optional_id, OPTIONAL_ID_SCHEMA),
    Field("step", count, COUNT_SCHEMA),
    Field("attempt", count, COUNT_SCHEMA),
    Field("call_id_scope", scope_of, {"enum": [*SCOPES, None]}),
)

Row = tuple[str, Callable[[Json], Any], bool]
"""A field as it is read for every request: its name, how it is read, whether it is required."""


def rows(fields: Sequence[Field]) -> tuple[Row, ...]:
    """Fields as they are read."""
    return tuple((field.name, field.read, field.required) for field in fields)


_ROWS: Final = rows(FIELDS)

CALL_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {field.name: dict(field.schema) for field in FIELDS},
    "required": [field.name for field in FIELDS if field.required],
    "additionalProperties": False,
    "description": (
        "`step`, `attempt`, `call_id_scope` `turn` and `step` need a `turn`; `call_id_scope` `step` needs a `step`."
    ),
}


def read_call(document: Json) -> CallRequest:
    """The call in a parsed document. Raises Malformed with every field's problem at once (2.3, 2.7, 2.8)."""
    return CallRequest(**read_fields(document, _ROWS, _check_place))


def read_fields(
    document: Json,
    fields: Sequence[Row],
    check: Callable[[Mapping[str, Json], Mapping[str, Any], FieldProblems], None],
) -> dict[str, Any]:
    """The values of a body's fields; what is left out has none. `check` adds what no field can say by itself.

    Raises Malformed with every field's problem at once."""
    problems = FieldProblems()
    if type(document) is not dict:
        problems.add("", "must be an object")
        raise problems.malformed()
    values: dict[str, Any] = {}
    known = 0
    for name, read, required in fields:
        sent = document.get(name, ABSENT)
        if sent is ABSENT:
            if required:
                problems.add_at(name, "is missing")
            continue
        known += 1
        try:
            values[name] = read(sent)
        except ValueError as wrong:
            problems.add_at(name, str(wrong))
    if known < len(document):
        problems.add_unknown(document.keys() - {name for name, _, _ in fields})
    check(document, values, problems)
    if problems:
        raise problems.malformed()
    return values


def read_calls(document: Json, most: int) -> list[Json]:
    """The calls of a batch, each still to be read by `read_call`. Raises Malformed for the batch as a whole."""
    problems = FieldProblems()
    if type(document) is not dict:
        problems.add("", "must be an object")
        raise problems.malformed()
    calls = document.get("calls", ABSENT)
    if calls is ABSENT:
        problems.add_at("calls", "is missing")
    elif type(calls) is not list:
        problems.add_at("calls", "must be an array of calls")
    elif len(calls) > most:
        problems.add_at("calls", f"must hold at most {most:,} calls, not {len(calls):,}")
    problems.add_unknown(document.keys() - {"calls"})
    if problems:
        raise problems.malformed()
    return list(document["calls"])


def _check_place(document: Mapping[str, Json], values: Mapping[str, Any], problems: FieldProblems) -> None:
    """What names a place needs all of it (2.3)."""
    scope = values.get("call_id_scope")
    if document.get("turn") is None:
        for name in ("step", "attempt"):
            if values.get(name) is not None:
                problems.add_at(name, "needs a turn")
        if scope in (Scope.TURN, Scope.STEP):
            problems.add_at("turn", f"is needed by call_id_scope {scope}")
    if scope is Scope.STEP and document.get("step") is None:
        problems.add_at("step", "is needed by call_id_scope step")
