"""Policy bundles from files: `config/policy.toml` for all companies, `[policy]` in a company's own file, or JSON.

    default_action = "allow"

    [[rules]]
    id = "large-orders"
    priority = 10
    when = { target = "place_order", arguments = { "/total" = { gt = 5000 } } }
    then = { decision = "require_approval" }

Amounts are exact: `gt = 0.1` is a tenth, not the nearest binary fraction. A file that is there and holds nothing is
an error, since a policy that was cut off must not allow everything.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from gateway.adapters.text_files import read_text, unreadable
from gateway.core.errors import ConfigError
from gateway.core.policy import Bundle
from gateway.core.policy_bundle import read_bundle
from gateway.core.policy_reading import PolicyProblem, PolicyRefused
from gateway.core.strict_json import JsonRefused, Number, parse

_OF_A_BUNDLE: Final = ("default_action", "rules")
_OF_A_COMPANY: Final = ("company", "secrets", "tools")
_NO_POLICY: Final = "is a company's file and has no [policy]: its rules stand under [policy] and [[policy.rules]]"


def read_policy_file(path: Path) -> Bundle | None:
    """The platform's bundle; None if there is no such file. Raises ConfigError with all that is wrong with it."""
    try:
        text = read_text(path)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: {unreadable(error)}"]) from None
    try:
        return read_bundle(exact_toml(text))
    except (tomllib.TOMLDecodeError, PolicyRefused) as refused:
        raise ConfigError(policy_lines(str(path), refused)) from None


def read_any_policy(text: str, name: str) -> Bundle:
    """A bundle as JSON (a name that ends in .json) or TOML, or the `[policy]` of a company's file.

    Raises PolicyRefused, and JsonRefused or TOMLDecodeError for what is neither.
    """
    document = parse(text) if name.endswith(".json") else exact_toml(text)
    if isinstance(document, dict) and "policy" in document and not any(key in document for key in _OF_A_BUNDLE):
        company = document.get("company")
        stated = company.get("name") if isinstance(company, dict) else None
        try:
            return read_bundle(document["policy"], stated if isinstance(stated, str) else Path(name).stem)
        except PolicyRefused as refused:
            raise within_policy(refused) from None
    if isinstance(document, dict) and "policy" not in document and any(key in document for key in _OF_A_COMPANY):
        # Read as a bundle, every table of it would be an unknown field.
        raise PolicyRefused([PolicyProblem((), _NO_POLICY)])
    return read_bundle(document)


def within_policy(refused: PolicyRefused) -> PolicyRefused:
    """The same problems, placed under `policy`."""
    return PolicyRefused([PolicyProblem(("policy", *each.at), each.problem, each.rule) for each in refused.problems])


def exact_toml(text: str) -> dict[str, Any]:
    """TOML with every float kept as it is written. Raises TOMLDecodeError."""
    try:
        return tomllib.loads(text, parse_float=_exact)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError("nested too deep") from None
    except ValueError:
        # The interpreter's bound on the digits of a whole number.
        raise tomllib.TOMLDecodeError("a number has too many digits") from None


def policy_lines(file: str, wrong: PolicyRefused | JsonRefused | tomllib.TOMLDecodeError) -> list[str]:
    """One line for each problem, as configuration errors are told."""
    if isinstance(wrong, PolicyRefused):
        return [f"{file}, {each}" if each.at else f"{file}: {each}" for each in wrong.problems]
    if isinstance(wrong, JsonRefused):
        return [f"{file}: is not valid JSON: {wrong}"]
    # The decoder names line and column, never the text.
    return [f"{file}: is not valid TOML: {wrong}"]


def _exact(text: str) -> Number | float:
    written = text.replace("_", "").removeprefix("+")
    try:
        # JSON's own rules for what a number may be, so that files and requests agree.
        number = parse(written)
    except JsonRefused:
        return float("nan")
    return number if isinstance(number, Number) else Number(written)
