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
        made = await asyncio.to_thread(work, *args, **kwargs)
    result: R = await made if inspect.isawaitable(made) else made
    return result
