"""OpenAPI 3.0 and 3.1: operations as the tools that generators make of them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from heuristics.formats import UnreadableSource, read_tools
from heuristics.hints import Hints

pytest.importorskip("yaml")

SHOP = """\
openapi: 3.1.0
info: {title: Shop, version: 2026-01-01}
paths:
  /carts/{id}/complete:
    parameters:
      - $ref: '#/components/parameters/CartId'
      - {name: lang, in: query, schema: {type: string}}
    post:
      tags: [carts]
      summary: Complete a cart
      parameters:
        - {name: lang, in: query, required: true, description: In which language, schema: {type: string, enum: [en]}}
        - {name: note, in: header, content: {text/plain: {schema: {type: string}}}}
      requestBody: {$ref: '#/components/requestBodies/Complete'}
      responses: {200: {description: ok}}
  /orders:
    get:
      operationId: listOrders
      description: All orders
    put: {operationId: replaceOrders, requestBody: {content: {application/json: {schema: {type: array}}}}}
  /outside: {$ref: 'other.yaml#/a'}
components:
  parameters:
    CartId: {name: id, in: path, required: true, schema: {type: string}}
  requestBodies:
    Complete:
      required: true
      content:
        application/json:
          schema:
            allOf:
              - $ref: '#/components/schemas/Payment'
              - properties:
                  id: {type: string}
  schemas:
    Payment:
      type: object
      required: [amount]
      properties:
        amount: {$ref: '#/components/schemas/Money'}
    Money: {type: number}
"""


def test_operations_are_tools_with_method_tags_and_one_object_of_parameters() -> None:
    complete, listed, replaced = read_tools(SHOP.encode(), "shop.yaml")
    assert (complete.name, complete.description, complete.tags) == (
        "post_carts_id_complete",
        "Complete a cart",
        ("carts",),
    )
    assert complete.hints == Hints(http_method="POST")
    assert complete.parameters == {
        "type": "object",
        "properties": {
            "amount": {"$ref": "#/components/schemas/Money"},
            "id": {"type": "string"},
            "id__path": {"type": "string"},
            "lang": {"type": "string", "enum": ["en"], "description": "In which language"},
            "note": {"type": "string"},
        },
        "required": ["amount", "id__path", "lang"],
    }
    assert complete.document["components"]["schemas"]["Money"] == {"type": "number"}
    assert (listed.name, listed.description, listed.hints.http_method) == ("listOrders", "All orders", "GET")
    assert replaced.parameters == {"type": "object", "properties": {"body": {"type": "array"}}, "required": []}


@pytest.mark.parametrize(
    ("pointer", "written"),
    [
        ("", "post:"),
        ("/name", "post:"),
        ("/description", "summary:"),
        ("/parameters/properties/amount", "amount: {"),
        ("/parameters/properties/id__path", "CartId: {name"),
        ("/parameters/properties/id__path/type", "type: string}}\n  requestBodies"),
        ("/parameters/properties/lang", "{name: lang, in: query, required"),
        ("/parameters/properties/lang/enum", "enum: [en]"),
        ("/parameters/properties/lang/description", "schema: {type: string, enum"),
        ("/parameters/properties/note/type", "type: string}}}"),
    ],
)
def test_merged_parameters_stand_where_they_were_written(pointer: str, written: str) -> None:
    place = read_tools(SHOP.encode(), "shop.yaml")[0].places[pointer]
    offset = SHOP.index(written)
    assert (place.line, place.column) == (SHOP.count("\n", 0, offset) + 1, offset - SHOP.rfind("\n", 0, offset))


def test_the_name_of_an_operation_stands_at_its_operation_id() -> None:
    place = read_tools(SHOP.encode(), "shop.yaml")[1].places["/name"]
    assert SHOP.splitlines()[(place.line or 0) - 1][(place.column or 0) - 1 :] == "listOrders"


@pytest.mark.parametrize("version", ["3.0.3", "3.1.1", "3.2.0"])
def test_json_and_every_version_three_are_read(version: str) -> None:
    document = {"openapi": version, "paths": {"/a-b/{c}": {"delete": {}}, "x-own": {}}}
    assert [tool.name for tool in read_tools(json.dumps(document).encode(), "t")] == ["delete_a_b_c"]
    assert read_tools(json.dumps({"openapi": version}).encode(), "t") == []


def test_references_that_double_at_every_level_are_given_up(refusal: Callable[..., UnreadableSource]) -> None:
    schemas = {f"s{n}": {"allOf": [{"$ref": f"#/components/schemas/s{n + 1}"}] * 2} for n in range(40)}
    schemas["s40"] = {"properties": {"a": {}}}  # type: ignore[dict-item]
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/s0"}}}}
    document = {
        "openapi": "3.1.0",
        "paths": {"/a": {"post": {"requestBody": body}}},
        "components": {"schemas": schemas},
    }
    tool = read_tools(json.dumps(document).encode(), "t")[0]
    assert tool.parameters is not None
    assert list(tool.parameters["properties"]) == ["body"]
    document["paths"] = {"/a": {"post": {"parameters": [{"in": "query"}]}}}
    assert "this parameter has no name" in refusal(json.dumps(document)).message
