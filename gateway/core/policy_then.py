"""Reading a rule's `then`: what it says (7.3), whom it asks (7.4) and how often (7.5). Pure."""

from __future__ import annotations

from typing import Final, cast

from gateway.core.model import Role
from gateway.core.policy import Action, Approval, Ruling
from gateway.core.policy_limits import PER, Per, RateLimit
from gateway.core.policy_reading import Path, Reading
from gateway.core.policy_values import Pointer, pointer, pointer_problem
from gateway.core.strict_json import Json

KEYS: Final = ("decision", "reason", "approvers", "timeout_s", "message", "rate_limit")
LIMIT_KEYS: Final = ("max", "window_s", "per", "sum_of", "on_error")
OF_APPROVALS: Final = ("approvers", "timeout_s", "message")
APPROVAL_S: Final = 900
"""How long an approval waits, where the rule does not say."""
MAX_APPROVAL_S: Final = 30 * 86_400
MAX_WINDOW_S: Final = 366 * 86_400
MAX_CALLS: Final = 1_000_000_000
MAX_NAME: Final = 256
_NO_RUNTIME: Final = "must not be runtime: who asks cannot be who approves"


def read_then(read: Reading, at: Path, value: Json, bundle: str, rule_id: str, owner: str) -> Ruling | None:
    """None, and a problem, for what cannot be read."""
    before = len(read.problems)
    table = read.table(at, value, KEYS, ("decision",))
    if table is None:
        return None
    said = (
        read.choice((*at, "decision"), table["decision"], [each.value for each in Action])
        if "decision" in table
        else None
    )
    reason = read.text((*at, "reason"), table["reason"]) if "reason" in table else None
    approval = _approval(read, at, table)
    if said is not None and said != Action.REQUIRE_APPROVAL:
        for key in OF_APPROVALS:
            if key in table:
                read.wrong((*at, key), "goes with require_approval only")
    limit = (
        _limit(read, (*at, "rate_limit"), table["rate_limit"], rule_id, owner, bundle)
        if "rate_limit" in table
        else None
    )
    if said is None or len(read.problems) > before:
        return None
    action = Action(said)
    return Ruling(
        action=action,
        bundle=bundle,
        rule_id=rule_id,
        owner=owner,
        reason=reason,
        approval=approval if action is Action.REQUIRE_APPROVAL else None,
        limits=() if limit is None else (limit,),
    )


def _approval(read: Reading, at: Path, table: dict[str, Json]) -> Approval:
    approvers = [Role.OPERATOR.value]
    if "approvers" in table:
        place = (*at, "approvers")
        if not isinstance(table["approvers"], list):
            read.wrong(place, "must be a list of roles and principals")
        else:
            approvers = read.texts(place, table["approvers"], MAX_NAME) or approvers
            for number, name in enumerate(table["approvers"]):
                if name == Role.RUNTIME:
                    read.wrong((*place, number), _NO_RUNTIME)
    timeout = read.whole((*at, "timeout_s"), table["timeout_s"], 1, MAX_APPROVAL_S) if "timeout_s" in table else None
    message = read.text((*at, "message"), table["message"]) if "message" in table else None
    return Approval(tuple(approvers), timeout or APPROVAL_S, message)


def _limit(read: Reading, at: Path, value: Json, rule_id: str, owner: str, bundle: str) -> RateLimit | None:
    before = len(read.problems)
    table = read.table(at, value, LIMIT_KEYS, ("max", "window_s", "per"))
    if table is None:
        return None
    sum_of = _pointer(read, (*at, "sum_of"), table["sum_of"]) if "sum_of" in table else None
    most = None
    if "max" in table and "sum_of" in table:
        most = read.amount((*at, "max"), table["max"])
        if most is not None and most <= 0:
            read.wrong((*at, "max"), "must be above 0")
    elif "max" in table:
        most = read.whole((*at, "max"), table["max"], 1, MAX_CALLS)
    window = read.whole((*at, "window_s"), table["window_s"], 1, MAX_WINDOW_S) if "window_s" in table else None
    per = _per(read, (*at, "per"), table["per"]) if "per" in table else None
    on_error = read.choice((*at, "on_error"), table.get("on_error", "deny"), ("allow", "deny"))
    if len(read.problems) > before or most is None or window is None or per is None:
        return None
    return RateLimit(owner, rule_id, most, window, per, sum_of, "allow" if on_error == "allow" else "deny", bundle)


def _per(read: Reading, at: Path, value: Json) -> Per | None:
    if isinstance(value, str) and value in PER:
        return cast(Per, value)
    if isinstance(value, str) and value.startswith("/"):
        return _pointer(read, at, value)
    read.wrong(at, f"must be {', '.join(PER)}, or a JSON Pointer such as /buyer_id")
    return None


def _pointer(read: Reading, at: Path, value: Json) -> Pointer | None:
    if not isinstance(value, str) or not value:
        read.wrong(at, "must be a JSON Pointer, such as /total")
        return None
    problem = pointer_problem(value)
    if problem is not None:
        read.wrong(at, problem)
        return None
    return pointer(value)
