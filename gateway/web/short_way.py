"""`POST /v1/calls` without ASGI: for a request that came whole, from a known key, and that nothing is wrong with.

Whatever is not so is left to the long way, which says what is wrong; it finds that nothing has happened. Both ways
ask the same functions the same questions in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gateway.core.answer import Answer
from gateway.service.sending import Trace
from gateway.web.auth import bearer_key, known_principal
from gateway.web.body import check_form, parse_document
from gateway.web.calls import STOPPED, Calls, reply_of
from gateway.web.exchange import Exchange, Outbox
from gateway.web.head import Head, head_of
from gateway.web.operations import Operation
from gateway.web.replies import Reply
from gateway.web.services import Services

Refuse = Callable[[Exception, Head], Reply]


class ShortWay:
    """Offered a request: takes it and answers it, now or later, or says that it did not."""

    def __init__(self, services: Services, calls: Calls, operation: Operation, refuse: Refuse) -> None:
        assert operation.body is not None
        self.path: Final = operation.path.encode()
        self.outbox: Final = Outbox()
        self._registry = services.registry
        self._handle = services.handle_call
        self._metrics = services.metrics
        self._clock = services.clock
        self._stopping = services.stopping
        self._new_id = services.randomness.token
        self._route = operation.path
        self._body = operation.body
        self._calls = calls
        self._refuse = refuse

    def __call__(self, headers: Sequence[tuple[bytes, bytes]], body: bytes, exchange: Exchange) -> bool:
        if len(body) > self._body.limit or not self._registry.fresh:
            return False
        head = head_of("POST", headers, self._id)
        head.route = self._route
        try:
            principal = known_principal(bearer_key(head), self._registry)
            check_form(head, self._body.limit)
            request = self._body.read(parse_document(body, self._body.depth))
            began = self._clock.monotonic()
            trace = Trace(head.request_id, head.traceparent)
            begun = self._handle.begin(principal, request, trace)
        except Exception:
            return False
        if isinstance(begun, Answer):
            self._metrics.answered(begun, self._clock.monotonic() - began)
            self._answer(head, exchange, reply_of(begun))
        else:
            exchange.wait(partial(self._give_up, head, exchange))
            self._calls.start(begun, trace, partial(self._answer, head, exchange))
        return True

    def _id(self) -> str:
        return self._new_id().hex()

    def _answer(self, head: Head, exchange: Exchange, said: Reply | Exception) -> None:
        if exchange.answered:
            return  # given up by a stop
        if isinstance(said, Exception):
            exchange.answer(head, self._refuse(said, head))
        else:
            self._metrics.request(self._route, "POST", said.status)
            exchange.answer(head, said)

    def _give_up(self, head: Head, exchange: Exchange) -> None:
        """The server's grace is over. The call runs on for as long as the process does."""
        if exchange.answered or not self._stopping.begun:
            return
        exchange.answer(head, self._refuse(STOPPED(), head))
