"""Who is asking: `Authorization: Bearer <key>`, one header, visible ASCII, looked up by its digest."""

from __future__ import annotations

from typing import Final

from gateway.core.errors import Unauthenticated
from gateway.core.model import Principal
from gateway.web.head import AUTHORIZATION, TWICE, Head
from gateway.web.services import KnowsKeys

LONGEST: Final = 1_024
"""Bytes of a header that is looked at; keys are far shorter."""
_HOW: Final = "send one Authorization header: Bearer <key>"


async def authenticate(head: Head, registry: KnowsKeys) -> Principal:
    """The principal that the key names.

    Raises Unauthenticated whatever the bytes, in time that does not depend on how much of a key is right: the
    registry compares digests.
    """
    sent = head.fields.get(AUTHORIZATION)
    if sent is None or sent is TWICE or len(sent) > LONGEST:
        raise Unauthenticated(_HOW)
    key = sent[7:].strip(b" ")
    if sent[:7].lower() != b"bearer " or not key.isascii() or not key.decode("ascii").isprintable() or b" " in key:
        raise Unauthenticated(_HOW)
    await registry.refresh()
    principal = registry.principal(key.decode("ascii"))
    if principal is None:
        raise Unauthenticated("this key is not known")
    return principal
