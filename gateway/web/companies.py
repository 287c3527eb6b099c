"""`/v1/companies/{company}` and its signing secrets."""

from __future__ import annotations

from gateway.core.model import Company
from gateway.core.rights import Right, may
from gateway.web.models import CompanyShown, SecretShown
from gateway.web.operations import Asked
from gateway.web.replies import NO_CONTENT, Reply, json_reply
from gateway.web.services import Services


class Companies:
    def __init__(self, services: Services) -> None:
        self._registry = services.registry
        self._manage = services.manage_company

    async def get(self, asked: Asked) -> Reply:
        """A company that was never set has the defaults, so that nobody learns which exist (9.1)."""
        name = asked.path["company"]
        may(asked.caller, Right.READ_TOOLS, name)
        return json_reply(shown(self._registry.company(name)).model_dump())

    async def put(self, asked: Asked) -> Reply:
        company = await self._manage.put(asked.caller, asked.path["company"], asked.body)
        return json_reply(shown(company).model_dump())

    async def add_secret(self, asked: Asked) -> Reply:
        secret = await self._manage.add_secret(asked.caller, asked.path["company"])
        return json_reply(SecretShown(id=secret.id, secret=secret.value).model_dump(), 201)

    async def retire_secret(self, asked: Asked) -> Reply:
        await self._manage.retire_secret(asked.caller, asked.path["company"], asked.path["secret"])
        return NO_CONTENT


def shown(company: Company) -> CompanyShown:
    """A company's settings as the API shows them."""
    return CompanyShown(
        company=company.name,
        max_steps=company.max_steps,
        call_id_scope=company.call_id_scope.value,
        overrides=dict(company.overrides),
        heuristic=company.heuristic,
        repeat_window_s=company.repeat_window_s,
        retention_s=company.retention_s,
        on_finding=company.on_finding,
    )
