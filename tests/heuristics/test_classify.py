"""Promises 3.1 to 3.4: what a tool's name, its declarations and its hints make of it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heuristics import Hints, classify, shared_prefix

TWELVE = ["create", "place", "add", "update", "remove", "delete", "cancel", "checkout", "pay", "book", "submit", "set"]
ANY_TEXT = st.text() | st.text(alphabet=st.characters()) | st.text(alphabet="aA_-./:& 9é下\u200b\ud800")


@pytest.mark.parametrize("verb", TWELVE)
def test_p3_1_each_of_the_twelve_protects_at_the_start_and_inside(verb: str) -> None:
    """3.1: starts with or contains, lowercased."""
    for name in (f"{verb}_x", f"xx{verb.upper()}xx"):
        verdict = classify(name, heuristic="platform")
        assert (verdict.side_effecting, verdict.source) == (True, "heuristic:platform")


@given(name=ANY_TEXT)
def test_p3_1_the_platform_heuristic_is_the_substring_rule_on_any_name(name: str) -> None:
    """3.1: exactly that rule, nothing beside it."""
    expected = any(verb in name.lower() for verb in TWELVE)
    assert classify(name, heuristic="platform").side_effecting is expected


def test_p3_1_the_platform_heuristic_misses_what_the_twelve_do_not_name() -> None:
    """3.1: that is why it is not the default."""
    assert not classify("finalise_basket", heuristic="platform").side_effecting


@pytest.mark.parametrize("verb", TWELVE)
def test_p3_2_each_of_the_twelve_is_a_verb_in_front(verb: str) -> None:
    """3.2: the wider list holds the platform's verbs."""
    verdict = classify(f"{verb}_thing")
    assert (verdict.side_effecting, verdict.verb) == (True, verb)


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("finalise_basket", "finalise"),
        ("basket_finalise", "finalise"),
        ("finaliseBasket", "finalise"),
        ("finalise-basket", "finalise"),
        ("baskets.finalise", "finalise"),
        ("FINALISE_BASKET", "finalise"),
        ("baskets/finalise2", "finalise"),
        ("bulk_finalise_baskets", "finalise"),
        ("fulfil_order", "fulfil"),
        ("fulfill_order", "fulfill"),
        ("enrol_student", "enrol"),
        ("authorise_payment", "authorise"),
        ("reset_password_tool", "reset"),
        ("check_in_guest", "check in"),
        ("price_list_update", "update"),
        ("search_reindex", "reindex"),
    ],
)
def test_p3_2_a_mutating_verb_in_verb_position_is_side_effecting(name: str, verb: str) -> None:
    """3.2: whatever the writing, the position or the spelling."""
    verdict = classify(name)
    assert (verdict.side_effecting, verdict.source, verdict.verb) == (True, "heuristic:words", verb)


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("get_booking", "get"),
        ("list_updates", "list"),
        ("view_checkout", "view"),
        ("listOrders", "list"),
        ("orders_list", "list"),
        ("order_get", "get"),
        ("deploy_plan_get", "get"),
        ("search_orders_by_update_time", "search"),
        ("can_cancel_order", "can"),
        ("check_if_can_cancel", "check"),
        ("mail_list_orders", "list"),
        ("run_query", "run"),
        ("get_cancelled_orders", "get"),
        ("look_up_order", "look up"),
    ],
)
def test_p3_2_a_leading_read_verb_makes_it_read_only(name: str, verb: str) -> None:
    """3.2: `get_booking` and `list_updates` read."""
    verdict = classify(name)
    assert (verdict.side_effecting, verdict.source, verdict.verb) == (False, "heuristic:words", verb)


@pytest.mark.parametrize(
    "name",
    [
        "get_or_create_cart",
        "getOrCreateCart",
        "find_and_book_slot",
        "check_then_reserve",
        "search&cancel",
        "list_and_then_delete",
        "carts_createorupdate",
        "get_price_and_auto_apply_coupon",
        "buscar_y_cancelar",
        "suchen_und_buchen",
    ],
)
def test_p3_2_a_joined_mutating_verb_outweighs_the_read_verb(name: str) -> None:
    """3.2: `and`/`or` joins a verb that acts."""
    assert classify(name).side_effecting


@pytest.mark.parametrize(
    "name", ["get_terms_and_conditions", "list_orders_or_none", "search_and", "get_order_and_refund_status"]
)
def test_p3_2_a_conjunction_without_a_verb_behind_it_joins_nothing(name: str) -> None:
    """3.2: only a mutating verb counts."""
    assert not classify(name).side_effecting


@pytest.mark.parametrize(
    "name", ["frobnicate_widget", "order_cancellation", "refunds.payment", "widget", "execute_tool", "call_api"]
)
def test_p3_2_a_name_with_no_known_verb_is_side_effecting(name: str) -> None:
    """3.2: nobody knows, so it is protected; so is a dispatcher, which runs whatever it is given."""
    assert classify(name).side_effecting


@pytest.mark.parametrize(
    "name", ["payment_status", "order_history", "refund_details", "transactions_summary_by_payee", "price_vs_qty"]
)
def test_p3_2_a_noun_for_data_without_a_verb_is_a_read(name: str) -> None:
    """3.2: `payment_status` names what is shown."""
    verdict = classify(name)
    assert not verdict.side_effecting
    assert verdict.verb is None


@pytest.mark.parametrize(
    "name",
    [
        "update_status",
        "set_status",
        "change_details",
        "store_customer_details",
        "charge_customer_balance",
        "transfer_balance",
    ],
)
def test_p3_2_a_noun_for_data_does_not_hide_a_verb(name: str) -> None:
    """3.2: the verb comes first."""
    assert classify(name).side_effecting


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PostCartsIdComplete", True),
        ("PostOrdersIdStatus", True),
        ("GetCartsIdComplete", False),
        ("HeadCarts", False),
        ("CartsByIdDelete", True),
        ("QuoteRequestsByIdPost", True),
        ("QuoteRequestsByIdGet", False),
        ("OrdersSearchPost", False),
        ("listPost", False),
        ("create_item_items__post", True),
        ("read_item_items__get", False),
        ("post_status", False),
    ],
)
def test_p3_2_http_methods_count_in_operation_ids(name: str, expected: bool) -> None:
    """3.2: generated names carry the method; `post_status` is a blog's."""
    assert classify(name).side_effecting is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("search.update_index", True),
        ("cancel.list_orders", True),
        ("catalog.query", False),
        ("webapp_settings_get-appsettings", False),
        ("delete_user-list", True),
        ("delete_user-status", True),
    ],
)
def test_p3_2_a_namespace_is_not_the_verb_but_never_hides_one(name: str, expected: bool) -> None:
    """3.2: what follows the last dot is the name; a mutating verb before it is heard all the same."""
    assert classify(name).side_effecting is expected


@pytest.mark.parametrize("name", ["get_or_graphql", "graphql_query", "query_database", "sql_query"])
def test_p3_2_a_query_that_is_a_statement_may_write(name: str) -> None:
    """3.2: a statement handed over is not known to read, unless `get` leads."""
    assert classify(name).side_effecting is (not name.startswith("get"))


def test_p3_2_the_companys_shared_prefix_is_dropped() -> None:
    """3.2: `set` is the company's name here, not a verb; so is a read word."""
    assert classify("acme_order_get_x", prefix="acme").verb == "get"
    assert classify("monitor9_return_item", prefix="monitor_9").verb == "return"
    assert classify("acme", prefix="acme").side_effecting


def test_p3_2_the_prefix_is_what_all_names_share_up_to_the_first_verb() -> None:
    """3.2: a verb is never taken for a company's name."""
    assert shared_prefix(["auth0_create_action", "auth0_list_logs"]) == "auth_0"
    assert shared_prefix(["acme.shop.getCart", "acme.shop.payCart"]) == "acme_shop"
    assert shared_prefix(["get_cart", "get_order"]) == ""
    assert shared_prefix(["acme_get_cart", "acme_get_order"]) == "acme"
    assert shared_prefix(["acme_get", "shop_get"]) == ""
    assert shared_prefix(["acme_get_cart"]) == ""
    assert shared_prefix(["acme", "acme_get"]) == ""
    assert shared_prefix([]) == ""


def test_p3_3_the_tools_own_word_comes_first() -> None:
    """3.3: its own `side_effecting`, then the company's, then the platform's."""
    verdict = classify(
        "create_cart", tool_override=False, company_overrides={"create_cart": True}, platform_overrides={"*": True}
    )
    assert (verdict.side_effecting, verdict.source) == (False, "tool")


@pytest.mark.parametrize(
    ("company", "platform", "expected"),
    [
        ({"get_cart": True, "get_*": False}, {"get_cart": False}, (True, "company")),
        ({"get_*": True}, {"get_cart": False}, (True, "company")),
        ({"list_*": False}, {"get_cart": True}, (True, "platform_override")),
        ({}, {"get_c*": True}, (True, "platform_override")),
        ({"GET_CART": True, "Get_*": True}, {}, (False, "heuristic:words")),
    ],
)
def test_p3_3_exact_name_then_glob_then_the_platform(
    company: dict[str, bool], platform: dict[str, bool], expected: tuple[bool, str]
) -> None:
    """3.3: the order of overrides, by exact characters."""
    verdict = classify("get_cart", company_overrides=company, platform_overrides=platform)
    assert (verdict.side_effecting, verdict.source) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"*": False, "get_*": True}, True),
        ({"get_*": True, "get_ca*": False}, False),
        ({"get_?art": False, "get_*art": True}, True),
        ({"get_car?": False, "get_car*": True}, True),
    ],
)
def test_p3_3_the_most_specific_glob_wins_in_any_order(rules: dict[str, bool], expected: bool) -> None:
    """3.3: JSON objects have no order to rely on, so literal characters decide; a tie protects."""
    backwards = dict(reversed(rules.items()))
    assert classify("get_cart", company_overrides=rules).side_effecting is expected
    assert classify("get_cart", company_overrides=backwards).side_effecting is expected


def test_p3_3_the_verdict_names_the_rule_and_why() -> None:
    """3.3: an override shows the pattern that matched."""
    verdict = classify("get_cart", company_overrides={"get_*": True})
    assert verdict.reason == "override by the glob 'get_*'"
    assert classify("widget_frob").reason == "no verb that the tables know"
    assert "finalise" in classify("finalise_basket").reason


HINTS = st.builds(
    Hints,
    read_only=st.none() | st.booleans(),
    destructive=st.none() | st.booleans(),
    idempotent=st.none() | st.booleans(),
    http_method=st.none() | st.sampled_from(["GET", "post", "PUT", "Patch", "DELETE", "", "BREW"]),
)


@given(name=ANY_TEXT | st.sampled_from(["create_cart", "get_cart", "x"]), hints=HINTS)
def test_p3_4_no_hint_ever_lowers_protection(name: str, hints: Hints) -> None:
    """3.4: with a hint a tool is at least as protected as without."""
    assert classify(name, hints=hints).side_effecting >= classify(name).side_effecting


@pytest.mark.parametrize(
    "hints",
    [Hints(destructive=True), Hints(read_only=False), Hints(http_method="DELETE"), Hints(http_method="put")],
    ids=["destructive", "not read-only", "DELETE", "PUT"],
)
@pytest.mark.parametrize("heuristic", ["words", "platform"])
def test_p3_4_a_hint_may_raise_protection(hints: Hints, heuristic: str) -> None:
    """3.4: a read by its name that declares to write is protected, and the verdict says that the hint did it."""
    verdict = classify("get_cart", heuristic=heuristic, hints=hints)  # type: ignore[arg-type]
    assert (verdict.side_effecting, verdict.source) == (True, "hint")


@pytest.mark.parametrize(
    "hints", [Hints(), Hints(http_method="GET"), Hints(http_method="POST"), Hints(idempotent=False)]
)
def test_p3_4_other_hints_raise_nothing(hints: Hints) -> None:
    """3.4: how a repeat ends does not say whether anything changes."""
    assert not classify("get_cart", hints=hints).side_effecting


@given(name=ANY_TEXT, prefix=ANY_TEXT)
@example(name="a" * 10_000, prefix="")
@example(name="A" * 10_000, prefix="")
@example(name="aB" * 5_000, prefix="a")
@example(name="_" * 10_000, prefix="_")
@example(name="get_or_" * 1_500, prefix="get")
@example(name="check_in_" * 1_200, prefix="")
@example(name="\ufdfa" * 1_000, prefix="")
def test_p3_2_any_name_gets_one_verdict_and_always_the_same(name: str, prefix: str) -> None:
    """3.2: no string raises, and the same name is judged the same."""
    first = classify(name, prefix=prefix)
    assert first == classify(name, prefix=prefix)
    assert first.source == "heuristic:words"
    assert first.reason
