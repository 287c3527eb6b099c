"""The bodies of `/v1/effects` and of what is reported on one: tables that check them, and that the OpenAPI document is
made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.identity import MAX_ID_BYTES, Kind, check_id, read_arguments
from gateway.core.record import Fault, Mode
from gateway.core.strict_json import Json, JsonRefused, dumps
from gateway.service.report_effect import Report
from gateway.service.submit_effect import Submission
from gateway.web.call_fields import (
    COUNT_SCHEMA,
    ID_SCHEMA,
    MOST_COUNTED,
    SCOPES,
    Field,
    call_id,
    count,
    read_fields,
    rows,
    scope_of,
)
from gateway.web.field_problems import FieldProblems

_KINDS: Final = {kind.value: kind for kind in Kind}
_MODES: Final = {mode.value: mode for mode in Mode}
MAX_WORDS: Final = 2_000


def _kind(sent: Json) -> Kind:
    if type(sent) is str and sent in _KINDS:
        return _KINDS[sent]
    raise ValueError(f"must be one of {', '.join(_KINDS)}")


def _mode(sent: Json) -> Mode | None:
    if sent is None:
        return None
    if type(sent) is str and sent in _MODES:
        return _MODES[sent]
    raise ValueError(f"must be one of {', '.join(_MODES)}")


def _args(sent: Json) -> Any:
    try:
        return read_arguments(sent)
    except JsonRefused as refused:
        raise ValueError(str(refused)) from None


def _attempt(sent: Json) -> int:
    found = count(sent)
    if found is None:
        raise ValueError("must be a whole number from 1")
    return found


def _any(sent: Json) -> bytes:
    return dumps(sent).encode()


def _fault(sent: Json) -> Fault:
    if type(sent) is not dict or sent.keys() - {"code", "message"} or not {"code", "message"} <= sent.keys():
        raise ValueError("must be an object of code and message")
    code, message = sent["code"], sent["message"]
    if type(code) is not str or not code.isascii() or not code.replace("_", "a").isalnum() or len(code) > 64:
        raise ValueError("must have a code of letters, digits and _, at most 64")
    if type(message) is not str or not 0 < len(message) <= MAX_WORDS:
        raise ValueError(f"must have a message of 1 to {MAX_WORDS:,} characters")
    return Fault(code, message)


FIELDS: Final = (
    Field("company", check_id, ID_SCHEMA, required=True),
    Field("conversation", check_id, ID_SCHEMA, required=True),
    Field("turn", check_id, ID_SCHEMA, required=True),
    Field("attempt", _attempt, {"type": "integer", "minimum": 1, "maximum": MOST_COUNTED}, required=True),
    Field("kind", _kind, {"enum": list(_KINDS)}, required=True),
    Field("target", check_id, {**ID_SCHEMA, "description": "the tool, the model, or the name of a local value"}, True),
    Field("args", _args, {"type": ["object", "string"], "description": "what makes it this effect"}, required=True),
    Field("claim_token", check_id, {**ID_SCHEMA, "description": "made by the caller; nobody else may know it"}, True),
    Field("idempotency", _mode, {"enum": [*_MODES, None]}),
    Field(
        "tool_call_id",
        call_id,
        {"type": ["string", "null"], "maxLength": MAX_ID_BYTES, "description": "absent, null and blank are one"},
    ),
    Field("step", count, COUNT_SCHEMA),
    Field("call_id_scope", scope_of, {"enum": [*SCOPES, None]}),
)
_WHOSE: Final = (
    Field("company", check_id, ID_SCHEMA, required=True),
    Field("conversation", check_id, ID_SCHEMA, required=True),
    Field("claim_token", check_id, ID_SCHEMA, required=True),
)
_COMPLETE: Final = (*_WHOSE, Field("result", _any, {"description": "any JSON"}, required=True))
_FAIL: Final = (
    *_WHOSE,
    Field(
        "error",
        _fault,
        {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            "required": ["code", "message"],
            "additionalProperties": False,
        },
        required=True,
    ),
)


def _schema(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field.name: dict(field.schema) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }


SUBMIT_SCHEMA: Final[Mapping[str, Any]] = _schema(FIELDS)
COMPLETE_SCHEMA: Final[Mapping[str, Any]] = _schema(_COMPLETE)
FAIL_SCHEMA: Final[Mapping[str, Any]] = _schema(_FAIL)
HOLDER_SCHEMA: Final[Mapping[str, Any]] = _schema(_WHOSE)


def read_submission(document: Json) -> Submission:
    """Raises Malformed with every field's problem at once."""
    return Submission(**read_fields(document, rows(FIELDS), _check_step))


def read_complete(document: Json) -> Report:
    """Raises Malformed."""
    return Report(**read_fields(document, rows(_COMPLETE), _nothing_more))


def read_fail(document: Json) -> Report:
    """Raises Malformed."""
    values = read_fields(document, rows(_FAIL), _nothing_more)
    return Report(values["company"], values["conversation"], values["claim_token"], fault=values["error"])


def read_holder(document: Json) -> Report:
    """Raises Malformed."""
    return Report(**read_fields(document, rows(_WHOSE), _nothing_more))


def _check_step(document: Mapping[str, Json], values: Mapping[str, Any], problems: FieldProblems) -> None:
    if values.get("call_id_scope") == "step" and document.get("step") is None:
        problems.add_at("step", "is needed by call_id_scope step")


def _nothing_more(document: Mapping[str, Json], values: Mapping[str, Any], problems: FieldProblems) -> None:
    return
