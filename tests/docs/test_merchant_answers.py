"""docs/merchants.md lists every code that the SDK writes into an answer, and what the gateway makes of it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from gateway.core.outcome import TABLE, OutcomeKind
from merchant_sdk import ReplyBeforeCommit, call_status
from merchant_sdk.commit_before_reply import failure_body

SDK = Path(__file__).resolve().parents[2] / "merchant_sdk"
WORDS = {OutcomeKind.FAILED: "failed", OutcomeKind.NOT_SENT: "not executed", OutcomeKind.UNKNOWN: "unknown"}
# Which argument is the code, and the status unless it is an argument itself.
WRITERS = {"error_reply": (1, None), "Refused": (0, 422), "TokenRefused": (0, 422), "allow": (1, 422)}
# Where a code is put into JSON: in these files only, so that no other way past the writers goes unseen.
IN_JSON = {"endpoint.py", "commit_before_reply.py", "call_status.py", "work.py"}

Answers = set[tuple[int, str]]


def constant(node: Any) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def written(tree: ast.AST) -> Answers:
    """What the calls in a module say that make an answer, `KeyConflict`'s own among them."""
    found: Answers = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Refused" for base in node.bases):
            inner = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
            codes = [constant(each.args[0]) for each in inner if getattr(each.func, "attr", "") == "__init__"]
            found |= {(422, code) for code in codes}
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in WRITERS:
            continue
        place, status = WRITERS[node.func.id]
        given = {word.arg: constant(word.value) for word in node.keywords}
        if len(node.args) > place:
            status = constant(node.args[0]) if status is None else given.get("status", status)
            found.add((status, constant(node.args[place])))
    return found


def answers_of_the_source() -> Answers:
    found: Answers = set()
    for file in SDK.rglob("*.py"):
        found |= written(ast.parse(file.read_text(encoding="utf-8")))
    # Two pass on a code that came from elsewhere: `reply_to` that of a Refused, `allow` that of its caller.
    passed_on: Any = {(None, None), (422, None)}
    assert {each for each in found if None in each} == passed_on
    found -= passed_on
    for error in (ReplyBeforeCommit(), OSError()):
        found.add((500, json.loads(failure_body(error))["error"]["code"]))
    tombstone = json.loads(call_status.__globals__["_TOMBSTONE"])
    return found | {(tombstone["status"], tombstone["code"])}


def rows(page: Any) -> list[tuple[str, ...]]:
    text = page("docs/merchants.md").section("Every answer")
    return re.findall(r"^\| (\d+) \| `(\w+)` \| (.+) \| (.+) \| (.+) \|$", text, re.M)


def test_the_table_has_every_code_of_the_source_once_in_order(page: Any) -> None:
    """A code that is not listed leaves a merchant alone with it."""
    listed = [(int(status), code) for status, code, *_ in rows(page)]
    assert len(set(listed)) == len(listed)
    assert set(listed) == answers_of_the_source()
    assert [status for status, _ in listed] == sorted(status for status, _ in listed)


def test_no_other_file_puts_codes_into_json() -> None:
    """Else it would have to be looked at here."""
    assert {f.name for f in SDK.rglob("*.py") if re.search(r'"code": [^\d]', f.read_text("utf-8"))} == IN_JSON


def test_the_table_says_what_the_gateway_makes_of_each_status(page: Any) -> None:
    """Section 5; `/health` is not asked by the gateway."""
    for status, code, _, recorded, _ in rows(page):
        if code == "database_unavailable":
            assert recorded.startswith("nothing")
            continue
        kinds = {each.kind for each in TABLE if int(status) in each.statuses and each.bodies is None}
        assert {WORDS[kind] for kind in kinds or {OutcomeKind.UNKNOWN}} == {recorded}, code
