"""Tools as functions, each run inside `once` or, if it only reads, inside a read-only snapshot."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from merchant_sdk.arguments import read_arguments, signature_of
from merchant_sdk.errors import KeyInputError, Refused
from merchant_sdk.keys import CallKey, RequestKey
from merchant_sdk.once import Answer, Work, once
from merchant_sdk.reply import to_json
from merchant_sdk.signing import secret_bytes
from merchant_sdk.store import Store
from merchant_sdk.stores.sqlite import SQLiteStore
from merchant_sdk.wire import Call

if TYPE_CHECKING:
    from merchant_sdk.asgi import MerchantApp

_MOST_READERS = 8

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Tool:
    """A registered function. `key` derives the purchase from the same arguments as the function."""

    name: str
    function: Callable[..., Any]
    side_effecting: bool
    key: Callable[..., RequestKey] | None
    order_again: str
    signature: inspect.Signature


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
    are all signing secrets valid today. Raises SecretError for an unusable one.
    """

    def __init__(
        self,
        database: str | PathLike[str] | Store,
        *,
        secrets: Sequence[str],
        schema: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        for secret in secrets:
            secret_bytes(secret)
        self.store: Store = SQLiteStore(database, schema=schema) if isinstance(database, str | PathLike) else database
        self.tools: dict[str, Tool] = {}
        self.now = now
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
        side_effecting: bool,
        key: Callable[..., RequestKey] | None = None,
        order_again: str = "",
        name: str | None = None,
    ) -> Callable[[Function], Function]:
        """Register a function, sync or async, as the tool of its name.

        Its first parameter is the `CallWork` (or the `Read`); the others are the tool's arguments by name.
        `key(work, **arguments)` names the purchase, and `order_again` tells the customer how to make it
        again. Raises TypeError or ValueError at import for a function that could not be called.
        """

        def register(function: Function) -> Function:
            tool_name = name or function.__name__
            if tool_name in self.tools:
                raise ValueError(f"there is a tool {tool_name} already")
            if key is not None and not side_effecting:
                raise ValueError(f"{tool_name} only reads: it needs no key")
            self.tools[tool_name] = Tool(tool_name, function, side_effecting, key, order_again, signature_of(function))
            return function

        return register

    def once(self, key: CallKey | RequestKey) -> Work:
        """`once` over this shop's store and clock."""
        return once(self.store, key, now=self.now)

    def asgi(self, *, max_body: int = 1 << 20) -> MerchantApp:
        """The whole server as an ASGI application. `max_body` is in bytes."""
        from merchant_sdk.asgi import MerchantApp

        return MerchantApp(self, max_body=max_body)

    def run_call(self, call: Call, loop: asyncio.AbstractEventLoop) -> Answer:
        """Answer a side-effecting call, blocking; an async function runs on `loop`, from another thread.

        Raises Refused, StoreBusy, or whatever the function or the commit raised; then nothing is stored
        (but for the refusal itself).
        """
        with self.once(call.call_key()) as work:
            # Looked up only now: a call that was answered replays, whatever became of its tool since (4.10).
            if not work.done:
                tool = self._find(call.tool)
                arguments = read_arguments(tool.signature, call.arguments)
                handed = CallWork(work, call)
                if tool.key is None or not work.bind(
                    _derive(tool.key, handed, arguments), order_again=tool.order_again
                ):
                    work.reply(_finish(tool.function(handed, **arguments), loop))
        return work.answer

    def run_read(self, call: Call, loop: asyncio.AbstractEventLoop) -> str:
        """Answer a read-only call as JSON text, blocking. Raises Refused or what the function raised."""
        tool = self._find(call.tool)
        arguments = read_arguments(tool.signature, call.arguments)
        with self.store.reading() as db:
            return to_json(_finish(tool.function(Read(db, call, self.now()), **arguments), loop))

    def _find(self, name: str) -> Tool:
        tool = self.tools.get(name)
        if tool is None:
            raise Refused("unknown_tool", "This shop has no such tool.", status=404)
        return tool


def _derive(key: Callable[..., RequestKey], work: CallWork, arguments: dict[str, Any]) -> RequestKey:
    try:
        return key(work, **arguments)
    except KeyInputError as error:
        # What no key can be made of (an empty cart, half a portion too many) came with the call: a plain no,
        # not a fault that would leave the customer in doubt.
        raise Refused("invalid_purchase", f"This cannot be ordered: {error}.") from error


def _finish(result: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """The result itself, or that of a coroutine, which runs on its own loop while this thread waits."""
    if not inspect.iscoroutine(result):
        return result
    return asyncio.run_coroutine_threadsafe(result, loop).result()
