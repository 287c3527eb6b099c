"""Rules that can never decide anything, since an earlier one matches whatever they would. Pure.

Found is what follows from two rules alone: the earlier one's targets, kinds, companies, roles, step and arguments are
each left out, or take in all that the later one states. Numbers are compared as intervals, lists as sets, globs as
`policy_targets` says; texts and patterns as they are written. Not found is a rule that only several earlier ones
together cover, and one covered by what a glob or a regular expression means beyond that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.core.identity import Kind
from gateway.core.policy import Rule, When
from gateway.core.policy_conditions import Wanted
from gateway.core.policy_values import Interval, number_of
from gateway.core.strict_json import Json, canonical_bytes

_EVERY_KIND: Final = frozenset(kind.value for kind in Kind)


def shadowed(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Each unreachable rule with the first rule that makes it so. Expects them in the order they are asked."""
    asked: list[tuple[Rule, frozenset[str]]] = []
    for later in rules:
        stated = _stated(later.when)
        arguments = {condition.wanted.at.text: condition.wanted for condition in later.when.arguments}
        cover = next((rule for rule, needs in asked if needs <= stated and _covers(rule, later, arguments)), None)
        if cover is not None:
            yield later, cover
        asked.append((later, stated))


def _stated(when: When) -> frozenset[str]:
    """What a rule narrows down: one that narrows something else as well covers no other."""
    names = {condition.wanted.at.text for condition in when.arguments}
    fields = ("targets", "companies", "roles", "side_effecting", "step")
    names.update(f"when.{field}" for field in fields if getattr(when, field) is not None)
    if when.kinds is not None and when.kinds < _EVERY_KIND:
        names.add("when.kinds")
    if when.targets is not None and "*" in when.targets.patterns:
        names.discard("when.targets")
    return frozenset(names)


def _covers(earlier: Rule, later: Rule, arguments: Mapping[str, Wanted]) -> bool:
    wide, narrow = earlier.when, later.when
    if wide.arguments and later.guards and not earlier.guards:
        # An argument that cannot be compared passes an allowing rule and meets a denying one.
        return False
    return (
        _subset(narrow.kinds, wide.kinds)
        and _subset(narrow.companies, wide.companies)
        and _subset(narrow.roles, wide.roles)
        and wide.side_effecting in (None, narrow.side_effecting)
        and (wide.step is None or (narrow.step is not None and narrow.step.within(wide.step)))
        and (wide.targets is None or "*" in wide.targets.patterns or _targets(narrow, wide))
        and _arguments(arguments, wide)
    )


def _subset(narrow: frozenset[str] | None, wide: frozenset[str] | None) -> bool:
    return wide is None or wide >= _EVERY_KIND or (narrow is not None and narrow <= wide)


def _targets(narrow: When, wide: When) -> bool:
    return narrow.targets is not None and wide.targets is not None and narrow.targets.within(wide.targets)


def _arguments(stated: Mapping[str, Wanted], wide: When) -> bool:
    for condition in wide.arguments:
        narrow = stated.get(condition.wanted.at.text)
        if narrow is None or not _implies(narrow, condition.wanted):
            return False
    return True


def _implies(narrow: Wanted, wide: Wanted) -> bool:
    """Whatever answers yes there answers yes here, and what cannot be compared there is not a no here."""
    if wide.exists is False or narrow.exists is False:
        return wide.exists is narrow.exists
    return (
        (wide.interval is None or _inside(narrow, wide.interval))
        and (wide.equals is None or _among(narrow, (wide.equals,)))
        and (not wide.one_of or _among(narrow, wide.one_of))
        and (wide.contains is None or _same(narrow.contains, wide.contains))
        and (wide.regex is None or narrow.regex == wide.regex)
    )


def _inside(narrow: Wanted, wide: Interval) -> bool:
    if narrow.interval is not None and narrow.interval.within(wide):
        return True
    number = None if narrow.equals is None or isinstance(narrow.equals, str) else number_of(narrow.equals)
    return number is not None and wide.holds(number)


def _among(narrow: Wanted, wide: Sequence[Json]) -> bool:
    options = (narrow.equals,) if narrow.equals is not None else narrow.one_of
    return bool(options) and all(any(_same(option, other) for other in wide) for option in options)


def _same(one: Json, other: Json) -> bool:
    return one is not None and type(one) is type(other) and canonical_bytes(one)[0] == canonical_bytes(other)[0]
