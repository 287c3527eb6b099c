"""What an operation of the API is: one row holds what it takes, what it answers, and who does it.

The same rows route requests, check them, and make the OpenAPI document, so that none can say what another does not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from gateway.core.errors import GatewayError
from gateway.core.model import Principal
from gateway.core.rights import Right
from gateway.core.strict_json import MAX_DEPTH, Json
from gateway.service.sending import Trace
from gateway.web.models import NoQuery
from gateway.web.replies import Reply, Streamed

DOCUMENT_DEPTH: Final = MAX_DEPTH
"""Nesting of every body but a call's."""


@dataclass(slots=True)
class Asked:
    """A checked request, as handlers see it. Not frozen: one is made for every call, and freezing triples its cost."""

    path: Mapping[str, str]
    query: Any
    body: Any
    trace: Trace
    principal: Principal | None
    last_event_id: bytes | None = None

    @property
    def caller(self) -> Principal:
        """Who asks; only for operations that want a key."""
        assert self.principal is not None
        return self.principal


Handler = Callable[[Asked], Awaitable[Reply | Streamed]]


@dataclass(frozen=True, slots=True)
class Body:
    """`read` turns a parsed document into what the handler wants, or raises Malformed."""

    schema: Mapping[str, Any] | type[BaseModel]
    read: Callable[[Json], Any]
    depth: int
    limit: int
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """A documented success. `schema` is a model, or a schema written out, or None for no body."""

    description: str
    schema: Mapping[str, Any] | type[BaseModel] | None
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `problems` are those beyond what every operation of its shape may answer."""

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    answers: Mapping[int, Answered]
    body: Body | None = None
    query: type[BaseModel] = NoQuery
    problems: tuple[type[GatewayError], ...] = ()
    right: Right | None = None
    """Asked of the key for the company in the path, before a body is read: a foreign company is 403 whatever it
    says. Use cases ask again, and those whose company stands elsewhere ask alone."""
    open: bool = False
    """Needs no key."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names in the path, in order."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))
