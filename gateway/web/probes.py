"""What is answered without a key: liveness, metrics, the OpenAPI document, and what problems mean."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.errors import NotFound
from gateway.web.operations import Asked
from gateway.web.problems import PROBLEMS, described
from gateway.web.replies import JSON, Reply, json_reply
from gateway.web.services import Services


class Probes:
    def __init__(self, services: Services, openapi: Callable[[], bytes]) -> None:
        self._metrics = services.metrics
        self._openapi = openapi
        self._kinds = {kind.code: kind for kind in PROBLEMS}

    async def live(self, asked: Asked) -> Reply:
        return json_reply({"status": "ok"})

    async def metrics(self, asked: Asked) -> Reply:
        return Reply(200, self._metrics.exposition(), self._metrics.content_type.encode())

    async def openapi(self, asked: Asked) -> Reply:
        return Reply(200, self._openapi(), JSON)

    async def problem(self, asked: Asked) -> Reply:
        kind = self._kinds.get(asked.path["code"])
        if kind is None:
            raise NotFound("there is no problem of that code")
        return json_reply(described(kind))
