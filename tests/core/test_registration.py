"""Names, versions, verdicts, findings and documents: the pure rules of registration."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core import registry_documents as documents
from gateway.core.findings import findings
from gateway.core.model import Company, Role
from gateway.core.record import Mode
from gateway.core.registration import (
    Declared,
    StoredTool,
    company_problem,
    name_problem,
    overtaken,
    registered,
    removed,
    verdict_on,
)
from gateway.core.registry_documents import StoredCompany, StoredKey, StoredSecret, StoredSecrets, UnknownDocument
from heuristics import Hints, Verdict

URL = "https://shop.example/tools"
ACME = Company("acme")
GOOD: dict[str, Any] = {
    "description": "What it does, in a sentence.",
    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "additionalProperties": False},
    "idempotency": Mode.SAFE_TO_RETRY,
}
"""In which lint finds nothing but what the name and the changes bring."""
WRITES = Verdict(True, "tool", "declared by the tool itself", None)
READS = Verdict(False, "tool", "declared by the tool itself", None)


def stored(before: StoredTool | None, verdict: Verdict, now_ms: int = 0, **changes: Any) -> StoredTool:
    return registered(before, ACME, "t", Declared(URL, **changes), verdict, "api", now_ms)


@pytest.mark.parametrize("name", ["a", "x" * 128, "catalog.query", "A-b", "bestätigen", "find order", "ä" * 64, "*"])
def test_ordinary_and_odd_names_are_tools(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    "name", ["", "x" * 129, "ä" * 65, "a\x00", "a\tb", "a\x7f", "a\u2028b", " a", "a ", "\ud800", 3, None]
)
def test_unusable_names_are_refused(name: object) -> None:
    assert name_problem(name) is not None
    assert company_problem(name) is not None


def test_p9_1_no_company_is_called_star() -> None:
    """9.1: in a key it means all."""
    assert company_problem("*") is not None


def test_a_version_grows_by_one_with_each_change_and_not_without() -> None:
    first = stored(None, WRITES)
    assert first.version == 1
    assert stored(first, WRITES, now_ms=9) is first
    second = stored(first, WRITES, timeout_s=1.0)
    third = removed(second, ACME, 0)
    fourth = stored(third, WRITES)
    assert [each.version for each in (second, third, fourth)] == [2, 3, 4]
    assert fourth.tool is not None
    assert fourth.tool.version == 4


@pytest.mark.parametrize(
    ("moves", "until"),
    [
        (["reads"], None),
        (["writes"], None),
        (["writes", "reads"], 1),
        (["writes", "removed", "reads"], 1),
        (["writes", "reads", "removed", "reads"], 1),
        (["reads", "removed", "reads"], None),
        (["writes", "reads", "writes"], None),
        (["writes", "reads", "writes", "reads"], 3),
        (["writes", "removed", "writes", "removed"], 3),
    ],
)
def test_p3_6_what_was_side_effecting_is_looked_up_from_when_it_stopped_being_so(
    moves: list[str], until: int | None
) -> None:
    """3.6: for the retention time, whatever it went through since. Each move is a day."""
    day = 86_400_000
    now: StoredTool | None = None
    for place, move in enumerate(moves):
        if move == "removed":
            assert now is not None
            now = removed(now, ACME, place * day)
        else:
            now = stored(now, WRITES if move == "writes" else READS, place * day)
    assert now is not None
    if until is None:
        assert now.protected_until_ms is None
    else:
        assert now.protected_until_ms == until * day + 30 * day + 3_600_000
    assert now.tool is None or now.tool.protected_until_ms == now.protected_until_ms


@pytest.mark.parametrize(
    ("before", "after", "replaced"),
    [
        (Verdict(True, "heuristic:words", "a", "x"), Verdict(False, "heuristic:words", "b", "y"), False),
        (Verdict(True, "heuristic:words", "a", "x"), Verdict(False, "heuristic:platform", "b", None), True),
        (Verdict(True, "heuristic:words", "a", "x"), Verdict(False, "company", "b", None), True),
        (Verdict(True, "company", "a", None), Verdict(False, "company", "b", None), True),
        (Verdict(True, "company", "a", None), Verdict(True, "company", "a", None), False),
        (Verdict(False, "heuristic:words", "a", "x"), Verdict(True, "hint", "b", None), True),
    ],
)
def test_p3_3_a_stored_verdict_is_replaced_only_by_another_rule(
    before: Verdict, after: Verdict, replaced: bool
) -> None:
    """3.3: it is stored with the tool version; a longer word list alone changes nothing."""
    assert overtaken(before, after) is replaced


@pytest.mark.parametrize(
    ("declared", "company", "platform", "source", "side_effecting"),
    [
        (Declared(URL, side_effecting=False), {"order": True}, {"order": True}, "tool", False),
        (Declared(URL), {"order": False, "o*": True}, {"order": True}, "company", False),
        (Declared(URL), {"o*": False}, {"order": True}, "company", False),
        (Declared(URL), {}, {"order": False}, "platform_override", False),
        (Declared(URL), {"Order": False, "order_": False}, {}, "heuristic:words", True),
        (Declared(URL, hints=Hints(read_only=True)), {}, {}, "heuristic:words", True),
    ],
)
def test_p3_3_overrides_come_first_in_their_order(
    declared: Declared, company: dict[str, bool], platform: dict[str, bool], source: str, side_effecting: bool
) -> None:
    """3.3, 3.4, K5-06: the tool's own, the company's by exact name and then by glob, the platform's; a hint lowers nothing."""
    verdict = verdict_on("order", declared, Company("acme", overrides=company), [], platform)
    assert (verdict.source, verdict.side_effecting) == (source, side_effecting)


@pytest.mark.parametrize(
    ("name", "changes", "others", "codes"),
    [
        ("place_order", {}, [], []),
        ("zorble", {}, [], ["OG108"]),
        ("zorble", {"side_effecting": True}, [], []),
        ("zorble", {"side_effecting": False}, [], []),
        ("get_order", {"hints": Hints(destructive=True)}, [], ["OG104"]),
        ("get_order", {"hints": Hints(destructive=True), "side_effecting": True}, [], []),
        ("delete_order", {"hints": Hints(read_only=True)}, [], ["OG104"]),
        ("delete_order", {"side_effecting": False}, [], ["OG109"]),
        ("get_order", {"side_effecting": False, "hints": Hints(read_only=False)}, [], ["OG104"]),
        ("get_order", {}, ["get_orders", "get_order", "order_get"], []),
        ("get_order", {}, ["getOrder"], ["OG202"]),
        ("get_order", {}, ["get-order", "GET_ORDER", "get_orders"], ["OG202"]),
        ("catalog.query", {}, [], ["OG201"]),
        ("finalise_basket", {}, [], ["OG101"]),
        ("view_checkout", {}, [], ["OG103"]),
        ("add_to_cart", {}, [], ["OG111"]),
        ("place_order", {"idempotency": None}, [], ["OG110"]),
        ("place_order", {"description": ""}, [], ["OG303"]),
    ],
)
def test_p3_5_findings(name: str, changes: dict[str, Any], others: list[str], codes: list[str]) -> None:
    """3.5: a registration is looked at by lint's rules."""
    declared = Declared(URL, **{**GOOD, **changes})
    verdict = verdict_on(name, declared, ACME, [], {})
    assert [each.code for each in findings(name, declared, verdict, [*others, name])] == codes


@pytest.mark.parametrize(("heuristic", "severity"), [("words", "note"), ("platform", "error")])
def test_p3_5_an_uncovered_verb_weighs_what_the_companys_heuristic_makes_of_it(heuristic: Any, severity: str) -> None:
    """3.1, 3.5: under `words` it is protected anyway, under `platform` it is not."""
    declared = Declared(URL, **GOOD)
    verdict = verdict_on("finalise_basket", declared, Company("acme", heuristic=heuristic), [], {})
    (found,) = findings("finalise_basket", declared, verdict, [], heuristic)
    assert (found.code, found.severity) == ("OG101", severity)


def test_p3_5_declaring_answers_every_warning() -> None:
    """3.5: `refuse` lasts until renamed or declared, so a tool that is declared whole has no warning left."""
    for name in ("zorble", "get_order", "delete_order"):
        for says in (True, False):
            for hints in (Hints(), Hints(read_only=True), Hints(destructive=True)):
                declared = Declared(URL, side_effecting=says, hints=hints, **GOOD)
                found = findings(name, declared, verdict_on(name, declared, ACME, [], {}), [name])
                assert {each.severity for each in found} <= {"note"}


# ---- documents


@pytest.mark.parametrize(
    "document",
    [
        stored(None, WRITES, parameters={"type": "object", "maxProperties": 2**80}, hints=Hints(read_only=True)),
        removed(stored(None, WRITES), ACME, 5),
        StoredCompany(1, "acme", {"overrides": {"a*": True}, "max_steps": "off"}),
        StoredSecrets(1, "acme", (StoredSecret("ws_1", "whsec_abc", 5),)),
        StoredKey(1, "key_1", b"\x00\xff" * 16, Role.RUNTIME, ("acme",), "p", 5),
    ],
)
def test_a_document_comes_back_as_it_was(document: documents.Stored) -> None:
    names = {
        StoredTool: documents.tool_document("acme", "t"),
        StoredCompany: documents.company_document("acme"),
        StoredSecrets: documents.secrets_document("acme"),
        StoredKey: documents.key_document("key_1"),
    }
    content = documents.encode(document)
    again = documents.decode(names[type(document)], content)
    assert again == document
    assert documents.encode(again) == content


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"format":2}'])
def test_a_document_that_cannot_be_read_is_not_guessed_at(content: bytes) -> None:
    with pytest.raises(UnknownDocument):
        documents.decode(documents.company_document("acme"), content)


def test_p4_13_a_document_of_a_newer_format_is_named_and_left_alone() -> None:
    """4.13: a newer gateway reads older ones, never the other way."""
    with pytest.raises(UnknownDocument, match="format 2"):
        documents.decode(documents.company_document("acme"), b'{"format":2,"name":"acme","stated":{}}')


def test_k5_06_document_names_never_collide() -> None:
    """K5-06: no separator in a name makes two documents one."""
    parts = ["a", "b", "a:b", 'a","b', "a,b", "[", "", "ä", "\\", '\\"']
    names = {documents.tool_document(a, b) for a in parts for b in parts}
    names |= {documents.company_document(a) for a in parts} | {documents.secrets_document(a) for a in parts}
    names |= {documents.key_document(a) for a in parts}
    assert len(names) == len(parts) * (len(parts) + 3)
