"""From a path to its operation. Segments are told apart *before* percent-decoding, so that a name may hold a slash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.routing import BaseRoute, Match

from gateway.core.errors import GatewayError, Malformed, MethodNotAllowed
from gateway.core.identity import check_id
from gateway.web.operations import Operation

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Serve = Callable[[Operation, Mapping[str, str], Scope, Receive, Send], Awaitable[None]]

ROUTE = "oncegate.route"
"""Where in the scope the matched template is left, for metrics and logs."""


class WrongMethod(MethodNotAllowed):
    """Carries what the `Allow` header must say."""

    def __init__(self, allow: str) -> None:
        super().__init__(f"this path answers {allow}")
        self.allow = allow


class Path(BaseRoute):
    """All operations of one path template."""

    def __init__(self, template: str, operations: Sequence[Operation], serve: Serve) -> None:
        self.template = template
        self._segments = template.split("/")
        self._operations = {operation.method: operation for operation in operations}
        if "GET" in self._operations:
            self._operations["HEAD"] = self._operations["GET"]
        self._serve = serve

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Full on any method: a wrong one is answered here, by name."""
        if scope["type"] != "http":
            return Match.NONE, {}
        segments = raw_path(scope).split("/")
        if len(segments) != len(self._segments):
            return Match.NONE, {}
        found: dict[str, str] = {}
        for wanted, segment in zip(self._segments, segments, strict=True):
            if wanted.startswith("{") and segment:
                found[wanted[1:-1]] = segment
            elif wanted != segment:
                return Match.NONE, {}
        return Match.FULL, {"path_params": found, ROUTE: self.template}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._operations.get(scope["method"])
        if operation is None:
            raise WrongMethod(", ".join(sorted(self._operations)))
        await self._serve(operation, scope["path_params"], scope, receive, send)


def raw_path(scope: Scope) -> str:
    """The path as it was sent, below where the application is mounted, still percent-encoded."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path: str = raw.partition(b"?")[0].decode("latin-1")
    root = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root + "/") else path


def decoded(segments: Mapping[str, str]) -> dict[str, str]:
    """The names in a path. Raises Malformed where one is not UTF-8 or too long (2.8)."""
    names: dict[str, str] = {}
    wrong: list[dict[str, str]] = []
    for name, segment in segments.items():
        try:
            names[name] = check_id(unquote_to_bytes(segment.encode("latin-1")).decode("utf-8"))
        except UnicodeDecodeError:
            wrong.append({"field": name, "problem": "is not UTF-8"})
        except ValueError as problem:
            wrong.append({"field": name, "problem": str(problem)})
    if wrong:
        named = "; ".join(f"{one['field']} {one['problem']}" for one in wrong)
        raise Malformed(named, details={"fields": wrong})
    return names


def allowed(error: GatewayError) -> str | None:
    """What an `Allow` header must say of this error, if anything."""
    return error.allow if isinstance(error, WrongMethod) else None
