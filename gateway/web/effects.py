"""`/v1/effects/{effect_id}`: what is said of one effect."""

from __future__ import annotations

from gateway.core.errors import Malformed
from gateway.core.strict_json import Json
from gateway.service.declarations import NotAcceptable, Resolution, read_resolution
from gateway.web.operations import Asked
from gateway.web.replies import Reply, json_reply
from gateway.web.services import Services


class Effects:
    def __init__(self, services: Services) -> None:
        self._resolve = services.resolve_unknown

    async def resolve(self, asked: Asked) -> Reply:
        """Answers with the record as it then stands."""
        return json_reply(await self._resolve(asked.caller, asked.path["effect_id"], asked.body))


def read_resolve(document: Json) -> Resolution:
    """Raises Malformed."""
    try:
        return read_resolution(document)
    except NotAcceptable as wrong:
        raise Malformed(str(wrong), details={"fields": wrong.problems}) from None
