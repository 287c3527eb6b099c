"""Policy bundles, read strictly: every malformed shape is named with its path, all of them at once (7.3)."""

from __future__ import annotations

import copy
import hashlib
import math
from datetime import date
from typing import Any

import pytest

from gateway.core.policy_bundle import read_bundle
from gateway.core.policy_reading import PolicyRefused
from gateway.core.strict_json import Number, parse

LIMIT = {"max": 3, "window_s": 60, "per": "conversation"}


def bundle(*rules: Any, default: Any = "allow") -> dict[str, Any]:
    return {"default_action": default, "rules": list(rules)}


def rule(id_: str = "r", priority: Any = 1, **changes: Any) -> dict[str, Any]:
    return {"id": id_, "priority": priority, "when": {"target": "*"}, "then": {"decision": "deny"}, **changes}


def when(**stated: Any) -> dict[str, Any]:
    return bundle(rule(when=stated))


def argument(**predicate: Any) -> dict[str, Any]:
    return when(arguments={"/total": predicate})


def then(**stated: Any) -> dict[str, Any]:
    return bundle(rule(then={"decision": "require_approval", **stated}))


def limit(**stated: Any) -> dict[str, Any]:
    return bundle(rule(then={"decision": "allow", "rate_limit": {**LIMIT, **stated}}))


def problems(document: Any, company: str | None = None) -> list[str]:
    with pytest.raises(PolicyRefused) as refused:
        read_bundle(document, company)
    return [str(each) for each in refused.value.problems]


W = "rules[0].when"
T = "rules[0].then"
A = W + ".arguments./total"
SHAPES: list[tuple[Any, str]] = [
    # the whole
    (None, "a policy must be a table"),
    ([], "a policy must be a table"),
    ({}, "default_action: is required"),
    ({"default_action": "maybe"}, "default_action: must be allow or deny"),
    ({"default_action": "require_approval"}, "default_action: must be allow or deny"),
    ({"default_action": None}, "default_action: must be allow or deny"),
    ({"default_action": "allow", "rulez": []}, "rulez: is not a known field; did you mean rules?"),
    ({"default_action": "allow", "rules": {}}, "rules: must be a list"),
    ({"default_action": "allow", "rules": [1]}, "rules[0]: must be a table"),
    ({"default_action": "allow", 1: 2}, "has a key that is not a text"),
    (bundle(*[rule(f"r{n}", n) for n in range(1_001)]), "rules: must have at most 1,000 entries"),
    (bundle(*[rule(f"r{n}", n, then={"decision": "deny", "reason": "x" * 1_000}) for n in range(300)]), "must have at most 262,144 bytes"),
    # rules
    (bundle({k: v for k, v in rule().items() if k != "id"}), "rules[0].id: is required"),
    (bundle({k: v for k, v in rule().items() if k != "priority"}), "rules[0].priority: is required"),
    (bundle({k: v for k, v in rule().items() if k != "when"}), "rules[0].when: is required"),
    (bundle({k: v for k, v in rule().items() if k != "then"}), "rules[0].then: is required"),
    (bundle(rule(prio=1)), "rules[0].prio: is not a known field; did you mean priority?"),
    (bundle(rule("")), "rules[0].id: must not be empty"),
    (bundle(rule("x" * 129)), "rules[0].id: must have at most 128"),
    (bundle(rule("a\nb")), "rules[0].id: must not hold control characters"),
    (bundle(rule("\ud800")), "rules[0].id: holds half of a surrogate pair"),
    *[(bundle(rule(priority=wrong)), "rules[0].priority: must be a whole number from 0") for wrong in (-1, True, "1", 1.5, 10**7, None)],
    (bundle(rule("a", 1), rule("a", 2)), "rules[1].id: is also the id of rules[0]"),
    (bundle(rule("a", 1), rule("b", 1)), "rules[1].priority: is also the priority of rules[0]"),
    (bundle(rule("a", 1), rule("b", 1.0)), "rules[1].priority: is also the priority of rules[0]"),
    # when
    (when(), W + ': must not be empty; a rule for every call says target = "*"'),
    (bundle(rule(when=[])), W + ": must be a table"),
    (when(tool="x"), W + ".tool: is not a known field; did you mean target?"),
    (when(target=""), W + ".target: must not be empty"),
    (when(target=["a"]), W + ".target: must be a text"),
    (when(target="x" * 1_025), W + ".target: must have at most"),
    (when(targets="a"), W + ".targets: must be a list"),
    (when(targets=[]), W + ".targets: must not be empty"),
    (when(targets=["a", ""]), W + ".targets[1]: must not be empty"),
    (when(targets=["a", "a"]), W + ".targets[1]: stands twice"),
    (when(targets=[str(n) for n in range(1_001)]), W + ".targets: must have at most 1,000"),
    (when(target="a", targets=["b"]), W + ".targets: stands beside target"),
    (when(kind="tool"), W + ".kind: must be tool_call, llm_call or local"),
    (when(kind=["local", 3]), W + ".kind[1]: must be tool_call"),
    (when(company=[]), W + ".company: must not be empty"),
    (when(role="admin"), W + ".role: must be runtime, merchant or operator"),
    (when(side_effecting="true"), W + ".side_effecting: must be true or false"),
    (when(side_effecting=1), W + ".side_effecting: must be true or false"),
    (when(step=0), W + ".step: must be a whole number from 1"),
    (when(step=1.5), W + ".step: must be a whole number from 1"),
    (when(step={}), W + ".step: must not be empty"),
    (when(step={"equals": 1}), W + ".step.equals: is not a known field"),
    (when(step={"ge": -1}), W + ".step.ge: must be a whole number from 0"),
    (when(step={"gt": 3, "lt": 2}), W + ".step: can never be met"),
    # arguments
    (when(arguments=[]), W + ".arguments: must be a table of JSON Pointers"),
    (when(arguments={}), W + ".arguments: must not be empty"),
    (when(arguments={"total": {"gt": 1}}), W + ".arguments.total: must be a JSON Pointer"),
    (when(arguments={"/a~2": {"gt": 1}}), W + ".arguments./a~2: is not a JSON Pointer"),
    (when(arguments={"/a.b c": {"gt": "x"}}), W + '.arguments."/a.b c".gt: must be a number'),
    (when(arguments={"/total": 5}), A + ": must be a table"),
    (argument(), A + ": must not be empty"),
    (argument(gte=5), A + ".gte: is not a known field; did you mean ge?"),
    *[(argument(gt=wrong), A + ".gt: must be a number") for wrong in (None, True, "5,000", "", [5], {}, "1e3")],
    (argument(gt=math.nan), A + ".gt: must be a finite number"),
    (argument(gt=math.inf), A + ".gt: must be a finite number"),
    (argument(gt=date(2026, 1, 1)), A + ".gt: must be a text, a number"),
    (argument(gt=5, ge=5), A + ".ge: stands beside gt"),
    (argument(lt=5, le=5), A + ".le: stands beside lt"),
    (argument(gt=5, lt=5), A + ": can never be met"),
    (argument(ge=5, lt=5), A + ": can never be met"),
    (argument(gt=6, lt=5), A + ": can never be met"),
    (argument(equals=4, gt=5), A + ".equals: can never be met"),
    (argument(equals=None), A + ".equals: must not be null"),
    (argument(equals=""), A + ".equals: must not be empty"),
    (argument(equals=[]), A + ".equals: must not be empty"),
    (argument(one_of=[]), A + ".one_of: must not be empty"),
    (argument(one_of="a"), A + ".one_of: must be a list"),
    (argument(one_of=["a", None]), A + ".one_of[1]: must not be null"),
    (argument(contains=""), A + ".contains: must not be empty"),
    (argument(regex=""), A + ".regex: must not be empty"),
    (argument(regex="("), A + ".regex: must be a regular expression as RE2 has them: missing )"),
    (argument(regex="(?=a)"), A + ".regex: must be a regular expression"),
    (argument(regex=r"(a)\1"), A + ".regex: must be a regular expression"),
    (argument(regex="(.{1,100}){10}"), A + ".regex: must be a smaller regular expression"),
    (argument(regex="x" * 1_001), A + ".regex: must be at most 1,000 characters long"),
    (argument(regex=["a"]), A + ".regex: must be a text"),
    (bundle(*[rule(f"r{n}", n, when={"arguments": {"/t": {"regex": f"{'a' * 700}{n}"}}}) for n in range(8)]), "rules[7].when.arguments./t.regex: makes the regular expressions"),
    (argument(exists="yes"), A + ".exists: must be true or false"),
    (argument(exists=False, gt=1), A + ".exists: can never be met"),
    # then
    (bundle(rule(then={})), T + ".decision: is required"),
    (bundle(rule(then="deny")), T + ": must be a table"),
    (bundle(rule(then={"decision": "block"})), T + ".decision: must be allow, require_approval or deny"),
    (bundle(rule(then={"decision": "deny", "approvers": ["operator"]})), T + ".approvers: goes with require_approval only"),
    (bundle(rule(then={"decision": "allow", "timeout_s": 5})), T + ".timeout_s: goes with require_approval only"),
    (bundle(rule(then={"decision": "allow", "message": "x"})), T + ".message: goes with require_approval only"),
    (then(reason=" "), T + ".reason: must not be empty"),
    (then(reason="x" * 2_001), T + ".reason: must have at most 2,000"),
    (then(approvers=[]), T + ".approvers: must not be empty"),
    (then(approvers="operator"), T + ".approvers: must be a list"),
    (then(approvers=["operator", 3]), T + ".approvers[1]: must be a text"),
    (then(approvers=["runtime"]), T + ".approvers[0]: must not be runtime"),
    (then(timeout_s=0), T + ".timeout_s: must be a whole number from 1"),
    (then(timeout_s=-5), T + ".timeout_s: must be a whole number from 1"),
    (then(timeout_s="60"), T + ".timeout_s: must be a whole number from 1"),
    # rate limits
    (bundle(rule(then={"decision": "allow", "rate_limit": 3})), T + ".rate_limit: must be a table"),
    (bundle(rule(then={"decision": "allow", "rate_limit": {}})), T + ".rate_limit.max: is required"),
    *[(limit(max=wrong), T + ".rate_limit.max: must be a whole number from 1") for wrong in (0, -1, 1.5, "3", True)],
    (limit(max=-1, sum_of="/total"), T + ".rate_limit.max: must be above 0"),
    (limit(max=0, sum_of="/total"), T + ".rate_limit.max: must be above 0"),
    (limit(max=math.nan, sum_of="/total"), T + ".rate_limit.max: must be a finite number"),
    (limit(window_s=0), T + ".rate_limit.window_s: must be a whole number from 1"),
    (limit(per="buyer"), T + ".rate_limit.per: must be conversation, turn, company, or a JSON Pointer"),
    (limit(per="/a~"), T + ".rate_limit.per: is not a JSON Pointer"),
    (limit(per=""), T + ".rate_limit.per: must be conversation"),
    (limit(sum_of="total"), T + ".rate_limit.sum_of: must be a JSON Pointer"),
    (limit(sum_of=""), T + ".rate_limit.sum_of: must be a JSON Pointer"),
    (limit(on_error="ignore"), T + ".rate_limit.on_error: must be allow or deny"),
    (limit(maximum=3), T + ".rate_limit.maximum: is not a known field"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), SHAPES, ids=[expected[:60] for _, expected in SHAPES])
def test_p7_3_each_malformed_shape_is_named_with_its_path(document: Any, expected: str) -> None:
    """7.3: one wrong thing, one line that starts where it is."""
    (problem,) = problems(document) if "rate_limit.max: is required" not in expected else problems(document)[:1]
    assert problem.startswith(expected)


def test_p7_3_every_problem_is_reported_at_once_and_none_repeats_a_value() -> None:
    """7.3: one look tells all there is to mend; what was written may be private."""
    first = rule("a", -1, when={"target": "", "arguments": {"/t": {"gt": "CANARY", "regex": "(CANARY"}}})
    second = rule("b", 2, then={"decision": "CANARY", "timeout_s": -1}, when={"step": "CANARY"})
    found = problems({"default_action": "CANARY", "rules": [first, 7, second]})
    assert [each.partition(":")[0] for each in found] == [
        "default_action",
        "rules[0].priority",
        "rules[0].when.target",
        "rules[0].when.arguments./t.gt",
        "rules[0].when.arguments./t.regex",
        "rules[1]",
        "rules[2].when.step",
        "rules[2].then.decision",
        "rules[2].then.timeout_s",
    ]
    assert "CANARY" not in str(found)
    assert found[1].endswith('(rule "a")')


def test_a_problem_has_a_json_pointer_too() -> None:
    with pytest.raises(PolicyRefused) as refused:
        read_bundle(when(arguments={"/a/b": {"gt": "x"}}))
    assert refused.value.problems[0].pointer == "/rules/0/when/arguments/~1a~1b/gt"


def test_too_deep_a_document_is_refused() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    assert "is nested deeper than 16 levels" in problems(argument(equals=deep))[0]


ANY = {"target": "*"}
AMOUNT = {"target": "place_order", "arguments": {"/total": {"gt": 100}}}


@pytest.mark.parametrize(
    ("earlier", "later", "decisions"),
    [
        (ANY, {"target": "place_order"}, "deny allow"),
        (ANY, {"kind": "local"}, "deny allow"),
        ({"targets": ["a*", "b"]}, {"targets": ["abc", "b", "a?c"]}, "deny deny"),
        ({"target": "*_order"}, {"target": "place_*_order"}, "deny deny"),
        ({"kind": ["local", "llm_call"]}, {"kind": "local", "target": "x"}, "deny deny"),
        ({"kind": ["local", "llm_call", "tool_call"]}, {"target": "x"}, "deny deny"),
        ({"company": ["a", "b"]}, {"company": "b"}, "deny deny"),
        ({"role": "runtime"}, {"role": "runtime", "side_effecting": True}, "deny deny"),
        ({"step": {"ge": 2}}, {"step": 3}, "deny deny"),
        (AMOUNT, {**AMOUNT, "arguments": {"/total": {"gt": 200}}}, "require_approval deny"),
        (AMOUNT, {**AMOUNT, "arguments": {"/total": {"equals": 101}, "/x": {"exists": True}}}, "deny allow"),
        (AMOUNT, AMOUNT, "allow allow"),
        ({"arguments": {"/c": {"exists": True}}}, {"arguments": {"/c": {"regex": "x"}}}, "deny deny"),
        ({"arguments": {"/c": {"exists": False}}}, {"arguments": {"/c": {"exists": False}}}, "deny deny"),
        ({"arguments": {"/c": {"one_of": ["a", "b"]}}}, {"arguments": {"/c": {"equals": "a"}}}, "deny deny"),
        ({"arguments": {"/c": {"regex": "x"}}}, {"arguments": {"/c": {"regex": "x", "contains": "y"}}}, "deny deny"),
    ],
)  # fmt: skip
def test_p7_3_a_rule_that_an_earlier_one_takes_everything_from_is_refused(
    earlier: Any, later: Any, decisions: str
) -> None:
    """7.3: it was written to do something, and never would. Priority is what says which is earlier."""
    one, two = ({"decision": each} for each in decisions.split())
    rules = [rule("later", 20, when=later, then=two), rule("earlier", 10, when=earlier, then=one)]
    (problem,) = problems(bundle(*rules))
    assert problem.startswith("rules[0]: is never reached: rules[1] ('earlier') comes first")


@pytest.mark.parametrize(
    ("earlier", "later", "decisions"),
    [
        ({"target": "place_order"}, ANY, "deny allow"),
        ({"target": "a*"}, {"target": "b*"}, "deny deny"),
        ({"target": "a*"}, {"target": "?b"}, "deny deny"),
        ({"step": {"ge": 3}}, {"step": {"ge": 2}}, "deny deny"),
        ({"step": 3}, {"target": "x"}, "deny deny"),
        ({"side_effecting": True}, {"side_effecting": False}, "deny deny"),
        (AMOUNT, {**AMOUNT, "arguments": {"/total": {"ge": 100}}}, "deny deny"),
        (AMOUNT, {"target": "place_order"}, "deny deny"),
        # what cannot be compared passes the first and meets the second
        (AMOUNT, AMOUNT, "allow deny"),
        (AMOUNT, {**AMOUNT, "arguments": {"/total": {"gt": 200}}}, "allow require_approval"),
    ],
)
def test_a_rule_that_can_still_be_reached_is_accepted(earlier: Any, later: Any, decisions: str) -> None:
    one, two = ({"decision": each} for each in decisions.split())
    assert len(read_bundle(bundle(rule("a", 1, when=earlier, then=one), rule("b", 2, when=later, then=two))).rules) == 2


def test_p7_3_a_companys_own_rule_about_another_company_is_refused() -> None:
    """7.3: it could never match there."""
    document = when(company="other")
    assert problems(document, "acme") == [
        W + '.company: can never be met: this is another company\'s policy (rule "r")'
    ]
    assert read_bundle(document).companies == {"other"}
    assert read_bundle(when(company="acme"), "acme").owner == "acme"


def test_p7_3_the_version_is_of_what_is_said_not_of_how_it_is_written() -> None:
    """7.3: the first 16 hex digits of the SHA-256 of the canonical JSON."""
    canonical = '{"default_action":"allow","rules":[{"id":"é","priority":1,"then":{"decision":"deny"},"when":{"arguments":{"/t":{"gt":1}}}}]}'
    expected = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    text = '{"rules": [{"then": {"decision": "deny"}, "when": {"arguments": {"/t": {"gt": 1.0}}}, "priority": 1, "id": "é"}], "default_action": "allow"}'
    version = read_bundle(parse(text)).version
    assert version == read_bundle(parse(text.replace("1.0", "10e-1").replace(" ", ""))).version == expected
    assert version == read_bundle(bundle(rule("é", when={"arguments": {"/t": {"gt": 1.0}}}))).version
    assert version != read_bundle(parse(text.replace("1.0", "1.5"))).version


def test_reading_changes_nothing_of_the_document() -> None:
    document = argument(gt=Number("5000.10"))
    before = copy.deepcopy(document)
    assert read_bundle(document).document == before == document
