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
    """The principal that the key names, once the registry is fresh.

    Raises Unauthenticated whatever the bytes, in time that does not depend on how much of a key is right: the
    registry compares digests.
    """
    key = bearer_key(head)
    await registry.refresh()
    return known_principal(key, registry)


def bearer_key(head: Head) -> str:
    """The key that was sent. Raises Unauthenticated where there is none, or something else."""
    sent = head.fields.get(AUTHORIZATION)
    if sent is None or sent is TWICE or len(sent) > LONGEST:
        raise Unauthenticated(_HOW)
    key = sent[7:].strip(b" ")
    if sent[:7].lower() != b"bearer " or not key.isascii() or not key.decode("ascii").isprintable() or b" " in key:
        raise Unauthenticated(_HOW)
    return key.decode("ascii")


def known_principal(key: str, registry: KnowsKeys) -> Principal:
    """Whose key that is, as the registry knows it now. Raises Unauthenticated."""
    principal = registry.principal(key)
    if principal is None:
        raise Unauthenticated("this key is not known")
    return principal
