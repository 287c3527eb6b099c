"""What one request has open on Django's connections, and the lines that began it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

from django.db import connections
from django.http import HttpRequest

from merchant_sdk import units
from merchant_sdk.stores.django import is_inside_merchants_block

Lines = dict[str, str]
"""By database alias, where the last transaction was begun."""


def _leaves_autocommit(connection: Any, autocommit: bool, *_: Any, **__: Any) -> bool:
    return not autocommit


def _begins_inside_a_testcase(connection: Any, *_: Any, **__: Any) -> bool:
    # There the merchant's outermost block is a savepoint of the test's own.
    return bool(connection.atomic_blocks) and not is_inside_merchants_block(connection)


_BEGINNINGS: Final[dict[str, Callable[..., bool]]] = {
    "set_autocommit": _leaves_autocommit,  # by hand, and at the start of an atomic block
    "savepoint": _begins_inside_a_testcase,
}


@contextmanager
def lines_of_beginnings() -> Iterator[Lines]:
    """Where transactions are begun on this thread's connections while the block lasts; nothing of it stays on them."""
    begun: Lines = {}
    with ExitStack() as stack:
        for connection in connections.all():
            for method, begins in _BEGINNINGS.items():
                stack.enter_context(_watched(connection, method, begins, begun))
        yield begun


@contextmanager
def _watched(connection: Any, method: str, begins: Callable[..., bool], begun: Lines) -> Iterator[None]:
    outer = vars(connection).get(method)  # of a request around this one
    call = getattr(connection, method)

    def watched(*args: Any, **kwargs: Any) -> Any:
        if begins(connection, *args, **kwargs):
            begun[connection.alias] = units.merchants_line()
        return call(*args, **kwargs)

    setattr(connection, method, watched)
    try:
        yield
    finally:
        if outer is None:
            delattr(connection, method)
        else:
            setattr(connection, method, outer)


def note_open(request: HttpRequest, begun: Lines) -> None:
    """Tell the request at hand of every transaction that is open now."""
    for alias in connections:
        if _is_open(alias):
            where = begun.get(alias) or _view_of(request)
            units.note(units.Unit(f"a transaction on the database {alias!r}", where, partial(_is_open, alias)))


def undo_open() -> None:
    """What is left open must not be committed by a later request on the same thread."""
    for alias in connections:
        if _is_open(alias):
            connections[alias].close()


def _is_open(alias: str) -> bool:
    connection = connections[alias]
    if connection.connection is None:
        return False
    if connection.in_atomic_block:
        return is_inside_merchants_block(connection)
    return not connection.get_autocommit()


def _view_of(request: HttpRequest) -> str:
    """For one that was begun before the request."""
    view = getattr(request.resolver_match, "func", None)
    code = getattr(view, "__code__", None)
    if code is None:
        return f"the view {getattr(view, '__qualname__', view)}"
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}"
