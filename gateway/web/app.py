"""The gateway as an ASGI application: `create_app`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from itertools import groupby
from typing import Any, Final

import msgspec
from starlette.routing import Router

from gateway.core.errors import GatewayError, InternalFault, NotFound, Stopping
from gateway.core.rights import may
from gateway.service.sending import Trace
from gateway.web import openapi
from gateway.web.api import operations
from gateway.web.auth import authenticate
from gateway.web.body import BodyDeadline, ClientGone, Receive, check_form, parse_document
from gateway.web.calls import Calls
from gateway.web.fault_log import internal_fault, log_refusal
from gateway.web.head import LAST_EVENT_ID, Head, read_head
from gateway.web.models import NoQuery
from gateway.web.operations import Asked, Body, Operation
from gateway.web.query import read_query
from gateway.web.replies import Reply, Send, Streamed, problem_reply, send_reply, send_stream
from gateway.web.routing import ROUTE, Path, allowed, decoded, raw_path
from gateway.web.services import Services
from gateway.web.short_way import ShortWay

Scope = MutableMapping[str, Any]
Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]

CALLS: Final = "/v1/calls"
_HEAD: Final = "oncegate.head"
_NO_NAMES: Final[Mapping[str, str]] = {}
_NO_QUERY: Final = NoQuery()


class Application:
    """Answers every request, whatever becomes of it: an answer, or a problem and one line in the log.

    Starlette's router finds the operation; `POST /v1/calls` goes past it, for its cycle costs more than all the rest
    of a replay (docs/performance.md). Both ways end in `_serve`.
    """

    def __init__(self, services: Services, lifespan: Lifespan | None = None) -> None:
        self._registry = services.registry
        self._stopping = services.stopping
        self._metrics = services.metrics
        self._randomness = services.randomness
        self.bodies = BodyDeadline(services.clock, services.limits.body_s)
        self.calls = Calls(services)
        services.metrics.watch_in_flight(lambda: self.calls.in_flight)
        self.operations = operations(services, self.calls, lambda: self._document)
        self._document = msgspec.json.encode(openapi.document(self.operations))
        self._call = next(o for o in self.operations if (o.method, o.path) == ("POST", CALLS))
        self.short_way = ShortWay(services, self.calls, self._call, self._refusal)
        by_path = sorted(self.operations, key=lambda operation: operation.path)
        self._router = Router(
            [Path(path, list(group), self._routed) for path, group in groupby(by_path, key=lambda o: o.path)],
            redirect_slashes=False,
            default=_not_found,
            lifespan=lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        head = read_head(scope, self._new_id)
        try:
            if scope["method"] == "POST" and raw_path(scope) == CALLS:
                head.route = CALLS
                await self._serve(self._call, _NO_NAMES, head, scope, receive, send)
            else:
                scope[_HEAD] = head
                await self._router(scope, receive, send)
        except ClientGone:
            return
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not self._stopping.begun:
                raise
            task.uncancel()  # the server's grace is over; what had not begun by then has not been done
            await self._refuse(Stopping(), head, send)
        except Exception as fault:
            head.route = scope.get(ROUTE, head.route)
            await self._refuse(fault, head, send)

    async def _routed(
        self, operation: Operation, segments: Mapping[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        head: Head = scope[_HEAD]
        head.route = operation.path
        await self._serve(operation, segments, head, scope, receive, send)

    async def _serve(
        self, operation: Operation, segments: Mapping[str, str], head: Head, scope: Scope, receive: Receive, send: Send
    ) -> None:
        # Who asks comes first: an anonymous caller learns nothing and has no body read.
        principal = None if operation.open else await authenticate(head, self._registry)
        names = decoded(segments) if segments else _NO_NAMES
        if operation.right is not None and principal is not None:
            may(principal, operation.right, names["company"])
        raw_query = scope["query_string"]
        query = read_query(raw_query, operation.query) if raw_query or operation.query is not NoQuery else _NO_QUERY
        body = None if operation.body is None else await self._read(operation.body, head, receive)
        trace = Trace(head.request_id, head.traceparent)
        reply = await operation.handler(Asked(names, query, body, trace, principal, head.fields.get(LAST_EVENT_ID)))
        self._metrics.request(head.route, head.method, reply.status)
        if isinstance(reply, Streamed):
            await send_stream(receive, send, head, reply)
        else:
            await send_reply(send, head, reply)

    async def _read(self, rule: Body, head: Head, receive: Receive) -> Any:
        check_form(head, rule.limit)
        sent = await self.bodies.read(receive, rule.limit)
        if rule.optional and not sent:
            return rule.read({})
        return rule.read(parse_document(sent, rule.depth))

    async def _refuse(self, fault: Exception, head: Head, send: Send) -> None:
        if head.answered:
            if not isinstance(fault, GatewayError):
                internal_fault(fault, head.request_id)
            return  # half an answer is out: the server drops the connection
        await send_reply(send, head, self._refusal(fault, head))

    def _refusal(self, fault: Exception, head: Head) -> Reply:
        """Logged, counted, and as the caller is told."""
        if isinstance(fault, GatewayError):
            error = fault
        else:
            error = internal_fault(fault, head.request_id)
        if not isinstance(error, InternalFault):
            log_refusal(error, head)
        self._metrics.problem(error.code)
        self._metrics.request(head.route, head.method, error.status)
        return problem_reply(error, head, allowed(error))

    def _new_id(self) -> str:
        return self._randomness.token().hex()


def create_app(services: Services, lifespan: Lifespan | None = None) -> Application:
    """The ASGI application. `lifespan` opens and closes what the services stand on, as Starlette's does."""
    return Application(services, lifespan)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound("there is nothing at this path")
