"""Tools as functions, each run inside `once` or, if it only reads, inside a read-only snapshot.

`manifest` is what the gateway is told of them (`oncegate tools register --from shop:app`).
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

from merchant_sdk.arguments import Signature, read_arguments, signature_of
from merchant_sdk.deciding import Answer
from merchant_sdk.errors import Misuse, Refused
from merchant_sdk.found_lint import Choice, ToolRemark, remarks_on
from merchant_sdk.handed import CallWork, Read
from merchant_sdk.hooks import Finish, allow, check_hooks, derive, derive_early, finishing
from merchant_sdk.keys import CallKey, RequestKey
from merchant_sdk.once import once
from merchant_sdk.reply import to_json
from merchant_sdk.signing import check_secrets
from merchant_sdk.store import AsyncStore, Store
from merchant_sdk.stores.failures import entering
from merchant_sdk.stores.sqlite import SQLiteStore
from merchant_sdk.wire import Call
from merchant_sdk.work import Work

if TYPE_CHECKING:
    from merchant_sdk.asgi import MerchantApp
    from merchant_sdk.wsgi import MerchantWSGI

_MOST_READERS = 8
_MAX_BODY = 1 << 20

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Tool:
    """A registered function. `key`, `authorise` and `accept` take the same arguments as the function."""

    name: str
    function: Callable[..., Any]
    side_effecting: bool
    key: Callable[..., Any] | None
    order_again: str
    authorise: Callable[..., Any] | None
    accept: Callable[..., Any] | None
    signature: Signature
    declared: dict[str, Any]
    """What of the registration is not the shop's as a whole."""


class Shop:
    """The tools of one merchant over one store.

    `database` is a path (SQLite), a Store, or an async one (AsyncSQLAlchemyStore: tools that touch the database are
    `async def`, and the server is `asgi()`); `schema` is SQL of the shop's own tables for a path. `secrets`
    are all signing secrets valid today. `endpoint` (the URL the gateway reaches it at) and `company` (its name
    there) are for registering only. `lint` is asked about each tool when it is defined, and what it says becomes
    a warning: the gateway's rules where they are installed beside the shop, a function of yours, or None. Raises
    SecretError for an unusable secret or for none, TypeError for a database that is neither.
    """

    def __init__(
        self,
        database: str | PathLike[str] | Store | AsyncStore,
        *,
        secrets: Sequence[str],
        schema: str = "",
        now: Callable[[], float] = time.time,
        endpoint: str | None = None,
        company: str | None = None,
        lint: Choice = "installed",
    ) -> None:
        check_secrets(secrets)
        self.on_loop: AsyncStore | None = None
        """The store as it was given, where its connections live on the server's event loop."""
        if isinstance(database, str | PathLike):
            self.store: Store = SQLiteStore(database, schema=schema)
        else:
            given: Any = database
            self.on_loop = given if hasattr(given, "sync") else None
            self.store = given.sync if hasattr(given, "sync") else given
        if not hasattr(self.store, "max_writers"):
            raise TypeError(
                f"a database is a path (SQLite) or a store of merchant_sdk.stores, not {type(database).__name__}: "
                "PsycopgStore, SQLAlchemyStore, AsyncSQLAlchemyStore or DjangoStore, made of yours"
            )
        self.tools: dict[str, Tool] = {}
        self.now = now
        self.endpoint = endpoint
        self.company = company
        self._lint = lint
        self._secrets = tuple(secrets)
        # Writers get threads of their own: were they to wait for the lock in a shared pool, they could take
        # every thread that the lock's holder needs to finish.
        # The loop's own pool stays free for what async tools do with it.
        self.writers = ThreadPoolExecutor(self.store.max_writers, thread_name_prefix="merchant-sdk-writer")
        self.readers = ThreadPoolExecutor(_MOST_READERS, thread_name_prefix="merchant-sdk-reader")

    def __repr__(self) -> str:
        return f"Shop(tools={sorted(self.tools)})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The signing secrets, for `verify`. Never shown by `repr`."""
        return self._secrets

    def tool(
        self,
        without_brackets: None = None,
        /,
        *,
        name: str | None = None,
        side_effecting: bool = True,
        key: Callable[..., Any] | None = None,
        order_again: str = "",
        authorise: Callable[..., Any] | None = None,
        accept: Callable[..., Any] | None = None,
        description: str | None = None,
        idempotency: Literal["at_most_once", "safe_to_retry"] | None = None,
        on_repeat: Literal["hold", "replay", "run"] | None = None,
        timeout_s: float | None = None,
    ) -> Callable[[Function], Function]:
        """Register a function, sync or async, as the tool of its name.

        Its first parameter is the `CallWork` (or the `Read`); the others are the tool's arguments by name, and
        their annotations its JSON Schema. `key(work, **arguments)` names the purchase and changes nothing: it
        is asked before the work begins, and inside it if it wants more than `work.call`. `order_again` tells the
        customer how to make it again.

        An instruction is not an authorisation: `authorise(work, **arguments)` says whether this caller may ask at
        all, before any purchase is looked up; `accept(work, **arguments)` whether the shop will do it now (amount,
        stock), for new work only, so that a repeat still gets its answer. Either raises Refused, or returns what is not
        true (None aside, for one that only raises).

        The rest is for the gateway; `description` is the docstring unless given. Raises TypeError or ValueError at
        import for a function that could not be called.
        """

        if without_brackets is not None:
            raise TypeError("write @shop.tool(), with brackets, also where nothing is in them")

        def register(function: Function) -> Function:
            tool_name = name or function.__name__
            if tool_name in self.tools:
                raise ValueError(f"there is a tool {tool_name} already")
            if not side_effecting and (key is not None or accept is not None):
                raise ValueError(f"{tool_name} only reads: it needs no key and no accept")
            signature = signature_of(function)
            check_hooks(self.store, tool_name, function, key=key, authorise=authorise, accept=accept)
            told = {"idempotency": idempotency, "on_repeat": on_repeat, "timeout_s": timeout_s}
            declared = {
                "description": (inspect.getdoc(function) or "") if description is None else description,
                "parameters": signature.schema,
                "side_effecting": side_effecting,
                **{field: value for field, value in told.items() if value is not None},
            }
            for remark in remarks_on({"name": tool_name, **declared}, self._lint):
                warnings.warn(f"{tool_name}: {remark}", ToolRemark, stacklevel=2)
            self.tools[tool_name] = Tool(
                *(tool_name, function, side_effecting, key, order_again, authorise, accept, signature, declared)
            )
            return function

        return register

    def manifest(self, endpoint: str | None = None) -> list[dict[str, Any]]:
        """Each tool as its `PUT …/tools/{name}` body and, beside it, its `name`; JSON values.

        `endpoint` is the URL that the gateway reaches this shop at, unless the shop was made with one; the status
        endpoint is the one under it. Raises ValueError without any.
        """
        url = endpoint or self.endpoint
        if not url:
            raise ValueError("which URL is the shop reached at? Shop(..., endpoint=...) or --endpoint URL")
        asked = {"status_endpoint": _below(url, "/status")}
        return [
            {"name": tool.name, **tool.declared, "endpoint": url, **(asked if tool.side_effecting else {})}
            for tool in self.tools.values()
        ]

    def once(self, key: CallKey | RequestKey) -> Work:
        """`once` over this shop's store and clock. Raises Misuse where the store is async: `once_async` is for it."""
        if self.on_loop is not None:
            raise Misuse("this shop's store is async: `async with once_async(store, key, now=...)` instead")
        return once(self.store, key, now=self.now)

    def asgi(self, *, max_body: int = _MAX_BODY) -> MerchantApp:
        """The whole server as an ASGI application, or one to mount. `max_body` is in bytes."""
        from merchant_sdk.asgi import MerchantApp

        return MerchantApp(self, max_body=max_body)

    def wsgi(self, *, max_body: int = _MAX_BODY) -> MerchantWSGI:
        """The same as a WSGI application. Raises Misuse where the store is async."""
        if self.on_loop is not None:
            raise Misuse("an async store needs an event loop: serve shop.asgi(), or give the shop a SQLAlchemyStore")
        from merchant_sdk.wsgi import MerchantWSGI

        return MerchantWSGI(self, max_body=max_body)

    def run_call(self, call: Call, finish: Finish) -> Answer:
        """Answer a side-effecting call, blocking.

        Raises Refused, StoreBusy, or whatever the function or the commit raised; then nothing is stored
        (but for the refusal itself). After OutcomeUnknown that is not known.
        """
        finish = finishing(self.store, finish)
        expected = self._expected(call, finish)
        with once(self.store, call.call_key(), now=self.now, expect=expected) as work:
            # Looked up only now: a call that was answered replays, whatever became of its tool since (4.10).
            if not work.done:
                tool = self._find(call.tool)
                arguments = read_arguments(tool.signature, call.arguments)
                handed = CallWork(work, call, self.on_loop)
                allow(tool.authorise, "not_authorised", handed, arguments, finish)
                purchase = expected or (tool.key and derive(tool.key, handed, arguments, finish))
                if purchase is None or not work.bind(purchase, order_again=tool.order_again):
                    allow(tool.accept, "not_accepted", handed, arguments, finish)
                    work.reply(finish(tool.function(handed, **arguments)))
        return work.answer

    def run_read(self, call: Call, finish: Finish) -> str:
        """Answer a read-only call as JSON text, blocking. Raises Refused, StoreBusy or what the function raised."""
        tool = self._find(call.tool)
        arguments = read_arguments(tool.signature, call.arguments)
        finish = finishing(self.store, finish)
        with ExitStack() as stack:
            with entering:
                db = stack.enter_context(self.store.reading())
            handed = Read(db, call, self.now())
            allow(tool.authorise, "not_authorised", handed, arguments, finish)
            return to_json(finish(tool.function(handed, **arguments)))

    def _expected(self, call: Call, finish: Finish) -> RequestKey | None:
        """The purchase, where the store can claim it together with the call and the tool can tell it beforehand."""
        tool = self.tools.get(call.tool)
        if tool is None or tool.key is None or not getattr(self.store, "expects", False):
            return None
        try:
            arguments = read_arguments(tool.signature, call.arguments)
        except Refused:
            return None
        return derive_early(tool.key, call, arguments, finish)

    def _find(self, name: str) -> Tool:
        tool = self.tools.get(name)
        if tool is None:
            raise Refused("unknown_tool", "This shop has no such tool.", status=404)
        return tool


def _below(url: str, path: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path))
