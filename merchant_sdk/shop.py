"""Tools as functions, each run inside `once` or, if it only reads, inside a read-only snapshot.

`manifest` is what the gateway is told of them (`oncegate tools register --from shop:app`).
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

from merchant_sdk.arguments import Signature, read_arguments, signature_of
from merchant_sdk.errors import KeyInputError, Misuse, Refused
from merchant_sdk.keys import CallKey, RequestKey
from merchant_sdk.once import Answer, Work, once
from merchant_sdk.reply import to_json
from merchant_sdk.signing import secret_bytes
from merchant_sdk.store import Store
from merchant_sdk.stores.sqlite import SQLiteStore
from merchant_sdk.wire import Call

if TYPE_CHECKING:
    from merchant_sdk.asgi import MerchantApp
    from merchant_sdk.wsgi import MerchantWSGI

_MOST_READERS = 8
_MAX_BODY = 1 << 20

Finish = Callable[[Any], Any]
"""Gives a tool's result, waiting for it where the tool is async. The server's part, since it has the loop."""
Lint = Callable[[dict[str, Any]], Sequence[str]]
"""Remarks on one tool's registration, in words."""

_ONE_THREAD = (
    "the store's connection belongs to one thread: what is written on the event loop would be outside the "
    "transaction. Write a plain function"
)

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Tool:
    """A registered function. `key`, `authorise` and `accept` take the same arguments as the function."""

    name: str
    function: Callable[..., Any]
    side_effecting: bool
    key: Callable[..., RequestKey] | None
    order_again: str
    authorise: Callable[..., Any] | None
    accept: Callable[..., Any] | None
    signature: Signature
    declared: dict[str, Any]
    """What of the registration is not the shop's as a whole."""


@dataclass(frozen=True, slots=True)
class Read:
    """First parameter of a read-only tool: a connection that cannot write, and the call."""

    db: Any
    call: Call
    at: float


class CallWork:
    """First parameter of a side-effecting tool: the open work of one call.

    The function *returns* its reply; the block around it commits and only then is the reply sent.
    """

    def __init__(self, work: Work, call: Call) -> None:
        self._work = work
        self.call = call

    @property
    def db(self) -> Any:
        """The connection inside the transaction."""
        return self._work.db

    @property
    def at(self) -> float:
        """Unix seconds; the time the stored reply will carry."""
        return self._work.at

    @property
    def request_key(self) -> RequestKey | None:
        """The purchase derived by the tool's `key`."""
        return self._work.request_key

    @property
    def answer(self) -> Answer:
        """Raises ReplyBeforeCommit: inside the function the transaction is open."""
        return self._work.answer

    def forget(self, request_key: str) -> None:
        """See `Work.forget`."""
        self._work.forget(request_key)


class Shop:
    """The tools of one merchant over one store.

    `database` is a path (SQLite) or a Store; `schema` is SQL of the shop's own tables for a path. `secrets`
    are all signing secrets valid today. `endpoint` (the URL the gateway reaches it at) and `company` (its name
    there) are for registering only. `lint` is asked about each tool when it is defined, and what it says becomes
    a warning; the gateway's own findings come with `oncegate tools register`. Raises SecretError for an
    unusable secret.
    """

    def __init__(
        self,
        database: str | PathLike[str] | Store,
        *,
        secrets: Sequence[str],
        schema: str = "",
        now: Callable[[], float] = time.time,
        endpoint: str | None = None,
        company: str | None = None,
        lint: Lint | None = None,
    ) -> None:
        for secret in secrets:
            secret_bytes(secret)
        self.store: Store = SQLiteStore(database, schema=schema) if isinstance(database, str | PathLike) else database
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
        *,
        name: str | None = None,
        side_effecting: bool = True,
        key: Callable[..., RequestKey] | None = None,
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
        their annotations its JSON Schema. `key(work, **arguments)` names the purchase, and `order_again` tells
        the customer how to make it again.

        An instruction is not an authorisation: `authorise(work, **arguments)` says whether this caller may ask at
        all, before any purchase is looked up; `accept(work, **arguments)` whether the shop will do it now (amount,
        stock), for new work only, so that a repeat still gets its answer. Either raises Refused, or returns what is not
        true (None aside, for one that only raises).

        The rest is for the gateway; `description` is the docstring unless given. Raises TypeError or ValueError at
        import for a function that could not be called.
        """

        def register(function: Function) -> Function:
            tool_name = name or function.__name__
            if tool_name in self.tools:
                raise ValueError(f"there is a tool {tool_name} already")
            if not side_effecting and (key is not None or accept is not None):
                raise ValueError(f"{tool_name} only reads: it needs no key and no accept")
            signature = signature_of(function)
            self._check_hooks(tool_name, function, key=key, authorise=authorise, accept=accept)
            told = {"idempotency": idempotency, "on_repeat": on_repeat, "timeout_s": timeout_s}
            declared = {
                "description": (inspect.getdoc(function) or "") if description is None else description,
                "parameters": signature.schema,
                "side_effecting": side_effecting,
                **{field: value for field, value in told.items() if value is not None},
            }
            for remark in self._lint({"name": tool_name, **declared}) if self._lint else ():
                warnings.warn(f"{tool_name}: {remark}", stacklevel=2)
            self.tools[tool_name] = Tool(
                *(tool_name, function, side_effecting, key, order_again, authorise, accept, signature, declared)
            )
            return function

        return register

    def _check_hooks(self, tool: str, function: Callable[..., Any], **hooks: Callable[..., Any] | None) -> None:
        """Raises TypeError for what would fail, or not hold, at the first call."""
        asynchronous = [name for name, hook in {"the tool": function, **hooks}.items() if _is_async(hook)]
        if "key" in asynchronous:
            raise TypeError(f"{tool}: key names the purchase from its arguments, and is not awaited: no async function")
        if asynchronous and getattr(self.store, "bound_to_thread", False):
            raise TypeError(f"{tool}: {asynchronous[0]} is async, and {_ONE_THREAD}")
        names = list(inspect.signature(function).parameters)[1:]
        for name, hook in hooks.items():
            if hook is not None:
                try:
                    inspect.signature(hook).bind(None, **dict.fromkeys(names))
                except TypeError as misfit:
                    raise TypeError(f"{tool}: {name} takes what the function takes: {misfit}") from None

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
        """`once` over this shop's store and clock."""
        return once(self.store, key, now=self.now)

    def asgi(self, *, max_body: int = _MAX_BODY) -> MerchantApp:
        """The whole server as an ASGI application, or one to mount. `max_body` is in bytes."""
        from merchant_sdk.asgi import MerchantApp

        return MerchantApp(self, max_body=max_body)

    def wsgi(self, *, max_body: int = _MAX_BODY) -> MerchantWSGI:
        """The same as a WSGI application."""
        from merchant_sdk.wsgi import MerchantWSGI

        return MerchantWSGI(self, max_body=max_body)

    def run_call(self, call: Call, finish: Finish) -> Answer:
        """Answer a side-effecting call, blocking.

        Raises Refused, StoreBusy, or whatever the function or the commit raised; then nothing is stored
        (but for the refusal itself).
        """
        finish = self._finishing(finish)
        with self.once(call.call_key()) as work:
            # Looked up only now: a call that was answered replays, whatever became of its tool since (4.10).
            if not work.done:
                tool = self._find(call.tool)
                arguments = read_arguments(tool.signature, call.arguments)
                handed = CallWork(work, call)
                _allowed(tool.authorise, "not_authorised", handed, arguments, finish)
                if tool.key is None or not work.bind(
                    _derive(tool.key, handed, arguments), order_again=tool.order_again
                ):
                    _allowed(tool.accept, "not_accepted", handed, arguments, finish)
                    work.reply(finish(tool.function(handed, **arguments)))
        return work.answer

    def run_read(self, call: Call, finish: Finish) -> str:
        """Answer a read-only call as JSON text, blocking. Raises Refused or what the function raised."""
        tool = self._find(call.tool)
        arguments = read_arguments(tool.signature, call.arguments)
        finish = self._finishing(finish)
        with self.store.reading() as db:
            handed = Read(db, call, self.now())
            _allowed(tool.authorise, "not_authorised", handed, arguments, finish)
            return to_json(finish(tool.function(handed, **arguments)))

    def _finishing(self, finish: Finish) -> Finish:
        if not getattr(self.store, "bound_to_thread", False):
            return finish

        def only_here(result: Any) -> Any:
            if inspect.iscoroutine(result):
                result.close()
                raise Misuse(f"the tool or its hook is async, and {_ONE_THREAD}")
            return result

        return only_here

    def _find(self, name: str) -> Tool:
        tool = self.tools.get(name)
        if tool is None:
            raise Refused("unknown_tool", "This shop has no such tool.", status=404)
        return tool


def _allowed(
    hook: Callable[..., Any] | None, code: str, handed: CallWork | Read, arguments: dict[str, Any], finish: Finish
) -> None:
    if hook is None:
        return
    said = finish(hook(handed, **arguments))
    if inspect.isawaitable(said):
        raise Misuse("authorise and accept are plain or async functions: what was returned is not awaited")
    # None is a function that raises where it minds; anything else that is not true is a no.
    if said is not None and not said:
        raise Refused(code, "The shop does not allow this.")


def _is_async(function: Any) -> bool:
    # Either a function, or an object whose call is one.
    return any(map(inspect.iscoroutinefunction, (function, vars(type(function)).get("__call__"))))


def _derive(key: Callable[..., RequestKey], work: CallWork, arguments: dict[str, Any]) -> RequestKey:
    try:
        return key(work, **arguments)
    except KeyInputError as error:
        # What no key can be made of (an empty cart, half a portion too many) came with the call: a plain no,
        # not a fault that would leave the customer in doubt.
        raise Refused("invalid_purchase", f"This cannot be ordered: {error}.") from error


def _below(url: str, path: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path))
