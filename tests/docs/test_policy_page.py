"""docs/policy.md: its policies are fit for use and do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.adapters.policy_files import read_any_policy
from gateway.core.identity import Kind
from gateway.core.policy import PolicyCall, decide
from gateway.core.policy_explain import explain
from gateway.core.strict_json import parse

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
FIRST, MISSING, LIMITED = (read_any_policy(block, "p.toml") for block in re.findall(r"```toml\n(.*?)```", PAGE, re.S))


def order(arguments: str) -> PolicyCall:
    return PolicyCall(Kind.TOOL_CALL, "place_order", "acme", parse(arguments), True)


@pytest.mark.parametrize(
    ("arguments", "first", "missing"),
    [
        ('{"total": 5000}', None, None),
        ('{"total": 5000.01}', "large-orders", "large-orders"),
        ('{"total": "7400.00"}', "large-orders", "large-orders"),
        ('{"total": "7,400"}', "large-orders", "large-orders"),
        ('{"total": null}', None, "orders-without-a-total"),
        ("{}", None, "orders-without-a-total"),
    ],
)
def test_p7_3_the_pages_policies_hold_what_it_says_they_hold(
    arguments: str, first: str | None, missing: str | None
) -> None:
    """7.3: an operator copies these lines."""
    assert decide(FIRST, order(arguments)).rule_id == first
    assert decide(MISSING, order(arguments)).rule_id == missing


def test_the_first_lines_are_five_and_a_default() -> None:
    block = re.findall(r"```toml\n(.*?)```", PAGE, re.S)[0]
    assert len([line for line in block.splitlines() if line]) == 6


def test_the_limited_rule_has_an_exact_limit() -> None:
    (rule,) = LIMITED.rules
    assert str(rule.ruling.limits[0].max) == "2000.00"


def test_the_explanation_on_the_page_is_the_one_that_is_given() -> None:
    """Word for word, version included."""
    shown = explain(FIRST, order('{"total": "7,400"}')).text
    assert f"```\n{shown}\n```" in PAGE
