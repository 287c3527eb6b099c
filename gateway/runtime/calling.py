"""Calling what a caller handed in, async or plain."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def called(work: Callable[P, Awaitable[R] | R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `work` gives. A plain function runs in a thread: one that blocks would hold up every other turn, and the
    renewal of its own lease."""
    made: Any
    if inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(type(work).__call__):
        made = work(*args, **kwargs)
    else:
        made = await asyncio.to_thread(_blocking, work, *args, **kwargs)
    result: R = await made if inspect.isawaitable(made) else made
    return result


def _blocking(work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    # No future takes a StopIteration: it would stay undone, and whoever waits for it would wait for ever. A coroutine
    # cannot raise one either (PEP 479).
    try:
        return work(*args, **kwargs)
    except StopIteration as stop:
        raise RuntimeError(f"{getattr(work, '__qualname__', type(work).__name__)} raised StopIteration") from stop
