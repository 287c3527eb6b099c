"""The lint rules: what each says, and that it is silent on good tools."""

from __future__ import annotations

from typing import Any

import pytest

from heuristics import Hints
from heuristics.declared_tool import Place
from heuristics.reports.explained import language_of
from heuristics.rules import RULES, Rule

READ_ONLY = Hints(read_only=True)


def said(findings: list[Any]) -> list[tuple[str, str]]:
    return [(each.code, each.severity) for each in findings]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rules_example_has_its_finding_and_what_to_write_instead_has_none(rule: Rule, command: Any) -> None:
    """As files that somebody lints; what stands instead has nothing above a note either."""
    for sample, expected in ((rule.example, True), (rule.instead, False)):
        name = f"sample.{language_of(sample)}"
        with open(name, "w", encoding="utf-8") as file:
            file.write(sample)
        status, out, err = command(name)
        assert err == ""
        assert (f" {rule.code} " in out) is expected, out
        assert status == 0 or expected, out


def test_codes_and_names_are_each_one_rules_own() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
    assert [rule.code for rule in RULES] == sorted(rule.code for rule in RULES)


@pytest.mark.parametrize(
    "name",
    ["place_order", "get_order", "search_products", "cancelOrder", "list-menu", "update_address", "submit_claim"],
)
def test_a_good_name_has_no_finding(name: str, found: Any) -> None:
    assert said(found(name)) == []


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("finalise_basket", {}, [("OG101", "warning")]),
        ("finalise_basket", {"side_effecting": True}, []),
        ("finalise_basket", {"hints": Hints(read_only=False, idempotent=True)}, []),
        ("finalise_basket", {"hints": Hints(destructive=True, idempotent=True)}, []),
        ("finalise_basket", {"format": "openapi", "hints": Hints(http_method="PUT")}, []),
        ("get_booking", {}, [("OG102", "note")]),
        ("get_booking", {"side_effecting": False}, []),
        ("view_checkout", {}, [("OG103", "error")]),
        ("view_checkout", {"side_effecting": False}, []),
        ("view_checkout", {"side_effecting": True}, []),
        ("view_checkout", {"hints": READ_ONLY}, []),
        ("view_checkout_page", {}, [("OG103", "warning")]),
        ("list_orders_to_cancel", {}, []),
        ("get_order", {"hints": Hints(read_only=False, idempotent=True)}, [("OG104", "warning")]),
        ("cancel_order", {"hints": READ_ONLY}, [("OG104", "warning"), ("OG110", "note")]),
        ("get_order", {"hints": Hints(http_method="GET")}, []),
        ("search_orders", {"hints": Hints(http_method="POST")}, []),
        ("place_order", {"format": "openai"}, []),
        ("place_order", {"hints": Hints()}, [("OG110", "note")]),
        ("cancel_order", {"hints": Hints(http_method="GET", idempotent=True)}, [("OG106", "warning")]),
        ("get_order", {"hints": Hints(http_method="DELETE")}, [("OG106", "warning")]),
        ("execute_tool", {}, [("OG107", "warning")]),
        ("call_api", {"side_effecting": True}, []),
        ("zorble", {}, [("OG108", "warning")]),
        ("zorble", {"side_effecting": True}, []),
        ("cancel_order", {"side_effecting": False}, [("OG109", "note")]),
        ("get_or_create_cart", {}, [("OG204", "note")]),
        ("place_order", {"parameters": None}, [("OG301", "warning")]),
        ("place_order", {"parameters": {"type": "object"}}, [("OG301", "warning")]),
        ("get_order", {"parameters": {"type": "object"}}, [("OG301", "note")]),
        ("get_order", {"parameters": {"type": "object", "additionalProperties": False}}, []),
        ("place_order", {"description": " "}, [("OG303", "warning")]),
        ("get_order", {"description": None}, [("OG303", "note")]),
    ],
)
def test_a_rule_says_what_it_should(
    name: str, changes: dict[str, Any], expected: list[tuple[str, str]], found: Any, tool: Any
) -> None:
    assert said(found(tool(name, **changes))) == expected


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"amount": {"type": "number"}}, ["OG305"]),
        ({"amount": {"type": "integer"}}, []),
        ({"amount": {"type": "string"}}, []),
        ({"amount": {"type": "number", "format": "decimal"}}, []),
        ({"amount": {"anyOf": [{"type": "number", "format": "decimal"}, {"type": "null"}]}}, []),
        ({"amount": {"oneOf": [{"type": "number", "format": "decimal"}, {"type": "number"}]}}, ["OG305"]),
        ({"amount": {"type": "number", "format": "decimal", "anyOf": 7, "oneOf": [True]}}, []),
        ({"unitPrice": {"type": ["number", "null"]}}, ["OG305"]),
        ({"lines": {"type": "array", "items": {"properties": {"price": {"type": "number"}}}}}, ["OG305"]),
        ({"tax_rate": {"type": "number"}, "total_items": {"type": "number"}, "weight": {"type": "number"}}, []),
        ({"order": {"type": "string"}}, ["OG304"]),
        ({"order": {"type": "string", "description": "The id, as list_orders gives it."}}, []),
        ({"order": {"type": "string", "format": "uuid"}, "note": {"type": "string"}}, []),
        ({"confirmed": {"type": "boolean"}, "amount": {"type": "integer"}}, ["OG112"]),
        ({"confirmed": {"type": "boolean"}}, []),
        ({"amount": {"$ref": "#/properties/amount"}}, ["OG306"]),
        ({"amount": {"$ref": "#/nowhere"}}, ["OG306"]),
        ({"part": {"$ref": "https://shop.example/part.json"}}, ["OG306"]),
    ],
)
def test_arguments_are_looked_at_through_nesting_and_references(
    properties: dict[str, Any], expected: list[str], found: Any, tool: Any
) -> None:
    assert [each.code for each in found(tool("place_order", parameters=fields(**properties)))] == expected


def test_what_a_read_filters_by_may_be_a_float(found: Any, tool: Any) -> None:
    """It buys nothing."""
    assert found(tool("search_products", parameters=fields(max_price={"type": "number"}))) == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["catalog.query", "catalog_query"], {"OG201", "OG202"}),
        (["get_order", "getOrder"], {"OG202"}),
        (["get_order", "get_orders"], set()),
        (["get_order", "set_order"], set()),
        (["place_order_1", "place_order_2"], set()),
        (["cancel_order", "cancel_ordre"], {"OG202"}),
        (["cancel_order", "cancle_order"], {"OG108", "OG202"}),
        (["place_order", "place_orders"], {"OG202"}),
        (["cancel_order", "cancel_ordr"], {"OG202"}),
        (["get_order", "get_order"], {"OG203"}),
    ],
)
def test_names_that_differ_too_little_are_told(names: list[str], expected: set[str], found: Any) -> None:
    assert {each.code for each in found(*names)} == expected


def test_the_same_name_in_two_files_or_companies_is_no_fault(found: Any, tool: Any) -> None:
    assert found(tool("place_order"), tool("place_order", place=Place("other.json"))) == []
    assert found(tool("place_order", company="a"), tool("place_order", company="b")) == []


ACROSS: list[tuple[dict[str, str], set[tuple[str, str]]]] = [
    ({"a": "place_order", "b": "placeOrder"}, {("a", "placeOrder"), ("b", "place_order")}),
    ({"a": "place_order", "b": "place_orders"}, {("a", "place_orders"), ("b", "place_order")}),
    ({"a": "cancel_order", "b": "cancel_ordr"}, {("a", "cancel_ordr"), ("b", "cancel_order")}),
    ({"a": "place_order", "b": "place_orders", "c": "place_order"}, {("b", "place_order")}),
    ({"a": "placeOrder", "b": "place_order", "c": "place_order"}, {("a", "place_order")}),
    ({"a": "get_order", "b": "get_orders"}, set()),
    ({"a": "get_order", "b": "set_order"}, set()),
    ({"a": "place_order_1", "b": "place_order_2"}, set()),
    ({"a": "place_order place_orders", "b": "place_order"}, set()),
    ({"a": "place_order", "b": "place_order place_orders"}, set()),
]


@pytest.mark.parametrize(("names", "expected"), ACROSS, ids=[" ".join(names.values()) for names, _ in ACROSS])
def test_nearly_the_same_name_in_two_companies_is_a_note_on_the_odd_one_out(
    names: dict[str, str], expected: set[tuple[str, str]], found: Any, tool: Any
) -> None:
    """A company that uses both names is told so as one that is near itself, not as one that differs from others."""
    tools = [
        tool(name, company=company, place=Place(f"{company}.json"))
        for company in names
        for name in names[company].split()
    ]
    told = [each for each in found(*tools) if each.code == "OG202" and " of '" in each.message]
    assert {each.severity for each in told} <= {"note"}
    assert {(each.place.path[0], each.message.split("'")[1]) for each in told} == expected


def test_near_names_across_companies_are_found_among_very_many(found: Any, tool: Any) -> None:
    """However many companies share a name, each is looked up once: the odd one out is told, the others are not."""
    tools = [tool("place_order", company=f"shop{number}") for number in range(3_000)]
    told = found(*tools, tool("place_ordr", company="last"), tool("placeOrder", company="first"), select=("OG202",))
    assert {each.tool for each in told} == {"placeOrder", "place_ordr"}
    spellings = [tool("a" + "_" * number, company="odd") for number in range(500)]
    assert len(found(*spellings, select=("OG202",))) == 500


@pytest.mark.parametrize(
    ("name", "format_", "severity"),
    [
        ("a" * 64, "openai", None),
        ("a" * 65, "openai", "error"),
        ("a" * 65, "mcp", "note"),
        ("a" * 129, "mcp", "error"),
        ("catalog.query", "mcp", "note"),
        ("catalog.query", "openai", "error"),
        ("1_order", "gemini", "error"),
        ("find order", "oncegate", "warning"),
    ],
)
def test_a_providers_limits_weigh_most_in_its_own_format(
    name: str, format_: str, severity: str | None, found: Any, tool: Any
) -> None:
    of_limits = [each.severity for each in found(tool(name, format=format_)) if each.code == "OG201"]
    assert of_limits == ([] if severity is None else [severity])


def test_only_the_providers_of_the_settings_count(found: Any) -> None:
    assert [each.code for each in found("catalog.query", providers=("mcp", "gemini"))] == []


def test_a_schema_that_many_tools_refer_to_has_one_fault(command: Any) -> None:
    body = "requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Refund'}}}}"
    operations = "".join(
        f"  /{n}:\n    put:\n      operationId: {n}_refund\n      summary: x\n      {body}\n"
        for n in ("create", "update")
    )
    schema = (
        "components:\n  schemas:\n    Refund:\n      type: object\n      properties:\n        amount: {type: number}\n"
    )
    with open("openapi.yaml", "w", encoding="utf-8") as file:
        file.write(f"openapi: 3.1.0\ninfo: {{title: t, version: '1'}}\npaths:\n{operations}{schema}")
    status, out, _ = command("openapi.yaml")
    assert (status, out.count("OG305")) == (1, 1)
    assert f"openapi.yaml:{2 + 1 + 10 + 6}:" in out


@pytest.mark.parametrize(
    "name", ["", "x" * 10_000, "🛒", "\u202etpo\u202c", "a\x00b", "阿里巴巴", "\ud800", "...", "_" * 10_000]
)
def test_no_name_breaks_a_rule_or_its_line(name: str, found: Any) -> None:
    """9.4: one printable line each."""
    from heuristics.reports import FORMS, Run

    findings = found(name, name + "x")
    assert findings
    text = FORMS["text"](Run(findings, [], 2, 1, 0, "0"))
    assert all(line.isprintable() and len(line) < 500 for line in text.splitlines())
    for form in ("json", "sarif", "github"):
        FORMS[form](Run(findings, [], 2, 1, 0, "0")).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(
    ("name", "changes", "code", "better"),
    [
        ("finalise_basket", {}, "OG101", "'submit_basket' or 'place_basket'"),
        ("cart_finalise", {}, "OG101", "'submit_cart' or 'place_cart'"),
        ("FinaliseBasket", {}, "OG101", "'SubmitBasket' or 'PlaceBasket'"),
        ("orders.capture", {}, "OG101", "'orders.submit' or 'orders.place'"),
        ("get_quote_and_hold", {}, "OG101", "'book_quote'"),
        ("criar_pedido", {}, "OG101", "'create_pedido'"),
        ("bestellung_aufnehmen", {}, "OG101", "'place_bestellung'"),
        ("instantiate_plan", {}, "OG101", "'create_plan' or 'add_plan'"),
        ("build/dev", {}, "OG101", "'create_dev' or 'submit_dev'"),
        ("get_booking", {}, "OG102", "'get_reservation'"),
        ("list_payment_settings", {}, "OG102", "'list_transaction_preferences'"),
        ("view_checkout", {}, "OG103", "'view_cart'"),
        ("get_order", {"hints": Hints(read_only=False)}, "OG104", "'update_order' or 'create_order'"),
        ("cancel_order", {"hints": READ_ONLY}, "OG104", "'get_order'"),
        ("cancel_order", {"hints": Hints(http_method="GET")}, "OG106", "'get_order'"),
        ("get_order", {"hints": Hints(http_method="DELETE")}, "OG106", "'delete_order' or 'remove_order'"),
        ("cancle_order", {}, "OG108", "'cancel_order'"),
        ("order_renewal", {}, "OG101", "('update_order')"),
        ("booking_cancellation", {}, "OG108", "'cancel_booking'"),
        ("zorble", {}, "OG108", "'get_zorble' if it reads, 'update_zorble' if"),
        ("fooBar", {}, "OG108", "'getFooBar' if it reads, 'updateFooBar' if"),
        ("catalog.query", {}, "OG201", "'catalog_query'"),
        ("release prod", {}, "OG201", "'release_prod'"),
        ("getOrCreateCustomer", {}, "OG204", "'createCustomer'"),
    ],
)
def test_a_finding_about_a_name_offers_a_better_one(
    name: str, changes: dict[str, Any], code: str, better: str, found: Any, tool: Any
) -> None:
    (said,) = [each.message for each in found(tool(name, **changes)) if each.code == code]
    assert better in said


def test_a_name_that_the_company_uses_already_is_offered_to_no_other_tool(found: Any, tool: Any) -> None:
    told = {
        each.tool: each.message for each in found("finalise_basket", "submit_basket", "catalog.query", "catalog_query")
    }
    assert "'place_basket'" in told["finalise_basket"]
    assert "submit_basket" not in told["finalise_basket"]
    (limits,) = [each.message for each in found("catalog.query", "catalog_query") if each.code == "OG201"]
    assert "catalog_query" not in limits
    elsewhere = found(tool("finalise_basket", company="a"), tool("submit_basket", company="b"))
    assert "'submit_basket'" in elsewhere[0].message


@pytest.mark.parametrize("name", ["下单", "123MCP", "...", "", "x" * 70, "a&b", "\u202eb_a", "🛒_cart"])
def test_no_name_is_better_than_a_senseless_one(name: str, found: Any) -> None:
    assert not any("'" in each.message for each in found(name) if each.code in ("OG108", "OG201"))
