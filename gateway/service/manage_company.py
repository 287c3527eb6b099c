"""A company's settings and its signing secrets (api.md)."""

from __future__ import annotations

import base64
from functools import partial
from typing import Final

from gateway.core import registry_documents as documents
from gateway.core.errors import Malformed, NotFound, RegistrationRefused
from gateway.core.model import Company, Principal, SigningSecret
from gateway.core.ports import Clock, Documents, Randomness
from gateway.core.registration import FORMAT, company_problem
from gateway.core.registry_documents import StoredCompany, StoredSecret, StoredSecrets
from gateway.core.rights import Right, may
from gateway.service.changing import changed
from gateway.service.declarations import NotAcceptable, read_company
from gateway.service.register_tool import RegisterTool
from gateway.service.registry import Registry

MAX_SECRETS: Final = 4
"""Signing secrets at a time: each adds a signature to a header that merchants read with a bound."""


class ManageCompany:
    """Every method asks for the right first. Companies need no creation: the first change makes one."""

    def __init__(
        self,
        *,
        registry: Registry,
        stored: Documents,
        tools: RegisterTool,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._registry = registry
        self._documents = stored
        self._tools = tools
        self._clock = clock
        self._randomness = randomness

    async def put(self, principal: Principal, company: str, body: object) -> Company:
        """Replace a company's settings; stored verdicts follow its overrides and heuristic (3.3).

        Safe to repeat: one that broke off half-way is made whole by the same one again. Raises Forbidden,
        Malformed, RegistrationRefused, LedgerUnavailable, VersionConflict.
        """
        may(principal, Right.WRITE_COMPANY, company)
        try:
            stated = read_company(body, company)
        except NotAcceptable as wrong:
            raise Malformed("the company's body is not acceptable", details={"fields": wrong.problems}) from None
        self._refuse_name_or_file(company)
        document = StoredCompany(FORMAT, company, stated)
        name = documents.company_document(company)
        await changed(self._documents, self._registry, name, StoredCompany, lambda _: document)
        await self._tools.judge_anew(company, principal.name)
        return self._registry.company(company)

    async def get(self, principal: Principal, company: str) -> Company:
        """As it stands; one that was never set has the platform's settings. Raises Forbidden."""
        may(principal, Right.READ_TOOLS, company)
        await self._registry.refresh()
        return self._registry.company(company)

    async def add_secret(self, principal: Principal, company: str) -> SigningSecret:
        """Make a new signing secret. Its value is shown by this answer only (9.3); the older ones go on signing
        beside it until they are retired. Raises Forbidden, RegistrationRefused."""
        may(principal, Right.SECRETS, company)
        self._refuse_name_or_file(company)
        value = "whsec_" + base64.b64encode(self._randomness.token() + self._randomness.token()).decode()
        made = StoredSecret(f"ws_{self._randomness.token()[:8].hex()}", value, self._clock.wall_ms())
        await self._change_secrets(company, made, None)
        return SigningSecret(made.id, made.value)

    async def secrets(self, principal: Principal, company: str) -> list[str]:
        """The ids of a company's signing secrets, newest first; never a value. Raises Forbidden."""
        may(principal, Right.SECRETS, company)
        await self._registry.refresh()
        return [secret.id for secret in self._registry.secrets(company)]

    async def retire_secret(self, principal: Principal, company: str, id_: str) -> None:
        """End a signing secret. Raises Forbidden, NotFound, RegistrationRefused for one that a file defines."""
        may(principal, Right.SECRETS, company)
        filed = self._registry.file_of(company)
        if filed is not None and any(secret.id == id_ for secret in filed.secrets):
            raise RegistrationRefused(f"This secret is defined in the gateway's file {filed.file}; remove it there.")
        await self._change_secrets(company, None, id_)

    async def _change_secrets(self, company: str, added: StoredSecret | None, retired: str | None) -> None:
        decide = partial(_secrets, company, added, retired)
        await changed(self._documents, self._registry, documents.secrets_document(company), StoredSecrets, decide)

    def _refuse_name_or_file(self, company: str) -> None:
        problem = company_problem(company)
        if problem is not None:
            fields = [{"field": "company", "problem": problem}]
            raise RegistrationRefused("the company's name is not acceptable", details={"fields": fields})
        filed = self._registry.file_of(company)
        if filed is not None:
            raise RegistrationRefused(f"This company is defined in the gateway's file {filed.file}; change it there.")


def _secrets(
    company: str, added: StoredSecret | None, retired: str | None, before: StoredSecrets | None
) -> StoredSecrets:
    known = before.secrets if before is not None else ()
    kept = tuple(secret for secret in known if secret.id != retired)
    if retired is not None and len(kept) == len(known):
        raise NotFound("The company has no such signing secret.")
    if added is not None and len(kept) >= MAX_SECRETS:
        raise RegistrationRefused(
            f"A company may have {MAX_SECRETS} signing secrets at a time; retire one first: "
            f"oncegate secrets list {company}, oncegate secrets retire {company} ID."
        )
    return StoredSecrets(FORMAT, company, kept if added is None else (added, *kept))
