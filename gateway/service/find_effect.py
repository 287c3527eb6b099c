"""Finds one effect of a conversation by its id, for those who name it in full."""

from __future__ import annotations

from typing import Final

from gateway.core.conversation import Where
from gateway.core.errors import NotFound
from gateway.core.identity import conversation_digest
from gateway.core.ports import Ledger
from gateway.core.record import Effect

_ID_BYTES: Final = 32


async def find_effect(ledger: Ledger, company: str, conversation: str, effect_id: str) -> Effect:
    """Raises NotFound, in the same words whatever is recorded elsewhere (9.1), and LedgerUnavailable."""
    try:
        wanted = bytes.fromhex(effect_id) if effect_id == effect_id.strip().lower() else b""
    except ValueError:
        wanted = b""
    if len(wanted) == _ID_BYTES and len(effect_id) == 2 * _ID_BYTES:
        view = await ledger.read(Where(conversation_digest(company, conversation), b"", effects=(wanted,)))
        found = view.effects.get(wanted)
        # A record's key holds half of its id, and conversations share buckets: it may be another's.
        whose = (found.company, found.conversation, found.effect_id) if found is not None else None
        if found is not None and whose == (company, conversation, wanted):
            return found
    raise nothing_recorded()


def nothing_recorded() -> NotFound:
    return NotFound("No such effect is recorded in this conversation.")
