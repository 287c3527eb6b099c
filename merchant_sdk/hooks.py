"""A tool's hooks (`key`, `authorise`, `accept`): whether they can be called, and what their answers mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from merchant_sdk.errors import KeyInputError, Misuse, Refused
from merchant_sdk.keys import RequestKey
from merchant_sdk.store import Store
from merchant_sdk.wire import Call

Finish = Callable[[Any], Any]
"""Gives a tool's result, waiting for it where the tool is async. The server's part, since it has the loop."""
Hook = Callable[..., Any]

_ONE_THREAD = (
    "the store's connection belongs to one thread: what is written on the event loop would be outside the "
    "transaction. Write a plain function"
)
_NOT_AWAITED = "key, authorise and accept are plain or async functions: what was returned is not awaited"


def check_hooks(store: Store, tool: str, function: Hook, **hooks: Hook | None) -> None:
    """Raises TypeError for what would fail, or not hold, at the first call."""
    asynchronous = [name for name, hook in {"the tool": function, **hooks}.items() if _is_async(hook)]
    if asynchronous and getattr(store, "bound_to_thread", False):
        raise TypeError(f"{tool}: {asynchronous[0]} is async, and {_ONE_THREAD}")
    names = list(inspect.signature(function).parameters)[1:]
    for name, hook in hooks.items():
        if hook is not None:
            try:
                inspect.signature(hook).bind(None, **dict.fromkeys(names))
            except TypeError as misfit:
                raise TypeError(f"{tool}: {name} takes what the function takes: {misfit}") from None


def finishing(store: Store, finish: Finish) -> Finish:
    """`finish`, or for a store that is bound to its thread what refuses to leave it."""
    return _only_here if getattr(store, "bound_to_thread", False) else finish


def allow(hook: Hook | None, code: str, handed: Any, arguments: dict[str, Any], finish: Finish) -> None:
    """Raises Refused unless the hook says yes."""
    if hook is None:
        return
    said = finish(hook(handed, **arguments))
    if inspect.isawaitable(said):
        raise Misuse(_NOT_AWAITED)
    # None is a function that raises where it minds; anything else that is not true is a no.
    if said is not None and not said:
        raise Refused(code, "The shop does not allow this.")


def derive(key: Hook, handed: Any, arguments: dict[str, Any], finish: Finish) -> RequestKey:
    """The purchase that these arguments name. Raises Refused where they name none."""
    try:
        derived: RequestKey = finish(key(handed, **arguments))
    except KeyInputError as error:
        # What no key can be made of (an empty cart, half a portion too many) came with the call: a plain no,
        # not a fault that would leave the customer in doubt.
        raise Refused("invalid_purchase", f"This cannot be ordered: {error}.") from error
    if inspect.isawaitable(derived):
        raise Misuse(_NOT_AWAITED)
    if not isinstance(derived, RequestKey):
        raise Misuse(f"key returns what request_key, redeem or given_key makes, not {type(derived).__name__}")
    return derived


def derive_early(key: Hook, call: Call, arguments: dict[str, Any], finish: Finish) -> RequestKey | None:
    """The purchase, if it can be told from the call and its arguments alone; whatever is wrong is told by `derive`."""
    early = _Early(call)
    try:
        derived = finish(key(early, **arguments))
    except Exception:
        return None
    return derived if isinstance(derived, RequestKey) and not early.asked else None


class _Early:
    """What a `key` is handed before its work has begun. One that asks for more is called again when it has."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.asked = False

    def __getattr__(self, name: str) -> NoReturn:
        self.asked = True
        raise Misuse(f"{name} is there once the work has begun")


def _only_here(result: Any) -> Any:
    if inspect.iscoroutine(result):
        result.close()
        raise Misuse(f"the tool or its hook is async, and {_ONE_THREAD}")
    return result


def _is_async(function: Any) -> bool:
    # Either a function, or an object whose call is one.
    return any(map(inspect.iscoroutinefunction, (function, vars(type(function)).get("__call__"))))
