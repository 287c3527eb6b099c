"""Minting, listing and revoking keys (api.md): `og_`, the role's letter, 43 characters; stored as SHA-256 only."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Final

from gateway.core import registry_documents as documents
from gateway.core.answer import iso
from gateway.core.errors import Malformed, NotFound
from gateway.core.model import Role
from gateway.core.ports import Clock, Documents, Randomness
from gateway.core.registration import FORMAT, company_problem, name_problem
from gateway.core.registry_documents import StoredKey
from gateway.service.changing import changed
from gateway.service.registry import Registry, key_digest

LETTERS: Final = {Role.RUNTIME: "r", Role.MERCHANT: "m", Role.OPERATOR: "o"}
ALL_COMPANIES: Final = "*"
MAX_COMPANIES: Final = 1_000


class ManageKeys:
    """For whoever administers the ledger itself; the wire offers none of this."""

    def __init__(self, *, registry: Registry, stored: Documents, clock: Clock, randomness: Randomness) -> None:
        self._registry = registry
        self._documents = stored
        self._clock = clock
        self._randomness = randomness

    async def create(self, *, role: Role | str, companies: Iterable[str], principal: str) -> tuple[str, str]:
        """Mint a key; returns its id and the key, which is shown now and never again (9.3).

        Raises Malformed naming everything that is wrong, LedgerUnavailable.
        """
        named = tuple(dict.fromkeys(companies))
        problems = _problems(role, named, principal)
        if problems:
            lines = "; ".join(f"{each['field']}: {each['problem']}" for each in problems)
            raise Malformed(f"the key cannot be made: {lines}", details={"fields": problems})
        role = Role(role)
        secret = base64.urlsafe_b64encode(self._randomness.token() + self._randomness.token()).decode().rstrip("=")
        key = f"og_{LETTERS[role]}_{secret}"
        id_ = f"key_{self._randomness.token()[:8].hex()}"
        made = StoredKey(FORMAT, id_, key_digest(key), role, named, principal, self._clock.wall_ms())
        name = documents.key_document(id_)
        await changed(self._documents, self._registry, name, StoredKey, lambda before: before or made)
        return id_, key

    async def revoke(self, id_: str) -> None:
        """End a key: here at once, in other processes within their registry's age. Raises NotFound."""

        def gone(before: StoredKey | None) -> None:
            if before is None:
                raise NotFound("There is no such key.")

        await changed(self._documents, self._registry, documents.key_document(id_), StoredKey, gone)

    async def list(self) -> list[dict[str, Any]]:
        """`{"id", "role", "companies", "principal", "created_at"}` of each, oldest first; nothing of the key."""
        await self._registry.reload()
        return [
            {
                "id": key.id,
                "role": key.role.value,
                "companies": list(key.companies),
                "principal": key.principal,
                "created_at": iso(key.created_at_ms),
            }
            for key in self._registry.stored_keys()
        ]


def _problems(role: Role | str, companies: tuple[str, ...], principal: str) -> list[dict[str, str]]:
    problems: list[dict[str, str]] = []
    if role not in set(Role):
        problems.append({"field": "role", "problem": f"must be one of {', '.join(Role)}"})
    if not 0 < len(companies) <= MAX_COMPANIES:
        problems.append({"field": "companies", "problem": f"must name 1 to {MAX_COMPANIES:,} companies, or * for all"})
    if ALL_COMPANIES in companies and len(companies) > 1:
        problems.append({"field": "companies", "problem": "* stands for all and stands alone"})
    wrong = [company_problem(company) for company in companies if company != ALL_COMPANIES]
    problems += [{"field": "companies", "problem": problem} for problem in wrong if problem is not None]
    if (problem := name_problem(principal)) is not None:
        problems.append({"field": "principal", "problem": problem})
    return problems
