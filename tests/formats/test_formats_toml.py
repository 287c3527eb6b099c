"""`config/merchants/*.toml`: a company's tools, and where each key stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from heuristics.formats import read_tools

ROOT = Path(__file__).parents[2]

ODD = '''\
# a comment with [tools.no] in it
company = { name = "acme", overrides = { "get_*" = true } }
tools.dotted.endpoint = "https://shop.example"
tools.dotted.timeout_s = 1.5
tools.dotted.parameters.properties."a.b" = { type = "string", enum = [["x"], [1979-05-27 07:32:00]] }

[[secrets]]
id = "one"
[[secrets]]
id = "two"
[tools."catalog.query"]
endpoint = "https://shop.example"
description = """
parameters = no
"quoted" [tools.none]
"""
parameters = """{"properties": {"price\\u0031": {}}}"""
[ tools . 'place order' ]
endpoint = 'x'
parameters = \'\'\'
{"type": "object",
 "properties": {"price": {}}}\'\'\'
'''


def test_the_example_that_ships_is_read_with_the_place_of_each_property() -> None:
    text = (ROOT / "config/merchants/demo-shop.toml.example").read_text(encoding="utf-8")
    search, place_order = read_tools(text.encode(), "config/merchants/demo-shop.toml")
    assert (search.name, search.company, search.format) == ("search_products", "demo-shop", "oncegate")
    assert search.parameters is not None
    assert search.parameters["properties"]["query"]["type"] == "string"
    assert place_order.extras == {"idempotency": "safe_to_retry", "timeout_s": 10.0}
    lines = text.splitlines()
    for tool, pointer, written in (
        (search, "/name", "search_products]"),
        (search, "/parameters/properties/query", '"query": {'),
        (place_order, "/parameters/properties/cart_id", "cart_id = {"),
        (place_order, "/parameters/required/1", '"address"]'),
    ):
        place = tool.places[pointer]
        assert lines[(place.line or 0) - 1][(place.column or 0) - 1 :].startswith(written)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_keys_are_found_in_every_way_that_toml_writes_them(ends: str) -> None:
    text = ODD.replace("\n", ends)
    dotted, catalog, order = read_tools(text.encode(), "t.toml")
    assert [tool.name for tool in (dotted, catalog, order)] == ["dotted", "catalog.query", "place order"]
    assert dotted.company == "acme"
    lines = text.split("\n")
    for tool, pointer, written in (
        (dotted, "/name", "dotted.endpoint"),
        (dotted, "/timeout_s", "timeout_s = 1.5"),
        (dotted, "/parameters/properties/a.b", '"a.b" = {'),
        (dotted, "/parameters/properties/a.b/enum/1/0", "1979-05-27 07"),
        (catalog, "/name", '"catalog.query"]'),
        (catalog, "/parameters", "parameters = "),
        (catalog, "/parameters/properties/price1", "parameters = "),  # an escape: no sign stands for itself
        (order, "/name", "'place order' ]"),
        (order, "/parameters/properties/price", '"price": {}'),
    ):
        place = tool.places[pointer]
        assert lines[(place.line or 0) - 1][(place.column or 0) - 1 :].startswith(written), pointer
    assert all(tool.places[pointer].line for tool in (dotted, catalog, order) for pointer in tool.places)


def test_a_file_without_a_company_is_called_as_the_file() -> None:
    text = "[tools.a]\nendpoint = 'x'\n"
    assert read_tools(text.encode(), "merchants/acme.toml")[0].company == "acme"
    assert read_tools(text.encode(), "-")[0].company is None
