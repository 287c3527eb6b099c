"""`/v1/effects`: effects that whoever asks runs, and what is said of one effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gateway.core.errors import Malformed
from gateway.core.model import Principal
from gateway.core.strict_json import Json
from gateway.service.declarations import NotAcceptable, Resolution, read_resolution
from gateway.service.report_effect import Report
from gateway.web.operations import Asked, Handler
from gateway.web.replies import Reply, json_reply
from gateway.web.services import Services


class Effects:
    def __init__(self, services: Services) -> None:
        self._resolve = services.resolve_unknown
        self._submit = services.submit_effect
        report = services.report_effect
        self.complete, self.fail = _reporting(report.complete), _reporting(report.fail)
        self.renew, self.release = _reporting(report.renew), _reporting(report.release)

    async def submit(self, asked: Asked) -> Reply:
        """Whether the caller may run it, or what it came to before."""
        return json_reply(await self._submit(asked.caller, asked.body))

    async def resolve(self, asked: Asked) -> Reply:
        """Answers with the record as it then stands."""
        return json_reply(await self._resolve(asked.caller, asked.path["effect_id"], asked.body))


def _reporting(report: Callable[[Principal, str, Report], Awaitable[dict[str, Any]]]) -> Handler:
    async def handler(asked: Asked) -> Reply:
        return json_reply(await report(asked.caller, asked.path["effect_id"], asked.body))

    return handler


def read_resolve(document: Json) -> Resolution:
    """Raises Malformed."""
    try:
        return read_resolution(document)
    except NotAcceptable as wrong:
        raise Malformed(str(wrong), details={"fields": wrong.problems}) from None
