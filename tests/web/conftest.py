"""The web layer over services that really behave: the registry's own use cases on documents in memory, calls that
run once against a small merchant, and a driver that speaks ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_counters import RedisCounters
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_seals import RedisSeals
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.core import errors, identity
from gateway.core.addresses import AddressRefused
from gateway.core.answer import Answer, iso, message_of, raw
from gateway.core.conversation import Event, EventLog
from gateway.core.model import Principal, Role
from gateway.core.rights import Right, may
from gateway.core.strict_json import JsonRefused
from gateway.service.call_request import CallRequest
from gateway.service.claims import CallLimits
from gateway.service.deciding import Decider
from gateway.service.declarations import Resolution
from gateway.service.desk import Desk, open_desk
from gateway.service.manage_company import ManageCompany
from gateway.service.read_feed import ReadFeed
from gateway.service.register_tool import RegisterTool
from gateway.service.registry import Registry
from gateway.service.replay_notes import ReplayNotes
from gateway.service.running import Running
from gateway.service.sending import Sending, Trace
from gateway.service.settled_answers import SettledAnswers
from gateway.service.waiting import Waiting
from gateway.web.app import Application, create_app
from gateway.web.metrics import Metrics
from gateway.web.services import Limits, Services
from gateway.web.stopping import Stopping

KEYS = {
    "k-runtime": Principal("assistant", Role.RUNTIME, frozenset({"acme"}), "key-1"),
    "k-merchant": Principal("shop", Role.MERCHANT, frozenset({"acme"}), "key-2"),
    "k-operator": Principal("ops", Role.OPERATOR, frozenset({"*"}), "key-3"),
    "k-other": Principal("globex", Role.RUNTIME, frozenset({"globex"}), "key-4"),
}
START_MS = 1_780_000_000_000


class SetClock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return START_MS + int(self.now * 1000)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class CountedTokens:
    def __init__(self) -> None:
        self.made = 0

    def token(self) -> bytes:
        self.made += 1
        return self.made.to_bytes(16, "big")


class MemoryDocuments:
    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.changes = 0

    async def load(self) -> dict[str, bytes]:
        return dict(self.content)

    async def version(self) -> int:
        return self.changes

    async def change(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        if self.content.get(name) != expected:
            return False
        self.changes += 1
        if content is None:
            del self.content[name]
        else:
            self.content[name] = content
        return True


class MemoryLog:
    """The ledger as far as the web layer's neighbours see it: an event log, and whether it is ready."""

    def __init__(self, clock: SetClock) -> None:
        self.clock = clock
        self.logged: dict[bytes, list[dict[str, Any]]] = {}
        self.fault: Exception | None = None
        self.hang: asyncio.Event | None = None
        self.asked = 0

    async def append(self, log: EventLog, events: Sequence[Event], keep_ms: int) -> None:
        for event in events:
            self.add(log.digest, event.type, event.effect_id, dict(event.data))

    def add(self, conversation: bytes, type_: str, effect_id: bytes | None, data: dict[str, Any]) -> None:
        log = self.logged.setdefault(conversation, [])
        shown = effect_id.hex() if effect_id is not None else None
        log.append({"seq": len(log) + 1, "type": type_, "at": iso(self.clock.wall_ms()), "effect_id": shown, **data})

    async def ready(self) -> None:
        self.asked += 1
        if self.hang is not None:
            await self.hang.wait()
        if self.fault is not None:
            raise self.fault


@dataclass
class Merchant:
    """Numbers its orders. `gates` hold calls of a tool back until set; `faults` are raised instead of working.
    `reached` is set by the first call, `crowded` once `crowd` of them are being worked on."""

    hits: list[CallRequest] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    faults: dict[str, Exception] = field(default_factory=dict)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    crowded: asyncio.Event = field(default_factory=asyncio.Event)
    crowd: int = 3
    most_at_once: int = 0
    at_once: int = 0

    async def work(self, request: CallRequest) -> bytes:
        self.hits.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.reached.set()
        if self.at_once >= self.crowd:
            self.crowded.set()
        try:
            if request.tool in self.gates:
                await self.gates[request.tool].wait()
            else:
                await asyncio.sleep(0)
            if request.tool in self.faults:
                raise self.faults[request.tool]
        finally:
            self.at_once -= 1
        return json.dumps(f"Order MO-{1000 + len(self.hits)} placed.").encode()


class PlayedCalls:
    """Calls and look-ups over one memory: an id with the same arguments is one call, done once (2.1, 2.2, 2.7)."""

    def __init__(self, registry: Registry, log: MemoryLog, merchant: Merchant, clock: SetClock) -> None:
        self._registry = registry
        self._log = log
        self._merchant = merchant
        self._clock = clock
        self.records: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.asked: list[CallRequest] = []
        self.traces: list[Trace] = []

    def begin(self, principal: Principal, request: CallRequest, trace: Trace) -> Coroutine[Any, Any, Answer]:
        return self(principal, request, trace)

    async def __call__(self, principal: Principal, request: CallRequest, trace: Trace) -> Answer:
        self.asked.append(request)
        self.traces.append(trace)
        may(principal, Right.CALL, request.company)
        try:
            arguments = identity.read_arguments(request.arguments)
        except JsonRefused as refused:
            raise errors.Malformed(
                f"arguments: {refused}", details={"fields": [{"field": "/arguments", "problem": str(refused)}]}
            ) from None
        tool = self._registry.tool(request.company, request.tool)
        if tool is None:
            near = self._registry.nearest_tools(request.company, request.tool)
            raise errors.UnknownTool(f"nearest: {near}", details={"nearest": near})
        print_ = identity.fingerprint(identity.Kind.TOOL_CALL, request.tool, arguments.canonical)
        if not tool.verdict.side_effecting:
            result = await self._merchant.work(request)
            return self._answer(request, None, "proceed", result, None, False)
        if request.tool_call_id is None and (request.turn is None or request.attempt is None):
            raise errors.Malformed(
                "needs an id", details={"fields": [{"field": "/tool_call_id", "problem": "missing or blank"}]}
            )
        named = request.tool_call_id or print_.hex()
        key = (request.company, request.conversation, named)
        record = self.records.get(key)
        if record is not None:
            return self._again(request, record, print_)
        effect_id = identity.effect_id(
            request.company,
            request.conversation,
            request.turn,
            named,
            identity.Kind.TOOL_CALL,
            request.tool,
            arguments.canonical,
            0,
        )
        record = {
            "print": print_,
            "effect_id": effect_id,
            "request": request,
            "result": None,
            "at": self._clock.wall_ms(),
        }
        self.records[key] = record
        digest = identity.conversation_digest(request.company, request.conversation)
        self._log.add(digest, "effect.executing", effect_id, {})
        try:
            record["result"] = await self._merchant.work(request)
        except errors.GatewayError:
            del self.records[key]
            raise
        self._log.add(digest, "effect.succeeded", effect_id, {})
        return self._answer(request, effect_id, "proceed", record["result"], None, True)

    def _again(self, request: CallRequest, record: dict[str, Any], print_: bytes) -> Answer:
        if record["print"] != print_:
            raise errors.ToolCallIdReused()
        if record["result"] is None:
            raise errors.CallInFlight(retry_after_s=0.4)
        age_s = (self._clock.wall_ms() - record["at"]) / 1000
        replay = {"matched": "tool_call_id", "first_at": iso(record["at"]), "age_s": age_s}
        return self._answer(request, record["effect_id"], "replay", record["result"], replay, True)

    def _answer(
        self,
        request: CallRequest,
        effect_id: bytes | None,
        decision: str,
        result: bytes,
        replay: dict[str, Any] | None,
        recorded: bool,
    ) -> Answer:
        return Answer(
            effect_id=effect_id.hex() if effect_id is not None else None,
            company=request.company,
            conversation=request.conversation,
            tool_call_id=request.tool_call_id,
            tool=request.tool,
            decision=decision,
            status="succeeded",
            side_effecting=recorded,
            result=raw(result),
            replay=replay,
            recorded=recorded,
            message=message_of(result, None),
        )

    async def calls(
        self,
        principal: Principal,
        company: str,
        conversation: str,
        tool_call_id: str,
        *,
        turn: str | None = None,
        step: int | None = None,
    ) -> list[dict[str, Any]]:
        may(principal, Right.READ_CALLS, company)
        found = self.records.get((company, conversation, tool_call_id))
        if found is None or (turn is not None and found["request"].turn != turn):
            return []
        if step is not None and found["request"].step != step:
            return []
        events = self._log.logged[identity.conversation_digest(company, conversation)]
        mine = [event for event in events if event["effect_id"] == found["effect_id"].hex()]
        return [{**self._record(found), "events": mine}]

    async def unknown(
        self, principal: Principal, company: str, cursor: str | None, limit: int
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Calls whose outcome never came."""
        may(principal, Right.READ_CALLS, company)
        open_ = [r for (c, _, _), r in self.records.items() if c == company and r["result"] is None]
        skip = int((cursor or "0:0").partition(":")[2])
        page = open_[skip : skip + limit]
        rest = len(open_) > skip + limit
        return [self._record(record) for record in page], f"0:{skip + limit}" if rest else None

    async def resolve(self, principal: Principal, effect_id: str, said: Resolution) -> dict[str, Any]:
        """Ends a call whose outcome never came; said again it changes nothing (5.5)."""
        may(principal, Right.RESOLVE, said.company)
        place = (said.company, said.conversation)
        mine = (record for (*where, _), record in self.records.items() if tuple(where) == place)
        record = next((record for record in mine if record["effect_id"].hex() == effect_id), None)
        if record is None:
            raise errors.NotFound("No such effect.")
        outcome = (said.outcome, said.result, said.fault)
        if record["result"] is not None or record.setdefault("resolved", outcome) != outcome:
            raise errors.NotIndeterminate(details={"stands": {"status": "succeeded", "settled_at": None}})
        return {**self._record(record), "status": said.outcome, "result": raw(said.result)}

    async def events(
        self, principal: Principal, company: str, conversation: str | None, after: int, limit: int
    ) -> list[dict[str, Any]]:
        may(principal, Right.READ_EVENTS, company)
        log = self._log.logged.get(identity.conversation_digest(company, conversation or ""), [])
        return [event for event in log if event["seq"] > after][:limit]

    async def last_event(self, principal: Principal, company: str, conversation: str | None) -> int:
        may(principal, Right.READ_EVENTS, company)
        return len(self._log.logged.get(identity.conversation_digest(company, conversation or ""), []))

    def _record(self, record: dict[str, Any]) -> dict[str, Any]:
        request: CallRequest = record["request"]
        return {
            "effect_id": record["effect_id"].hex(),
            "company": request.company,
            "conversation": request.conversation,
            "tool_call_id": request.tool_call_id,
            "tool": request.tool,
            "status": "indeterminate" if record["result"] is None else "succeeded",
            "result": raw(record["result"]),
            "error": None,
        }


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> dict[str, Any]:
        """The problem document, after checking that it is one."""
        assert self.headers["content-type"] == "application/problem+json", self
        found: dict[str, Any] = self.json()
        assert found["status"] == self.status
        assert found["request_id"] == self.headers["request-id"]
        return found

    @property
    def fields(self) -> list[str]:
        return [each["field"] for each in self.problem["fields"]]


Headers = Iterable[tuple[str | bytes, str | bytes]]


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


def _feed() -> ReadFeed:
    """The real use case over a ledger in memory that nothing was written into."""
    commands = Commands(open_client(parse_ledger_url("memory")), connect_timeout_s=60, command_timeout_s=60)
    return ReadFeed(RedisLedger(commands), RedisSeals(commands))


def _desk(registry: Registry, clock: SetClock, tokens: Any) -> Desk:
    """The real use cases behind effects and approvals, over a ledger in memory; nothing is sent from here."""
    commands = Commands(open_client(parse_ledger_url("memory")), connect_timeout_s=60, command_timeout_s=60)
    ledger, waiting = RedisLedger(commands), Waiting(clock)
    decider, settled, nothing = Decider(ledger), SettledAnswers(clock), lambda work: work.close()
    running = Running(
        decider=decider,
        sending=Sending(None, None, clock, result_cap=1_048_576),  # type: ignore[arg-type]
        registry=registry,
        waiting=waiting,
        settled=settled,
        clock=clock,
        lease_margin_s=5.0,
        spawn=nothing,
    )
    return open_desk(
        registry=registry,
        ledger=ledger,
        counters=RedisCounters(commands),
        decider=decider,
        running=running,
        reading=None,  # type: ignore[arg-type]
        waiting=waiting,
        asking=None,  # type: ignore[arg-type]
        notes=ReplayNotes(ledger, clock, nothing),
        settled=settled,
        schemas=_AnySchema(),
        clock=clock,
        randomness=tokens,
        limits=CallLimits(),
        result_cap=1_048_576,
    )


class Gateway:
    """The application and everything under it, driven over ASGI."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.clock = SetClock()
        self.documents = MemoryDocuments()
        self.log = MemoryLog(self.clock)
        self.merchant = Merchant()
        self.metrics = Metrics()
        self.stopping = Stopping()
        tokens = CountedTokens()
        self.registry = Registry(self.documents, self.clock, fixed_keys=KEYS)
        self.calls = PlayedCalls(self.registry, self.log, self.merchant, self.clock)
        tools = RegisterTool(
            registry=self.registry,
            stored=self.documents,
            ledger=self.log,  # type: ignore[arg-type]
            schemas=_AnySchema(),
            check_endpoint=_check_endpoint,
            clock=self.clock,
            platform_overrides={},
        )
        companies = ManageCompany(
            registry=self.registry, stored=self.documents, tools=tools, clock=self.clock, randomness=tokens
        )
        desk = _desk(self.registry, self.clock, tokens)
        self.services = Services(
            handle_call=self.calls,
            look_up=self.calls,
            feed=_feed(),
            resolve_unknown=self.calls.resolve,
            submit_effect=desk.submit_effect,
            report_effect=desk.report_effect,
            decide_approval=desk.decide_approval,
            policy_of=self.registry.policy,
            register_tool=tools,
            manage_company=companies,
            registry=self.registry,
            ledger=self.log,
            metrics=self.metrics,
            stopping=self.stopping,
            clock=self.clock,
            randomness=tokens,
            limits=limits or Limits(),
        )
        self.app: Application = create_app(self.services)

    def with_services(self, **changes: Any) -> Gateway:
        """The same, with other services put in."""
        self.services = replace(self.services, metrics=Metrics(), **changes)
        self.metrics = self.services.metrics
        self.app = create_app(self.services)
        return self

    async def register(self, *names: str, company: str = "acme") -> None:
        for name in names:
            answer = await self.put(
                f"/v1/companies/{company}/tools/{name}", {"endpoint": "https://shop.example/tools"}, key="k-operator"
            )
            assert answer.status == 200, answer

    async def get(self, path: str, **more: Any) -> Response:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, document: Any = None, **more: Any) -> Response:
        return await self.ask("POST", path, document, **more)

    async def put(self, path: str, document: Any = None, **more: Any) -> Response:
        return await self.ask("PUT", path, document, **more)

    async def call(self, /, key: str | None = "k-runtime", headers: Headers = (), **fields: Any) -> Response:
        """`POST /v1/calls` with the usual fields; one set to `...` is left out."""
        usual = {"company": "acme", "conversation": "c-1", "tool": "place_order", "arguments": {}, "tool_call_id": "a"}
        document = {name: value for name, value in {**usual, **fields}.items() if value is not ...}
        return await self.post("/v1/calls", document, key=key, headers=headers)

    async def ask(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        body: bytes | None = None,
        chunks: Sequence[bytes] | None = None,
        key: str | None = "k-runtime",
        headers: Headers = (),
        receive: Callable[[], Awaitable[dict[str, Any]]] | None = None,
    ) -> Response:
        """Send one request. `path` is as on the wire, percent-encoded, query and all."""
        if document is not None:
            body = json.dumps(document).encode()
        parts = list(chunks) if chunks is not None else [body or b""]
        messages = [
            {"type": "http.request", "body": part, "more_body": place < len(parts) - 1}
            for place, part in enumerate(parts)
        ]

        async def receives() -> dict[str, Any]:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(self.scope(method, path, key, headers, body), receive or receives, send)
        if not sent:
            return Response(0, {}, b"")
        start, end = sent
        assert start["type"] == "http.response.start"
        assert not end.get("more_body", False)
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        assert len({name for name, _ in pairs}) == len(pairs), pairs
        found = Response(start["status"], dict(pairs), end["body"])
        if "content-length" in found.headers and method != "HEAD":
            assert int(found.headers["content-length"]) == len(found.body)
        return found

    def scope(
        self, method: str, path: str, key: str | None, headers: Headers, body: bytes | None = None
    ) -> dict[str, Any]:
        from urllib.parse import unquote

        raw_path, _, query = path.partition("?")
        lines = [(_bytes(name).lower(), _bytes(value)) for name, value in headers]
        if key is not None:
            lines.append((b"authorization", b"Bearer " + key.encode()))
        if body is not None:
            lines.append((b"content-length", str(len(body)).encode()))
            if not any(name == b"content-type" for name, _ in lines):
                lines.append((b"content-type", b"application/json"))
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw_path),
            "raw_path": raw_path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": lines,
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 8080),
        }

    def series(self) -> dict[str, float]:
        """Every sample that /metrics shows, by its full name, but for the process' own."""
        lines = self.metrics.exposition().decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith(("#", "process_")))
        return {name: float(value) for name, _, value in samples if "_created" not in name}


class _AnySchema:
    def schema_problems(self, parameters: Any) -> list[dict[str, str]]:
        if parameters.get("type", "object") == "object":
            return []
        return [{"field": "/parameters/type", "problem": "must be object"}]


async def _check_endpoint(url: str) -> None:
    if not url.startswith("https://"):
        raise AddressRefused("scheme")


@pytest.fixture(scope="session")
def make_gateway() -> Callable[..., Gateway]:
    return Gateway


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    """A gateway that knows two tools of acme, one side-effecting and one read-only."""
    made = Gateway()
    await made.register("place_order", "get_order")
    yield made
    assert made.app.calls.in_flight == 0
