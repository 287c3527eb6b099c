"""Tool names that misled other systems; each test is named with its case id."""

from __future__ import annotations

import pytest

from heuristics import Hints, classify

READ_ONLY = Hints(read_only=True)


@pytest.mark.parametrize(
    "name",
    [
        "orders.pay",
        "inventory.batchChange",
        "subscriptions.changeBillingAnchorDate",
        "refunds.payment",
        "customers.addGroupTo",
    ],
)
def test_k5_01_a_read_only_annotation_does_not_unprotect_a_writing_tool(name: str) -> None:
    """3.4: a vendor's annotation lets no write through, the ambiguous noun pair included."""
    assert classify(name, hints=READ_ONLY).side_effecting


@pytest.mark.parametrize(
    "name", ["orders.list", "inventory.search", "subscriptions.get", "refunds.get", "customers.list"]
)
def test_k5_01_annotated_siblings_that_only_read_stay_reads(name: str) -> None:
    """3.2: the namespace is not the verb."""
    assert not classify(name, hints=READ_ONLY).side_effecting


SUBSTRING_TRAPS = [
    "get_dataset",
    "asset_search",
    "offset_query",
    "search_input",
    "output_stream_read",
    "list_updates",
    "get_settings",
    "address_lookup",
    "payment_status",
    "get_booking",
    "find_postcode",
    "preset_list",
]


@pytest.mark.parametrize("name", SUBSTRING_TRAPS)
def test_k5_02_a_verb_inside_another_word_is_not_a_verb(name: str) -> None:
    """3.2: 'dataset' does not set and 'output' does not put."""
    assert not classify(name).side_effecting


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("get_dataset", True),
        ("asset_search", True),
        ("offset_query", True),
        ("search_input", False),
        ("output_stream_read", False),
        ("list_updates", True),
        ("get_settings", True),
        ("address_lookup", True),
        ("payment_status", True),
        ("get_booking", True),
        ("find_postcode", False),
        ("preset_list", True),
    ],
)
def test_k5_02_the_platform_heuristic_is_the_plain_substring_rule(name: str, expected: bool) -> None:
    """3.1: asked for, the substring rule answers as it always did."""
    assert classify(name, heuristic="platform").side_effecting is expected


@pytest.mark.parametrize("name", ["replace_symbol", "insert_at_symbol", "run_affected_tests"])
def test_k5_04_mutating_tools_stay_protected_under_a_read_only_hint(name: str) -> None:
    """3.4: hints come from outside and may only raise."""
    assert classify(name, hints=READ_ONLY).side_effecting


def test_k5_04_undelete_is_protected_as_a_verb_of_its_own() -> None:
    """3.2: not because 'delete' is inside it."""
    verdict = classify("undelete_record")
    assert verdict.side_effecting
    assert verdict.verb == "undelete"


def test_k5_04_a_hint_that_denies_destruction_changes_nothing() -> None:
    """3.4: deleting a draft is side-effecting, whatever the hint."""
    assert classify("delete_draft", hints=Hints(destructive=False)).side_effecting


def test_k5_04_only_an_override_turns_protection_off() -> None:
    """3.3: the operator's word counts, also against hints."""
    hints = Hints(destructive=True, read_only=False)
    assert not classify("delete_draft", company_overrides={"delete_draft": False}, hints=hints).side_effecting


def test_k5_06_overrides_match_the_exact_registered_name() -> None:
    """3.3: `catalog.query`, `catalog_query`, `A-b` and `a_b` are four tools."""
    overrides = {"catalog_query": True, "A-b": False}
    assert not classify("catalog.query", company_overrides=overrides).side_effecting
    assert classify("catalog_query", company_overrides=overrides).source == "company"
    assert classify("A-b", company_overrides=overrides).source == "company"
    assert classify("a_b", company_overrides=overrides).source == "heuristic:words"


@pytest.mark.parametrize(
    "name",
    [
        "123MCP",
        "-MCP",
        "release prod",
        "build/dev",
        "阿里巴巴",
        "下单",
        "...",
        "🛒",
        "🛒🔥",
        "",
        "\x00\x1b[2J",
        "\u202eteg",
    ],
)
def test_k5_08_names_in_no_known_words_are_side_effecting(name: str) -> None:
    """3.2: what cannot be read is protected until somebody declares it."""
    assert classify(name).side_effecting


@pytest.mark.parametrize(
    "name",
    [
        "criar_pedido",
        "solicitar_devolucao",
        "atualizar_cliente",
        "bestellung_aufnehmen",
        "bestellung_hinzufuegen",
        "bestellung_hinzufügen",
        "passer_commande",
        "reservar_mesa",
        "añadir_al_carrito",
        "aggiungere_prodotto",
    ],
)
def test_k5_09_writing_verbs_of_other_languages_are_side_effecting(name: str) -> None:
    """3.2: shops name tools in their own language."""
    assert classify(name).side_effecting


@pytest.mark.parametrize(
    "name", ["buscar_pedidos_cliente", "ver_historico_cliente", "bestellung_anzeigen", "cercare_prodotti"]
)
def test_k5_09_reading_verbs_of_other_languages_are_reads(name: str) -> None:
    """3.2: the tables hold the main European languages."""
    assert not classify(name).side_effecting


@pytest.mark.parametrize(
    "name",
    [
        "exchange_delivered_order_items",
        "return_delivered_order_items",
        "modify_pending_order_payment",
        "transfer_to_human_agents",
        "send_certificate",
        "book_reservation",
        "cancel_pending_order",
    ],
)
def test_k5_10_trade_verbs_in_front_are_side_effecting(name: str) -> None:
    """3.2: return, exchange, transfer and book act when they lead."""
    assert classify(name).side_effecting


@pytest.mark.parametrize(
    "name",
    [
        "calculate",
        "think",
        "find_user_id_by_email",
        "list_all_product_types",
        "get_order_details",
        "search_onestop_flight",
        "list_return_reasons",
    ],
)
def test_k5_10_their_reading_neighbours_are_reads(name: str) -> None:
    """3.2: behind a read verb, return is a noun."""
    assert not classify(name).side_effecting


@pytest.mark.parametrize(
    "name",
    [
        "finalize_invoice",
        "finalise_invoice",
        "finaliseInvoice",
        "create_billing_portal_session",
        "update_dispute",
        "confirm_payment",
        "capture_charge",
        "void_invoice",
        "redeem_coupon",
        "apply_discount",
        "subscribe_plan",
        "checkout",
        "complete_checkout",
    ],
)
def test_k5_12_billing_verbs_in_either_spelling_are_side_effecting(name: str) -> None:
    """3.2: finalise and finalize, snake and camel."""
    assert classify(name).side_effecting


@pytest.mark.parametrize(
    "name", ["retrieve_balance", "search_documentation", "list_payment_intents", "get_stripe_account_in"]
)
def test_k5_12_billing_reads_are_reads_even_cut_short(name: str) -> None:
    """3.2: a leading read verb decides."""
    assert not classify(name).side_effecting


@pytest.mark.parametrize(
    "name",
    [
        "completeCheckoutSession",
        "cancelCart",
        "delegatePayment",
        "authenticateSession",
        "upsertFeedProducts",
        "postOrderEvents",
        "complete_checkout",
    ],
)
def test_k5_13_commerce_protocol_verbs_are_side_effecting(name: str) -> None:
    """3.2: the camel-case names of commerce protocols."""
    assert classify(name).side_effecting


@pytest.mark.parametrize(
    "name", ["getFeedProducts", "search_catalog", "lookup_catalog", "get_product", "resolve_permalink"]
)
def test_k5_13_a_read_sent_by_post_is_still_a_read(name: str) -> None:
    """3.4: POST is how searches travel, so it raises nothing."""
    assert not classify(name, hints=Hints(http_method="POST")).side_effecting


@pytest.mark.parametrize(
    "name",
    [
        "get_or_create_cart",
        "find_and_book_slot",
        "check_and_reserve",
        "getOrCreateCustomer",
        "replicate_cart",
        "apply_order_edit",
        "bulk_update",
        "unpause_subscription",
        "recharge_wallet",
        "get_quote_and_hold",
    ],
)
def test_k5_16_a_read_that_also_writes_is_side_effecting(name: str) -> None:
    """3.2: `and` and `or` join a mutating verb; rarer verbs are in the tables."""
    assert classify(name).side_effecting


def test_k5_16_nouns_behind_and_are_no_verbs() -> None:
    """3.2: shipping options are not shipped."""
    assert not classify("get_checkout_and_shipping_options").side_effecting
