"""Which rule decides, what two bundles make together, who may approve, and what a limit counts (7.3 to 7.5)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gateway.core.identity import Kind
from gateway.core.model import Principal, Role
from gateway.core.policy import (
    NO_POLICY,
    Action,
    Approval,
    Bundle,
    PolicyCall,
    decide,
    decide_both,
    may_approve,
)
from gateway.core.policy_bundle import read_bundle
from gateway.core.policy_limits import Counted, RateLimit, counted
from gateway.core.strict_json import parse

LIMIT = {"max": 3, "window_s": 60, "per": "conversation"}


def rule(id_: str, priority: int, then: Any, **when: Any) -> dict[str, Any]:
    said = {"decision": then} if isinstance(then, str) else then
    return {"id": id_, "priority": priority, "when": when, "then": said}


def bundle(*rules: Any, default: str = "allow", company: str | None = None) -> Bundle:
    return read_bundle({"default_action": default, "rules": list(rules)}, company)


def call(target: str = "place_order", arguments: str = "{}", kind: Kind = Kind.TOOL_CALL, **more: Any) -> PolicyCall:
    return PolicyCall(kind, target, more.pop("company", "acme"), parse(arguments), **more)


def said(given: Bundle, asked: PolicyCall) -> tuple[str, str | None]:
    ruling = decide(given, asked)
    assert ruling.bundle == given.version
    return ruling.action.value, ruling.rule_id


def test_p7_3_the_lowest_priority_number_is_asked_first_and_the_first_match_decides() -> None:
    """7.3: wherever the rules stand in the document."""
    rules = bundle(
        rule("last", 30, "deny", target="*"),
        rule("first", 1, "allow", target="get_*"),
        rule("middle", 20, {"decision": "require_approval"}, targets=["get_x", "place_order"]),
    )
    assert said(rules, call("get_x")) == ("allow", "first")
    assert said(rules, call("place_order")) == ("require_approval", "middle")
    assert said(rules, call("other")) == ("deny", "last")


@pytest.mark.parametrize("default", ["allow", "deny"])
@pytest.mark.parametrize("kind", list(Kind))
def test_p7_3_what_no_rule_is_about_gets_the_default_but_a_local_effect_is_allowed(default: str, kind: Kind) -> None:
    """7.3: a default of deny does not stop what the runtime does within itself; a rule does."""
    given = bundle(rule("r", 1, "deny", target="x"), default=default)
    expected = "allow" if kind is Kind.LOCAL else default
    assert said(given, call("y", kind=kind)) == (expected, None)
    assert said(given, call("x", kind=kind)) == ("deny", "r")


@pytest.mark.parametrize(
    ("when", "met", "unmet"),
    [
        ({"target": "place_order"}, {}, {"target": "place_orders"}),
        ({"target": "place_order"}, {}, {"target": "Place_order"}),
        ({"target": "catalog.query"}, {"target": "catalog.query"}, {"target": "catalog_query"}),
        ({"target": "a[1]"}, {"target": "a[1]"}, {"target": "a[2]"}),
        ({"target": "a[1]"}, {"target": "a1"}, {"target": "a"}),
        ({"target": "place_?rder"}, {}, {"target": "place_rder"}),
        ({"target": "[!g]*"}, {}, {"target": "get_order"}),
        ({"target": "*"}, {"target": "über\nalles"}, None),
        ({"targets": ["x", "place_*"]}, {}, {"target": "y"}),
        ({"kind": "llm_call"}, {"kind": Kind.LLM_CALL}, {}),
        ({"kind": ["llm_call", "tool_call"]}, {}, {"kind": Kind.LOCAL}),
        ({"company": "acme"}, {}, {"company": "Acme"}),
        ({"company": ["b", "acme"]}, {}, {"company": "acm"}),
        ({"role": "runtime"}, {"role": Role.RUNTIME}, {"role": Role.OPERATOR}),
        ({"role": ["runtime", "operator"]}, {"role": Role.OPERATOR}, {}),
        ({"side_effecting": True}, {"side_effecting": True}, {"side_effecting": False}),
        ({"side_effecting": False}, {"side_effecting": False}, {}),
        ({"step": 2}, {"step": 2}, {"step": 3}),
        ({"step": 2}, {"step": 2}, {}),
        ({"step": {"ge": 2, "lt": 4}}, {"step": 3}, {"step": 4}),
        ({"step": {"gt": 2}}, {"step": 3}, {"step": 2}),
        ({"target": "*", "step": {"le": 2}}, {"step": 2}, {"step": 3}),
        ({"arguments": {"/a": {"gt": 1}, "/b": {"equals": "x"}}}, {"arguments": '{"a": 2, "b": "x"}'}, {"arguments": '{"a": 2}'}),
    ],
)  # fmt: skip
def test_p7_3_all_that_a_rule_states_must_hold(when: Any, met: Any, unmet: Any) -> None:
    """7.3: names byte for byte, globs, exact sets; what is not stated by the call is not met. Asked twice, since
    what a rule is about is remembered."""
    given = bundle(rule("r", 1, "deny", **when))
    for _ in range(2):
        assert said(given, call(**met)) == ("deny", "r")
        if unmet is not None:
            assert said(given, call(**unmet)) == ("allow", None)


def test_many_made_up_names_do_not_fill_the_memory() -> None:
    """9.4: what a bundle remembers is bounded, and right after it was cleared."""
    given = bundle(rule("r", 1, "deny", target="n1*"))
    for number in range(10_000):
        decide(given, call(f"n{number}"))
    assert len(given._about) <= 4_096
    assert said(given, call("n17")) == ("deny", "r")
    assert said(given, call("n27")) == ("allow", None)


def test_an_approval_and_its_defaults() -> None:
    """7.4: who is asked, how long, and what they are told."""
    full = {"decision": "require_approval", "approvers": ["anna", "merchant"], "timeout_s": 60.0, "message": "Sure?", "reason": "costly"}  # fmt: skip
    given = bundle(rule("a", 1, full, target="a"), rule("b", 2, "require_approval", target="b"))
    ruling = decide(given, call("a"))
    assert (ruling.reason, ruling.approval) == ("costly", Approval(("anna", "merchant"), 60, "Sure?"))
    assert decide(given, call("b")).approval == Approval(("operator",), 900, None)


@pytest.mark.parametrize(
    ("approvers", "name", "role", "may"),
    [
        (("operator",), "anna", Role.OPERATOR, True),
        (("operator",), "operator", Role.RUNTIME, False),
        (("anna",), "anna", Role.RUNTIME, True),
        (("anna",), "Anna", Role.OPERATOR, False),
        (("merchant", "anna"), "shop", Role.MERCHANT, True),
        (("customer",), "customer", Role.RUNTIME, False),
        (("operator", "merchant"), "chat", Role.RUNTIME, False),
    ],
)
def test_p7_4_a_name_is_no_role_and_a_role_is_no_name(
    approvers: tuple[str, ...], name: str, role: Role, may: bool
) -> None:
    """7.4: only a principal that the rule names may decide; a key that calls itself operator is none."""
    assert may_approve(approvers, Principal(name, role, frozenset({"*"}), "k")) is may


ALLOW, ASK, DENY = (rule("r", 1, each, target="*") for each in ("allow", "require_approval", "deny"))


@pytest.mark.parametrize(
    ("platform", "company", "expected"),
    [
        (None, None, ("allow", None, "")),
        (bundle(DENY), None, ("deny", "r", "")),
        (None, bundle(DENY, company="acme"), ("deny", "r", "acme")),
        (bundle(DENY), bundle(ALLOW, company="acme"), ("deny", "r", "")),
        (bundle(ASK), bundle(ALLOW, company="acme"), ("require_approval", "r", "")),
        (bundle(ASK), bundle(DENY, company="acme"), ("deny", "r", "acme")),
        (bundle(ALLOW), bundle(DENY, company="acme"), ("deny", "r", "acme")),
        (bundle(ALLOW), bundle(ASK, company="acme"), ("require_approval", "r", "acme")),
        (bundle(ASK), bundle(ASK, company="acme"), ("require_approval", "r", "")),
        (bundle(ALLOW), bundle(ALLOW, company="acme"), ("allow", "r", "")),
        (bundle(default="allow"), bundle(ALLOW, company="acme"), ("allow", "r", "acme")),
        (bundle(default="deny"), bundle(ALLOW, company="acme"), ("deny", None, "")),
        (bundle(ALLOW), bundle(default="deny", company="acme"), ("deny", None, "acme")),
        (bundle(default="deny"), bundle(DENY, company="acme"), ("deny", "r", "acme")),
    ],
)
def test_p7_3_of_the_platforms_and_the_companys_policy_the_stricter_holds(
    platform: Bundle | None, company: Bundle | None, expected: tuple[str, str | None, str]
) -> None:
    """7.3: a company adds to what the platform demands and cannot undo it, nor the platform what the company demands."""
    ruling = decide_both(platform, company, call())
    assert (ruling.action.value, ruling.rule_id, ruling.owner) == expected
    if platform is company is None:
        assert ruling is NO_POLICY


def limited(id_: str, priority: int, decision: str = "allow", **when: Any) -> dict[str, Any]:
    return rule(id_, priority, {"decision": decision, "rate_limit": LIMIT}, **when)


def test_p7_3_the_limits_of_both_policies_count_unless_it_is_denied() -> None:
    """7.3: each decision has an optional rate limit, and no gate loses its own to the other's."""
    ours, theirs = limited("p", 1, target="*"), limited("c", 1, "require_approval", target="*")
    ruling = decide_both(bundle(ours), bundle(theirs, company="acme"), call())
    assert ruling.action is Action.REQUIRE_APPROVAL
    assert {(each.owner, each.rule_id) for each in ruling.limits} == {("", "p"), ("acme", "c")}
    denied = decide_both(bundle(ours), bundle(DENY, company="acme"), call())
    assert (denied.action, denied.limits) == (Action.DENY, ())


def test_p7_3_the_limit_of_an_allow_passed_over_for_an_unclear_amount_is_counted() -> None:
    """7.3: an amount written as nobody can compare it must not be the way round a limit on amounts."""
    amounts = limited("amounts", 1, arguments={"/total": {"gt": 100}})
    given = bundle(amounts, rule("ask", 2, "require_approval", arguments={"/vip": {"equals": True}}))
    for arguments, action, limits in (
        ('{"total": 200}', "allow", ["amounts"]),
        ('{"total": 50}', "allow", []),
        ('{"total": "200 EUR"}', "allow", ["amounts"]),
        ('{"total": "200 EUR", "vip": true}', "require_approval", ["amounts"]),
        ('{"total": "200 EUR", "vip": "yes"}', "require_approval", ["amounts"]),
    ):
        ruling = decide(given, call(arguments=arguments))
        assert (ruling.action.value, [each.rule_id for each in ruling.limits]) == (action, limits)
    denying = bundle(amounts, default="deny")
    assert decide(denying, call(arguments='{"total": "200 EUR"}')).limits == ()


def limit(**stated: Any) -> RateLimit:
    then = {"decision": "allow", "rate_limit": {**LIMIT, **stated}}
    (found,) = decide(bundle(rule("r", 1, then, target="*"), company="acme"), call()).limits
    return found


@pytest.mark.parametrize(
    ("stated", "arguments", "bucket", "amount"),
    [
        ({}, "{}", ("conversation", "c"), 1),
        ({"per": "turn"}, "{}", ("turn", "c", "t"), 1),
        ({"per": "company"}, "{}", ("company",), 1),
        ({"per": "/buyer"}, '{"buyer": "b-1"}', ("text", "/buyer", "b-1"), 1),
        ({"per": "/buyer/id"}, '{"buyer": {"id": 7}}', ("number", "/buyer/id", "7e0"), 1),
        ({"per": "/buyer"}, '{"buyer": "7.0"}', ("number", "/buyer", "7e0"), 1),
        ({"per": "/buyer"}, '{"buyer": 7000}', ("number", "/buyer", "7e3"), 1),
        ({"per": "/buyer"}, '{"buyer": "0.00"}', ("number", "/buyer", "0"), 1),
        ({"per": "/buyer"}, '{"buyer": -0.5}', ("number", "/buyer", "-5e-1"), 1),
        (
            {"sum_of": "/total", "max": "5000.50"},
            '{"total": "24000.10"}',
            ("conversation", "c", "sum", "/total"),
            Decimal("24000.10"),
        ),
        ({"sum_of": "/total"}, '{"total": 0}', ("conversation", "c", "sum", "/total"), 0),
    ],
)
def test_p7_5_what_a_limit_counts_and_for_whom(stated: Any, arguments: str, bucket: Any, amount: Any) -> None:
    """7.5: calls, or exact amounts, in a bucket of the rule; one buyer is one however the model writes the number."""
    assert counted(limit(**stated), "acme", "c", "t", parse(arguments)) == Counted(
        ("acme", "r", "acme", *bucket), amount
    )


@pytest.mark.parametrize(
    ("stated", "arguments"),
    [
        ({"per": "turn"}, "{}"),
        ({"per": "/buyer"}, "{}"),
        ({"per": "/buyer"}, '{"buyer": null}'),
        ({"per": "/buyer"}, '{"buyer": ["b"]}'),
        ({"per": "/buyer"}, '{"buyer": true}'),
        ({"per": "/buyer"}, '{"buyer": ""}'),
        ({"sum_of": "/total"}, "{}"),
        ({"sum_of": "/total"}, '{"total": "24,000"}'),
        ({"sum_of": "/total"}, '{"total": -1}'),
    ],
)
def test_p7_5_what_cannot_be_counted_is_left_to_on_error_which_denies_by_default(stated: Any, arguments: str) -> None:
    """7.5: and an amount below zero must not make room for others."""
    given = limit(**stated)
    assert counted(given, "acme", "c", None, parse(arguments)) is None
    assert given.on_error == "deny"
    assert limit(on_error="allow").on_error == "allow"
