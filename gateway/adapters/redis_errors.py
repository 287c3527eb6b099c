"""What a failing Redis means to the ledger: never "no record", and always whether the command may have run."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable
from typing import Any, Final

from redis import exceptions as rx

from gateway.core.errors import LedgerUnavailable

_log = logging.getLogger("oncegate.ledger")


class LedgerUnreachable(Exception):
    """Redis did not do, or did not say that it did, what was asked. The cause is kept.

    ``may_have_run`` is False when the command was refused or never written, True when its bytes left
    and no reply came back: it may have run, or may still run later.
    """

    def __init__(self, message: str, *, may_have_run: bool) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class ScriptMissing(Exception):
    """NOSCRIPT: the server does not know this script's hash (it restarted, or was flushed)."""


# Code words of replies that mean "this server cannot serve the ledger now".
_REFUSALS: Final = frozenset(
    ("ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH", "NOPERM", "NOREPLICAS")
) | frozenset(("OOM", "READONLY", "TRYAGAIN", "UNKILLABLE", "WRONGPASS"))
# After one of these the address may lead to another server by now: connect anew.
_MOVED_ON: Final = frozenset(("CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "UNBLOCKED"))
# One that has no code word of its own.
_TOO_MANY: Final = "ERR max number of clients reached"
# Said only of a command's own keys, so never of a WAIT or an ASKING beside it.
_OF_KEYS: Final = frozenset(("ASK", "CLUSTERDOWN", "MOVED", "TRYAGAIN"))
# A key of the script is on its way to another server; what it wrote before it came to that key stands.
_HALF_WAY: Final = "non local key in a cluster node"
# A script calls a command that this user may not run, or that was renamed: the same of those.
_BROKEN_OFF: Final = re.compile(r", on @user_script:\d+")
# Refusals that come before a script's first write, or never.
_AT_ONCE: Final = _REFUSALS - {"NOPERM"}
# Under cluster-allow-reads-when-down a script is let in and refused at its first write.
_READS_ONLY: Final = "while the cluster is down"
# Before Redis 7 an error raised inside a script hides behind ERR: "... @user_script:12: -OOM command ...".
_INSIDE_SCRIPT: Final = re.compile(r"@user_script: ?\d+: -?([A-Z]+) ")


class ErrorReply(rx.ResponseError):
    """An error reply as Redis worded it; its first word is its code."""

    @property
    def code(self) -> str:
        text = str(self)
        nested = _INSIDE_SCRIPT.search(text)
        return nested[1] if nested else text.partition(" ")[0]

    @property
    def moved_on(self) -> bool:
        """Whether to connect anew before the next command."""
        return self.code in _MOVED_ON


def first_error(reply: Any) -> ErrorReply | None:
    """The error that a reply is or holds: inside a list it would be taken for a field of a record."""
    if type(reply) is list:
        for each in reply:
            kind = type(each)
            if (kind is list or kind is ErrorReply) and (error := first_error(each)) is not None:
                return error
        return None
    return reply if type(reply) is ErrorReply else None


def meaning_of(error: ErrorReply, *, behind: bool = False) -> Exception:
    """ScriptMissing, LedgerUnreachable, or, where the command itself is wrong, the error as it came.

    ``behind``: a command before it in the same write was answered without an error, and has run."""
    code = error.code
    if code == "NOSCRIPT":
        said: Exception = ScriptMissing(str(error))
    elif code in _AT_ONCE or str(error).startswith(_TOO_MANY) or _READS_ONLY in str(error):
        # Such a reply, even from inside a script, comes before that script's first write (see swap.lua).
        said = LedgerUnreachable(f"Redis: {error}", may_have_run=behind and code not in _OF_KEYS)
    elif _HALF_WAY in str(error):
        said = LedgerUnreachable(f"Redis: {error}", may_have_run=True)
    elif _BROKEN_OFF.search(str(error)):
        _log.error("a script broke off, and what it wrote before stands", extra={"because": str(error)})
        said = LedgerUnreachable(f"Redis: {error}", may_have_run=True)
    elif code in _REFUSALS:
        said = LedgerUnreachable(f"Redis: {error}", may_have_run=behind)
    else:
        return error
    said.__cause__ = error
    return said


def unreachable(cause: BaseException | None, *, may_have_run: bool) -> LedgerUnreachable:
    """What a broken, slow or refused connection means to the command behind it."""
    if isinstance(cause, TimeoutError | rx.TimeoutError):
        said = "Redis did not answer in time" if may_have_run else "Redis could not be reached in time"
    elif cause is None:
        said = "Redis hung up"
    else:
        said = f"Redis: {type(cause).__name__}: {cause}"
    error = LedgerUnreachable(said, may_have_run=may_have_run)
    error.__cause__ = cause
    return error


async def served(asked: Awaitable[Any]) -> Any:
    """What was asked of the ledger. Raises LedgerUnavailable where Redis did not serve it."""
    try:
        return await asked
    except LedgerUnreachable as cause:
        raise LedgerUnavailable(may_have_run=cause.may_have_run) from cause
