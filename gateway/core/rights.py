"""What each role may do, and for which company (promise 9.1). One table; every use case asks `may` first."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from gateway.core.errors import Forbidden
from gateway.core.model import Principal, Role


class Right(StrEnum):
    """One thing a key may be allowed to do."""

    CALL = "call"
    READ_CALLS = "read_calls"
    READ_RESULTS = "read_results"
    READ_TOOLS = "read_tools"
    WRITE_TOOLS = "write_tools"
    WRITE_COMPANY = "write_company"
    SECRETS = "secrets"
    READ_EVENTS = "read_events"
    RESOLVE = "resolve"


_R = Right

RIGHTS: Final[dict[Role, frozenset[Right]]] = {
    Role.RUNTIME: frozenset({_R.CALL, _R.READ_CALLS, _R.READ_RESULTS, _R.READ_TOOLS, _R.READ_EVENTS}),
    # A merchant may not call; it reads what became of its calls, but no stored result (9.1): it has its own.
    Role.MERCHANT: frozenset(
        {_R.READ_CALLS, _R.READ_TOOLS, _R.WRITE_TOOLS, _R.WRITE_COMPANY, _R.SECRETS, _R.READ_EVENTS}
    ),
    Role.OPERATOR: frozenset(Right),
}

DOING: Final[dict[Right, str]] = {
    _R.CALL: "call tools",
    _R.READ_CALLS: "read stored calls",
    _R.READ_RESULTS: "read stored results",
    _R.READ_TOOLS: "list tools",
    _R.WRITE_TOOLS: "register or remove tools",
    _R.WRITE_COMPANY: "change a company's settings",
    _R.SECRETS: "manage signing secrets",
    _R.READ_EVENTS: "read events",
    _R.RESOLVE: "resolve unknown outcomes",
}


def may(principal: Principal, right: Right, company: str) -> None:
    """Return if the key's role has the right and the company is one of the key's; else raise Forbidden.

    The company is judged first and in the same words whether or not it exists, so that a key learns nothing
    about companies that are not its own (9.1).
    """
    if not principal.may_see(company):
        raise Forbidden("This key is not for that company.")
    if right not in RIGHTS[principal.role]:
        raise Forbidden(f"A {principal.role.value} key may not {DOING[right]}.")


def allowed(principal: Principal, right: Right, company: str) -> bool:
    """Whether `may` would return."""
    return principal.may_see(company) and right in RIGHTS[principal.role]
