"""Declarations of the kinds that people publish, rewritten small: what a careful reviewer says of each, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

PAGES = """\
{"openapi": "3.1.0", "info": {"title": "Notes", "version": "1"}, "paths": {
 "/pages": {"post": {"operationId": "post-page", "summary": "Write a page.", "requestBody": {"content":
  {"application/json": {"schema": {"type": "object", "properties": {"title": {"type": "string"}}}}}}}},
 "/pages/{page_id}": {
  "parameters": [{"name": "page_id", "in": "path", "required": true, "schema": {"type": "string"}}],
  "get": {"operationId": "retrieve-a-page", "summary": "Read a page."},
  "patch": {"operationId": "patch-page", "summary": "Change a page."}}}}
"""
MONEY = """\
openapi: 3.0.3
info: {title: Money, version: "1"}
paths:
  /transfers:
    post:
      operationId: sendMoney
      summary: Send money to a phone.
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [phone, amount]
              properties:
                phone: {type: string}
                amount: {type: number}
  /callback:
    post:
      operationId: hookB2C
      summary: Called when it has arrived.
  /transfers/{transfer_id}:
    get:
      operationId: getTransfer
      summary: Where the money is.
      parameters:
        - {name: transfer_id, in: path, required: true, schema: {type: string}}
"""
GENERATED = """\
openapi: 3.0.3
info: {title: Generated, version: "1"}
paths:
  /apps:
    get: {operationId: ByProjectKeyAppsGet, summary: List them.}
    post:
      operationId: ByProjectKeyAppsPost
      requestBody: {content: {application/json: {schema: {type: object, properties: {key: {type: string}}}}}}
  /apps/{id}:
    delete:
      operationId: ByProjectKeyAppsByIdDelete
      summary: Remove one.
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
"""
METHOD_LED = """\
openapi: 3.1.0
info: {title: Files, version: "1"}
paths:
  /folders/{id}/copy:
    post:
      operationId: post_folders_id_copy
      summary: Copy it.
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
  /checkBalance:
    post:
      operationId: post-checkBalance
      summary: What is on the card.
      requestBody: {content: {application/json: {schema: {type: object, properties: {card_id: {type: string}}}}}}
  /identity/match:
    post:
      operationId: identityMatch
      summary: How alike two names are.
      requestBody: {content: {application/json: {schema: {type: object, properties: {name: {type: string}}}}}}
"""
ASSISTANT = """\
[{"name": "Glob", "description": "Find files by a pattern.", "input_schema": {"type": "object", "properties":
   {"pattern": {"type": "string"}}}},
 {"name": "Write", "description": "Write a file.", "input_schema": {"type": "object", "properties":
   {"path": {"type": "string"}, "content": {"type": "string"}}}},
 {"name": "Read", "description": "Read a file.", "input_schema": {"type": "object", "properties":
   {"path": {"type": "string"}}}}]
"""
ANNOTATED = """\
{"tools": [
 {"name": "merge_pull_request", "description": "Merge it.", "inputSchema": {"type": "object", "properties":
   {"number": {"type": "integer"}}}, "annotations": {"readOnlyHint": false, "idempotentHint": false}},
 {"name": "pull_request_read", "description": "Read it.", "inputSchema": {"type": "object", "properties":
   {"number": {"type": "integer"}}}, "annotations": {"readOnlyHint": true}}]}
"""


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("pages.json", PAGES, {("OG101", "post-page"), ("OG110", "post-page"), ("OG110", "patch-page")}),
        (
            "money.yaml",
            MONEY,
            {
                ("OG101", "sendMoney"),
                ("OG110", "sendMoney"),
                ("OG305", "sendMoney"),
                ("OG108", "hookB2C"),
                ("OG110", "hookB2C"),
            },
        ),
        (
            "generated.yaml",
            GENERATED,
            {("OG101", "ByProjectKeyAppsPost"), ("OG110", "ByProjectKeyAppsPost"), ("OG303", "ByProjectKeyAppsPost")},
        ),
        (
            "methods.yaml",
            METHOD_LED,
            {
                ("OG101", "post_folders_id_copy"),
                ("OG110", "post_folders_id_copy"),
                ("OG108", "identityMatch"),
                ("OG110", "identityMatch"),
            },
        ),
        ("assistant.json", ASSISTANT, {("OG108", "Glob"), ("OG101", "Write")}),
        ("annotated.json", ANNOTATED, set()),
    ],
)
def test_what_a_careful_reviewer_says(file: str, text: str, said: set[tuple[str, str]], command: Any) -> None:
    Path(file).write_text(text, encoding="utf-8")
    _, out, err = command(file)
    assert err == ""
    findings = [line.split() for line in out.splitlines()[:-1]]
    assert {(words[2], words[3].rstrip(":")) for words in findings} == said, out


def test_what_is_offered_instead_keeps_the_names_style_and_its_words(command: Any) -> None:
    """The method gives way to a verb; a word that lies near a verb is no slip."""
    Path("methods.yaml").write_text(METHOD_LED, encoding="utf-8")
    _, out, _ = command("methods.yaml")
    assert "'create_folders_id_copy' or 'submit_folders_id_copy'" in out
    assert "'getIdentityMatch' if it reads, 'updateIdentityMatch' if it changes something" in out
    assert "identify" not in out
