"""How a document of the registry is changed: read, decide, compare and set, again if somebody was faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from gateway.core import registry_documents as documents
from gateway.core.errors import VersionConflict
from gateway.core.ports import Documents
from gateway.service.registry import Registry

MOST_TRIES: Final = 8

S = TypeVar("S", bound=documents.Stored)


async def changed(
    stored: Documents,
    registry: Registry,
    name: str,
    form: type[S],
    decide: Callable[[S | None], S | None],
) -> S | None:
    """Write what `decide` makes of the document that stands (None: absent, or removed) and return it.

    `decide` is pure and may be asked several times; nothing is written where its answer is what stands.
    The registry's snapshot holds the change when this returns. Raises what `decide` raises, LedgerUnavailable,
    and VersionConflict where others keep being faster or where what stands cannot be read (a newer gateway's).
    """
    for _ in range(MOST_TRIES):
        await registry.reload()
        content, before = registry.content(name), registry.document(name)
        if content is not None and not isinstance(before, form):
            raise VersionConflict("It was written by a newer gateway; this one cannot change it.")
        known = before if isinstance(before, form) else None
        after = decide(known)
        if after == known:
            return after
        if await stored.change(name, documents.encode(after) if after is not None else None, content):
            await registry.reload()
            return after
    raise VersionConflict()
