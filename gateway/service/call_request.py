"""A request for one call, and what is refused of it before anything is asked or recorded (2.3, 2.9)."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.core import identity
from gateway.core.errors import Malformed
from gateway.core.identity import Arguments, Scope
from gateway.core.strict_json import Json, JsonRefused


class CallRequest(msgspec.Struct, frozen=True):
    """A `POST /v1/calls`, its fields checked; `arguments` as they came (2.9)."""

    company: str
    conversation: str
    tool: str
    arguments: Json
    tool_call_id: str | None = None
    turn: str | None = None
    step: int | None = None
    attempt: int | None = None
    call_id_scope: Scope | None = None


_NEEDED: Final = {Scope.TURN: ("turn",), Scope.STEP: ("turn", "step")}


def check_scope(request: CallRequest, scope: Scope) -> None:
    """2.3: a scope that names turn or step cannot do without them, wherever it was set."""
    missing = [name for name in _NEEDED.get(scope, ()) if getattr(request, name) is None]
    if missing and request.tool_call_id is not None:
        raise Malformed(
            f"call_id_scope {scope} needs {' and '.join(missing)}",
            details={
                "fields": [{"field": f"/{name}", "problem": f"needed by call_id_scope {scope}"} for name in missing]
            },
        )


def arguments_of(request: CallRequest) -> Arguments:
    try:
        return identity.read_arguments(request.arguments)
    except JsonRefused as refused:
        raise Malformed(
            f"arguments: {refused}", details={"fields": [{"field": "/arguments", "problem": str(refused)}]}
        ) from None
