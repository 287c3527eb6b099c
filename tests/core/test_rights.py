"""The table of rights: promise 9.1, cases K4-05 and K6-12."""

from __future__ import annotations

from itertools import product

import pytest

from gateway.core.errors import Forbidden
from gateway.core.model import Principal, Role
from gateway.core.rights import DOING, RIGHTS, Right, may

EXPECTED = {
    Role.RUNTIME: "call read_calls read_results read_tools read_events",
    Role.MERCHANT: "read_calls read_tools write_tools write_company secrets read_events",
    Role.OPERATOR: " ".join(Right),
}


def principal(role: Role, *companies: str) -> Principal:
    return Principal("p", role, frozenset(companies), "key_1")


@pytest.mark.parametrize(("role", "right"), list(product(Role, Right)))
def test_p9_1_each_role_may_do_what_its_row_says_and_nothing_else(role: Role, right: Right) -> None:
    """9.1: the key decides."""
    if right in EXPECTED[role].split():
        may(principal(role, "acme"), right, "acme")
    else:
        with pytest.raises(Forbidden, match=DOING[right]):
            may(principal(role, "acme"), right, "acme")


@pytest.mark.parametrize(("role", "right"), list(product(Role, Right)))
def test_k6_12_a_foreign_company_is_refused_in_the_same_words_for_every_role_and_right(
    role: Role, right: Right
) -> None:
    """K6-12, K4-05: nothing tells whether the other company exists, or what the key could do there."""
    for company in ("bravo", "Acme", "acme ", "", "*", "acm"):
        with pytest.raises(Forbidden) as refused:
            may(principal(role, "acme"), right, company)
        assert str(refused.value) == "This key is not for that company."
        assert refused.value.status == 403


@pytest.mark.parametrize("right", Right)
def test_p9_1_a_key_without_companies_may_do_nothing(right: Right) -> None:
    """9.1: an empty list is no company, not all of them."""
    with pytest.raises(Forbidden):
        may(principal(Role.OPERATOR), right, "acme")


def test_p9_1_a_key_for_all_companies_reaches_each() -> None:
    """9.1: `*` is all."""
    may(principal(Role.OPERATOR, "*"), Right.RESOLVE, "acme")


def test_p9_1_only_who_may_execute_or_did_execute_reads_stored_results() -> None:
    """9.1: results are read by those who may call, and by the merchant whose own server answered."""
    readers = {role for role, rights in RIGHTS.items() if Right.READ_CALLS in rights}
    assert readers == {role for role, rights in RIGHTS.items() if Right.CALL in rights} | {Role.MERCHANT}


def test_k6_12_a_key_that_may_not_execute_cannot_call() -> None:
    """K6-12: a merchant's key never starts an order."""
    with pytest.raises(Forbidden, match="A merchant key may not call tools"):
        may(principal(Role.MERCHANT, "acme"), Right.CALL, "acme")
