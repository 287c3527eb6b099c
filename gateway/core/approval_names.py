"""How an approval is named on the wire: by where its effect's record lies, and which approval of it this is. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.core.identity import conversation_digest
from gateway.core.record import Effect

_PREFIX: Final = "apr_"
_CONVERSATION, _EFFECT, _APPROVAL = 2, 16, 16
"""Bytes of the conversation's digest (its bucket), of the effect's id, of the approval's."""


class ApprovalName(NamedTuple):
    """A name, read."""

    conversation: bytes
    effect: bytes
    approval: bytes


def approval_name(effect: Effect) -> str | None:
    """`apr_` and 68 hex digits; None for an effect that was never held."""
    if effect.approval is None:
        return None
    where = conversation_digest(effect.company, effect.conversation)[:_CONVERSATION]
    return _PREFIX + (where + effect.effect_id[:_EFFECT] + effect.approval.id).hex()


def read_approval_name(text: str) -> ApprovalName | None:
    """None for what is no such name."""
    try:
        raw = bytes.fromhex(text.removeprefix(_PREFIX)) if text.startswith(_PREFIX) and text == text.lower() else b""
    except ValueError:
        return None
    if len(raw) != _CONVERSATION + _EFFECT + _APPROVAL or len(text) != len(_PREFIX) + 2 * len(raw):
        return None
    return ApprovalName(raw[:_CONVERSATION], raw[_CONVERSATION : _CONVERSATION + _EFFECT], raw[-_APPROVAL:])
