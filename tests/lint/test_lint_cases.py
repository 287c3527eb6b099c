"""Reported cases of misleading names, as lint sees them; each test is named with its case id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heuristics import Hints

READ_ONLY = Hints(read_only=True)


def codes(findings: list[Any], name: str | None = None) -> set[str]:
    return {each.code for each in findings if name in (None, each.tool)}


def worst(findings: list[Any]) -> set[str]:
    return {each.severity for each in findings}


def test_k5_01_writes_that_say_they_only_read_are_reported_and_their_siblings_are_clean(found: Any, tool: Any) -> None:
    writes = ["orders.pay", "inventory.batchChange", "subscriptions.changeBillingAnchorDate", "refunds.payment"]
    writes.append("customers.addGroupTo")
    reads = ["orders.list", "inventory.search", "subscriptions.get", "refunds.get", "customers.list"]
    findings = found(*(tool(name, hints=READ_ONLY) for name in (*writes, *reads)))
    for name in writes:
        assert "OG104" in codes(findings, name), name
    for name in reads:
        assert worst([each for each in findings if each.tool == name]) <= {"note"}, name


def test_k5_02_a_verb_inside_another_word_is_no_warning(found: Any) -> None:
    names = "get_dataset asset_search offset_query search_input output_stream_read list_updates get_settings"
    names += " address_lookup payment_status get_booking find_postcode preset_list"
    assert worst(found(*names.split())) <= {"note"}
    assert found(*names.split(), heuristic="words") == []
    assert "OG102" in codes(found("get_settings", heuristic="platform"))


def test_k5_04_hints_that_deny_a_change_are_contradictions(found: Any, tool: Any) -> None:
    names = ["replace_symbol", "insert_at_symbol", "run_affected_tests"]
    findings = found(*(tool(name, hints=READ_ONLY) for name in names))
    assert sum(each.code == "OG104" for each in findings) == 3
    assert "OG104" not in codes(found(tool("delete_draft", hints=Hints(destructive=False))))


def test_k5_06_every_pair_that_would_be_one_after_replacing_is_reported(found: Any) -> None:
    findings = found("catalog.query", "catalog_query", "A-b", "a_b", "place_order", "place_order")
    assert [each.tool for each in findings if each.code == "OG202"] == ["A-b", "a_b", "catalog.query", "catalog_query"]
    assert [each.tool for each in findings if each.code == "OG203"] == ["place_order"]


@pytest.mark.parametrize("name", ["123MCP", "-MCP", "release prod", "build/dev", "阿里巴巴", "下单", "...", "🛒"])
def test_k5_08_a_name_that_providers_refuse_is_reported(name: str, found: Any) -> None:
    others = [
        each
        for each in ("123MCP", "-MCP", "release prod", "build/dev", "阿里巴巴", "下单", "...", "🛒")
        if each != name
    ]
    findings = found(name, *others)
    assert "OG201" in codes(findings, name)
    assert not {each.tool for each in findings if each.code == "OG203"}
    # '-MCP' and '123MCP' stay two, and so do names of other letters: nothing collapses to an empty name.
    assert "OG202" not in codes(findings, name)


def test_k5_09_names_in_other_languages_are_protected_and_unknown_ones_ask_to_be_declared(found: Any) -> None:
    names = "criar_pedido solicitar_devolucao atualizar_cliente bestellung_aufnehmen passer_commande reservar_mesa"
    for name in names.split():
        assert codes(found(name)) & {"OG101", "OG108"}, name
    (unknown,) = [each for each in found("blurgen_zorb") if each.code == "OG108"]
    assert "readOnlyHint" in unknown.message


def test_k5_10_trade_verbs_are_reported_as_uncovered_and_reads_are_clean(found: Any) -> None:
    uncovered = "exchange_delivered_order_items return_delivered_order_items"
    uncovered += " transfer_to_human_agents send_certificate"
    for name in uncovered.split():
        assert "OG101" in codes(found(name)), name
    for name in ("modify_pending_order_payment", "cancel_pending_order", "book_reservation"):  # platform verbs in them
        assert worst(found(name)) <= {"note"}, name
    reads = "calculate think find_user_id_by_email list_all_product_types get_order_details search_onestop_flight"
    assert worst(found(*reads.split())) <= {"note"}


def test_k5_12_both_spellings_are_reported_with_a_better_name(found: Any) -> None:
    for name, better in (
        ("finalize_invoice", "submit_invoice"),
        ("finalise_invoice", "submit_invoice"),
        ("finaliseInvoice", "submitInvoice"),
    ):
        (finding,) = found(name)
        assert finding.code == "OG101"
        assert f"'{better}'" in finding.message
    assert found("retrieve_balance", "search_documentation", "get_stripe_account_in", heuristic="words") == []


def test_k5_13_a_get_that_changes_something_is_reported_and_a_post_that_looks_is_not(found: Any, tool: Any) -> None:
    for name in ("cancelCart", "completeCheckoutSession", "upsertFeedProducts"):
        assert "OG106" in codes(found(tool(name, hints=Hints(http_method="GET")))), name
    for name in ("search_catalog", "lookup_catalog", "get_product", "getFeedProducts"):
        assert worst(found(tool(name, hints=Hints(http_method="POST")))) <= {"note"}, name


@pytest.mark.parametrize(
    ("name", "clearer"),
    [
        ("get_or_create_cart", "create_cart"),
        ("find_and_book_slot", "book_slot"),
        ("getOrCreateCustomer", "createCustomer"),
        ("get_quote_and_hold", "call it 'hold_quote'"),
        ("replicate_cart", "create_cart"),
        ("recharge_wallet", "pay_wallet"),
        ("unpause_subscription", "update_subscription"),
    ],
)
def test_k5_16_a_name_that_hides_a_write_is_offered_a_clearer_one(name: str, clearer: str, found: Any) -> None:
    assert any(clearer in each.message for each in found(name)), [each.message for each in found(name)]
    assert "error" not in worst(found("get_checkout_and_shipping_options"))


@pytest.mark.parametrize("levels", [500, 5_000, 1_000_000])
def test_k6_14_a_manifest_nested_too_deep_is_one_clear_line(levels: int, command: Any) -> None:
    Path("deep.json").write_text('{"tools": ' + "[" * levels + "]" * levels + "}", encoding="utf-8")
    status, out, err = command("deep.json")
    assert status == 2
    assert err.count("\n") == 1
    assert err.startswith("deep.json:1:")
    assert "nested" in err
    assert "Traceback" not in err + out


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"properties": {"a": {"$ref": "#/properties/a"}}}, {"allOf": [{"$ref": "#"}]}]
)
def test_k6_14_a_reference_to_itself_is_a_finding(schema: Any, command: Any) -> None:
    tools = [{"name": "get_menu", "description": "x", "inputSchema": {"type": "object", **schema}}]
    Path("tools.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
    status, out, err = command("tools.json")
    assert (status, err) == (1, "")
    assert "OG306" in out
    assert "leads back to itself" in out


def test_k6_14_a_type_that_holds_itself_as_a_part_is_fine(found: Any, tool: Any) -> None:
    node = {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    schema = {"type": "object", "$defs": {"node": node}, "properties": {"tree": {"$ref": "#/$defs/node"}}}
    assert found(tool("get_menu", parameters=schema)) == []


def test_nesting_below_what_is_read_and_above_what_is_registered_is_a_finding(found: Any, tool: Any) -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(60):
        schema = {"type": "object", "properties": {"a": schema}}
    assert "OG306" in codes(found(tool("get_menu", parameters=schema)))
