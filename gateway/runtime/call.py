"""What a runtime asks of the gateway, and how it is written on the wire (api.md, Calls)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from gateway.runtime.errors import BadCall
from gateway.runtime.exact_json import encode
from gateway.runtime.resend import has_identity


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call to send.

    `arguments` is an object, or the model's own text for one, which goes out as text, unparsed and
    unrepaired (2.9). `tool_call_id` may be None or blank (2.7). `step` counts from 1 within `turn`,
    `attempt` from 1 within the turn's runs (semantics 1). `call_id_scope` is `auto`, `conversation`,
    `turn` or `step`; None leaves it to the company's setting (2.3)."""

    company: str
    conversation: str
    tool: str
    arguments: Mapping[str, Any] | str = field(repr=False)
    tool_call_id: str | None = None
    turn: str | None = None
    step: int | None = None
    attempt: int | None = None
    call_id_scope: str | None = None

    @property
    def identified(self) -> bool:
        """A second send of this call is a replay to the gateway, never a second effect (2.1, 2.7)."""
        return has_identity(self.tool_call_id, self.turn, self.attempt)

    def document(self) -> dict[str, Any]:
        """The JSON object to send; optional fields that are None are left out."""
        optional = {
            "turn": self.turn,
            "step": self.step,
            "attempt": self.attempt,
            "call_id_scope": self.call_id_scope,
        }
        return {
            "company": self.company,
            "conversation": self.conversation,
            "tool_call_id": self.tool_call_id,
            "tool": self.tool,
            "arguments": self.arguments,
            **{name: value for name, value in optional.items() if value is not None},
        }


def body_of(document: object) -> bytes:
    """`document` as bytes to send. Raises BadCall where it has no JSON form."""
    try:
        return encode(document).encode("ascii")
    except ValueError as fault:
        raise BadCall(f"this call cannot be written as JSON: {fault}") from None


def path_of(*segments: str, **query: object) -> str:
    """A path below the gateway's address; query entries that are None are left out. Raises BadCall where a
    segment would lead elsewhere (empty, `.`, `..`) or a text cannot be written in an address."""
    try:
        if any(segment in ("", ".", "..") for segment in segments):
            raise ValueError("an empty or dotted name")
        path = "/" + "/".join(quote(segment, safe="") for segment in segments)
        stated = {name: str(value) for name, value in query.items() if value is not None}
        return f"{path}?{urlencode(stated)}" if stated else path
    except (TypeError, ValueError):
        raise BadCall("this request cannot be written as an address") from None
