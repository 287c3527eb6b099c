"""`/v1/companies/{company}` and its signing secrets."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.core.model import Company
from gateway.core.policy import Bundle
from gateway.core.strict_json import dumps
from gateway.web.models import CompanyShown, SecretShown
from gateway.web.operations import Asked
from gateway.web.replies import NO_CONTENT, Reply, json_reply
from gateway.web.services import Services


class Companies:
    def __init__(self, services: Services) -> None:
        self._manage = services.manage_company
        self._policy = services.policy_of

    async def get(self, asked: Asked) -> Reply:
        """A company that was never set has the platform's settings, so that nobody learns which exist (9.1)."""
        company = await self._manage.get(asked.caller, asked.path["company"])
        return json_reply(shown(company, self._policy(company.name)))

    async def put(self, asked: Asked) -> Reply:
        company = await self._manage.put(asked.caller, asked.path["company"], asked.body)
        return json_reply(shown(company, self._policy(company.name)))

    async def secrets(self, asked: Asked) -> Reply:
        """Ids only: a value is shown once, by the answer that made it."""
        ids = await self._manage.secrets(asked.caller, asked.path["company"])
        return json_reply({"secrets": [{"id": id_} for id_ in ids]})

    async def add_secret(self, asked: Asked) -> Reply:
        secret = await self._manage.add_secret(asked.caller, asked.path["company"])
        return json_reply(SecretShown(id=secret.id, secret=secret.value).model_dump(), 201)

    async def retire_secret(self, asked: Asked) -> Reply:
        await self._manage.retire_secret(asked.caller, asked.path["company"], asked.path["secret"])
        return NO_CONTENT


def shown(company: Company, policy: Bundle | None) -> dict[str, Any]:
    """A company's settings as the API shows them, in the form in which it takes them."""
    said = CompanyShown(
        company=company.name,
        max_steps="off" if company.max_steps is None else company.max_steps,
        call_id_scope=company.call_id_scope.value,
        overrides=dict(company.overrides),
        heuristic=company.heuristic,
        repeat_window_s=company.repeat_window_s,
        retention_s=company.retention_s,
        on_finding=company.on_finding,
        runtime_may_resolve=company.runtime_may_resolve,
        customer_may_approve=company.customer_may_approve,
        policy=None,
        policy_version=None if policy is None else policy.version,
    ).model_dump()
    # As it was written, digit for digit: a model of this document would have floats.
    return {**said, "policy": None if policy is None else msgspec.Raw(dumps(policy.document).encode())}
