"""Policies from files: exact amounts, errors with their place, and nothing that is there and does not count (7.3)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Any

import pytest

from gateway.adapters.config_files import Judges, read_merchants
from gateway.adapters.policy_files import exact_toml, policy_lines, read_any_policy, read_policy_file
from gateway.adapters.schemas import Schemas
from gateway.core.addresses import check_url
from gateway.core.errors import ConfigError
from gateway.core.identity import Kind
from gateway.core.policy import Bundle, PolicyCall, decide
from gateway.core.policy_reading import PolicyRefused
from gateway.core.strict_json import Number, parse

JUDGES = Judges(check_url, Schemas().schema_problems)
EXAMPLE = Path(__file__).parents[2] / "config" / "policy.toml.example"

RULE = """
default_action = "allow"

[[rules]]
id = "large"
priority = 10
when = { target = "place_order", arguments = { "/total" = { gt = 5000.10 } } }
then = { decision = "require_approval" }
"""
TABLES = """
default_action = "allow"

[[rules]]
id = "large"
priority = 10
[rules.when]
target = "place_order"
[rules.when.arguments."/total"]
gt = 5_000.10
[rules.then]
decision = "require_approval"
"""
JSON = """{"default_action": "allow", "rules": [{"id": "large", "priority": 10, "when": {"target": "place_order",
"arguments": {"/total": {"gt": 5000.1}}}, "then": {"decision": "require_approval"}}]}"""


def asks(bundle: Bundle, total: str) -> bool:
    call = PolicyCall(Kind.TOOL_CALL, "place_order", "acme", parse(f'{{"total": {total}}}'))
    return decide(bundle, call).action == "require_approval"


def test_p7_3_toml_and_json_say_the_same_with_exact_amounts() -> None:
    """7.3: one version for one meaning, and no binary fraction between a limit and an amount."""
    bundles = [read_any_policy(text, name) for text, name in ((RULE, "a.toml"), (TABLES, "b.toml"), (JSON, "c.json"))]
    assert len({bundle.version for bundle in bundles}) == 1
    for bundle in bundles:
        assert asks(bundle, "5000.1000000000000000000000001")
        assert not asks(bundle, "5000.1")
        assert not asks(bundle, '"5000.10"')


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.1", "0.1"), ("+1_000.50", "1000.50"), ("1e3", "1e3"), ("-0.0", "-0.0"), ("6.02E-3", "6.02E-3")],
)
def test_a_toml_float_keeps_its_digits(text: str, number: str) -> None:
    value = exact_toml(f"x = {text}")["x"]
    assert isinstance(value, Number)
    assert Decimal(value.text) == Decimal(number)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e400"])
def test_a_toml_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PolicyRefused, match="must be a finite number"):
        read_any_policy(RULE.replace("5000.10", text), "p.toml")


@pytest.mark.parametrize("text", ["x = [", "x = " + "9" * 5_000, "x = " + "[" * 5_000])
def test_what_is_no_toml_is_one_error_in_every_reader(text: str) -> None:
    """9.4: also numbers and nesting that the interpreter itself will not read."""
    with pytest.raises(TOMLDecodeError) as wrong:
        exact_toml(text)
    assert policy_lines("p.toml", wrong.value)[0].startswith("p.toml: is not valid TOML: ")
    with pytest.raises(ConfigError, match=r"m\.toml: is not valid TOML: "):
        read_merchants({"m.toml": text}, {}, JUDGES)


def test_a_platform_policy_is_a_file_that_may_be_absent_and_must_not_be_empty(tmp_path: Path) -> None:
    """7.3: a policy that was cut off must not allow everything."""
    file = tmp_path / "policy.toml"
    assert read_policy_file(file) is None
    file.write_text(RULE, encoding="utf-8")
    found = read_policy_file(file)
    assert found is not None
    assert (found.owner, [rule.id for rule in found.rules]) == ("", ["large"])
    for content, expected in (
        (b"", "default_action: is required"),
        (b"# all of it\n", "default_action: is required"),
        (b"\xff", "cannot be read: it is not UTF-8"),
        (b"x = [", "is not valid TOML: "),
    ):
        file.write_bytes(content)
        with pytest.raises(ConfigError) as wrong:
            read_policy_file(file)
        assert expected in wrong.value.problems[0]
        assert wrong.value.problems[0].startswith(str(file))


def test_p7_3_a_companys_file_has_its_own_policy() -> None:
    """7.3: read with the company's name; other tables keep their floats."""
    policy = RULE.replace("[[rules]]", "[[policy.rules]]").replace("default_action", "policy.default_action")
    text = (
        policy
        + '\n[company]\nname = "acme"\n[tools.place_order]\nendpoint = "https://shop.example/t"\ntimeout_s = 2.5\n'
    )
    (acme,) = read_merchants({"m.toml": text}, {}, JUDGES)
    assert acme.policy is not None
    assert (acme.policy.owner, acme.tools["place_order"].timeout_s) == ("acme", 2.5)
    assert not asks(acme.policy, "5000.1")
    assert read_any_policy(text, "m.toml").version == acme.policy.version
    (other,) = read_merchants({"other.toml": ""}, {}, JUDGES)
    assert other.policy is None


def test_p7_3_what_is_wrong_with_a_companys_policy_is_told_with_the_rest_of_its_file() -> None:
    """7.3: everything at once, each with file, table and key."""
    text = """
[policy]
default_action = "perhaps"
[[policy.rules]]
id = "r"
priority = 1
when = { company = "other", arguments = { "/total" = { gt = "many" } } }
then = { decision = "deny", reason = "" }
[tools.x]
"""
    with pytest.raises(ConfigError) as wrong:
        read_merchants({"acme.toml": text}, {}, JUDGES)
    assert sorted(line.partition(": ")[0] for line in wrong.value.problems) == [
        "acme.toml, policy.default_action",
        "acme.toml, policy.rules[0].then.reason",
        "acme.toml, policy.rules[0].when.arguments./total.gt",
        "acme.toml, tools.x.endpoint",
    ]


@pytest.mark.parametrize("policy", ["policy = 1", "[policy]", "policy = []"])
def test_a_policy_that_says_nothing_is_refused(policy: str) -> None:
    with pytest.raises(ConfigError):
        read_merchants({"m.toml": policy}, {}, JUDGES)


def test_the_example_is_fit_for_use() -> None:
    bundle: Any = read_any_policy(EXAMPLE.read_text("utf-8"), "policy.toml")
    assert asks(bundle, "5000.01")
    assert not asks(bundle, "5000")
