"""Reading a rule's `when`: what it is about (7.3). Pure.

Nothing in it may be empty: a condition that was meant and not written would match everything.
"""

from __future__ import annotations

from typing import Final

from gateway.core.identity import Kind
from gateway.core.model import Role
from gateway.core.policy import When
from gateway.core.policy_conditions import ArgumentCondition, Wanted
from gateway.core.policy_patterns import Pattern, PatternRefused
from gateway.core.policy_reading import Path, Reading
from gateway.core.policy_targets import Targets
from gateway.core.policy_values import Interval, Pointer, number_of, pointer, pointer_problem
from gateway.core.strict_json import Json

KEYS: Final = ("target", "targets", "kind", "company", "side_effecting", "step", "role", "arguments")
ORDER: Final = ("gt", "ge", "lt", "le")
OPERATORS: Final = ("equals", "one_of", "contains", "regex", *ORDER, "exists")
MAX_NAME: Final = 1_024
"""Characters of a target or company: as long as the id of what they name can be."""
MAX_LISTED: Final = 1_000
_NO_WHEN: Final = 'must not be empty; a rule for every call says target = "*"'
_EMPTY_EQUALS: Final = 'must not be empty; an empty text is regex = "^$"'
_NULL: Final = "must not be null, which counts as nothing there; say exists = false"


def read_when(read: Reading, at: Path, value: Json) -> When | None:
    """None, and a problem, for what cannot be read."""
    table = read.table(at, value, KEYS)
    if table is None:
        return None
    if not table:
        if not value:
            read.wrong(at, _NO_WHEN)
        return None
    before = len(read.problems)
    side_effecting = table.get("side_effecting")
    when = When(
        targets=_targets(read, at, table),
        kinds=_names(read, at, table, "kind", [kind.value for kind in Kind]),
        companies=_names(read, at, table, "company"),
        roles=_names(read, at, table, "role", [role.value for role in Role]),
        side_effecting=read.flag((*at, "side_effecting"), side_effecting) if "side_effecting" in table else None,
        step=_step(read, (*at, "step"), table["step"]) if "step" in table else None,
        arguments=_arguments(read, (*at, "arguments"), table["arguments"]) if "arguments" in table else (),
    )
    return when if len(read.problems) == before else None


def _targets(read: Reading, at: Path, table: dict[str, Json]) -> Targets | None:
    if "target" in table and "targets" in table:
        read.wrong((*at, "targets"), "stands beside target; only one of them may be given")
        return None
    found: list[str] | None = None
    if "target" in table:
        name = read.text((*at, "target"), table["target"], MAX_NAME)
        found = None if name is None else [name]
    elif "targets" in table:
        place = (*at, "targets")
        if not isinstance(table["targets"], list):
            read.wrong(place, "must be a list of texts")
        elif len(table["targets"]) > MAX_LISTED:
            read.wrong(place, f"must have at most {MAX_LISTED:,} entries")
        else:
            found = read.texts(place, table["targets"], MAX_NAME)
    return None if found is None else Targets(found)


def _names(
    read: Reading, at: Path, table: dict[str, Json], key: str, choices: list[str] | None = None
) -> frozenset[str] | None:
    if key not in table:
        return None
    found = read.texts((*at, key), table[key], MAX_NAME, choices or ())
    return None if found is None else frozenset(found)


def _step(read: Reading, at: Path, value: Json) -> Interval | None:
    most = 1_000_000
    if not isinstance(value, dict):
        step = read.whole(at, value, 1, most)
        return None if step is None else Interval(step, step)
    table = read.table(at, value, ORDER)
    if not value:
        read.wrong(at, "must not be empty")
    bounds = {key: read.whole((*at, key), bound, 0, most) for key, bound in (table or {}).items()}
    interval = _interval(read, at, {key: bound for key, bound in bounds.items() if bound is not None})
    return interval if bounds else None


def _interval(read: Reading, at: Path, bounds: dict[str, Json]) -> Interval | None:
    """Of `gt`, `ge`, `lt`, `le` and their numbers; None if there are none."""
    for strict, loose in (("gt", "ge"), ("lt", "le")):
        if strict in bounds and loose in bounds:
            read.wrong((*at, loose), f"stands beside {strict}; only one of them may be given")
            return None
    if not bounds:
        return None
    found = Interval(
        lower=bounds.get("gt", bounds.get("ge")),
        upper=bounds.get("lt", bounds.get("le")),
        above="gt" in bounds,
        below="lt" in bounds,
    )
    if found.empty:
        read.wrong(at, "can never be met: no number lies within these bounds")
    return found


def _arguments(read: Reading, at: Path, value: Json) -> tuple[ArgumentCondition, ...]:
    if not isinstance(value, dict):
        read.wrong(at, 'must be a table of JSON Pointers, such as { "/total" = { gt = 5000 } }')
        return ()
    if not value:
        read.wrong(at, "must not be empty")
    found = []
    for key, inner in value.items():
        problem = pointer_problem(key)
        if problem is not None:
            read.wrong((*at, key), problem)
            continue
        wanted = _wanted(read, (*at, key), pointer(key), inner)
        if wanted is not None:
            found.append(ArgumentCondition(wanted))
    return tuple(found)


def _wanted(read: Reading, at: Path, where: Pointer, value: Json) -> Wanted | None:
    table = read.table(at, value, OPERATORS)
    if not table:
        if value == {}:
            read.wrong(at, "must not be empty; say exists = true for an argument that only has to be there")
        return None
    before = len(read.problems)
    order = {key: read.amount((*at, key), bound) for key, bound in table.items() if key in ORDER}
    wanted = Wanted(
        at=where,
        exists=read.flag((*at, "exists"), table["exists"]) if "exists" in table else None,
        interval=_interval(read, at, {key: bound for key, bound in order.items() if bound is not None}),
        equals=_operand(read, (*at, "equals"), table["equals"]) if "equals" in table else None,
        one_of=_one_of(read, (*at, "one_of"), table["one_of"]) if "one_of" in table else (),
        contains=_operand(read, (*at, "contains"), table["contains"]) if "contains" in table else None,
        regex=_regex(read, (*at, "regex"), table["regex"]) if "regex" in table else None,
    )
    if len(read.problems) == before:
        _contradictions(read, at, wanted, len(table))
    return wanted if len(read.problems) == before else None


def _contradictions(read: Reading, at: Path, wanted: Wanted, stated: int) -> None:
    if wanted.exists is False and stated > 1:
        read.wrong((*at, "exists"), "can never be met: what is not there cannot be compared as well")
    if wanted.equals is not None and wanted.interval is not None:
        number = number_of(wanted.equals)
        if number is None or not wanted.interval.holds(number):
            read.wrong((*at, "equals"), "can never be met: it does not lie within the bounds beside it")


def _operand(read: Reading, at: Path, value: Json) -> Json:
    if value is None:
        read.wrong(at, _NULL)
    elif value in ("", [], {}):
        read.wrong(at, _EMPTY_EQUALS if at[-1] == "equals" else "must not be empty")
    return value


def _one_of(read: Reading, at: Path, value: Json) -> tuple[Json, ...]:
    if not isinstance(value, list):
        read.wrong(at, "must be a list")
        return ()
    if not value or len(value) > MAX_LISTED:
        read.wrong(at, "must not be empty" if not value else f"must have at most {MAX_LISTED:,} entries")
    return tuple(_operand(read, (*at, place), item) for place, item in enumerate(value))


def _regex(read: Reading, at: Path, value: Json) -> Pattern | None:
    text = read.text(at, value)
    if text is None:
        return None
    try:
        return Pattern(text)
    except PatternRefused as refused:
        read.wrong(at, f"must be {refused}")
        return None
