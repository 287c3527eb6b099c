"""`oncegate policy`: is this policy fit for use, and what does it say about a call? No gateway is asked."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Any, Final

import msgspec

from gateway.adapters.policy_files import policy_lines, read_any_policy
from gateway.adapters.text_files import read_text, unreadable
from gateway.core.identity import Kind, read_arguments
from gateway.core.model import Role
from gateway.core.policy import Bundle, PolicyCall, Ruling
from gateway.core.policy_explain import Explanation, explain
from gateway.core.policy_limits import counted
from gateway.core.policy_reading import PolicyRefused
from gateway.core.strict_json import JsonRefused
from heuristics import classify

EXAMPLES: Final = """\
examples:
  oncegate policy check config/policy.toml
  oncegate policy check config/merchants/acme.toml --json
  oncegate policy explain config/policy.toml --tool place_order --arguments '{"total": 7400}'
  oncegate policy explain bundle.json --tool get_order --read-only --role runtime --step 3 --json

FILE is a policy in TOML, one in JSON (a name that ends in .json), or a company's file with a [policy] table.
Exit status of check 0: fit for use; 1: not, with every problem and its path; 2: a file cannot be read.
Exit status of explain 0: explained, whatever the decision; 1: the policy is not fit for use; 2: a file or the
arguments cannot be read.
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = _action(actions, "check", "say whether a policy is fit for use, and everything that is wrong with it")
    check.set_defaults(run=_check)
    _explain_options(
        _action(actions, "explain", "say what a policy decides about a call, and why each rule does or not")
    )


def _action(actions: Any, name: str, purpose: str) -> argparse.ArgumentParser:
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=purpose, description=purpose, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action.add_argument("file", metavar="FILE", type=Path)
    action.add_argument("--json", action="store_true", help="one JSON object")
    return action


def _explain_options(action: argparse.ArgumentParser) -> None:
    action.add_argument("--tool", metavar="NAME", required=True, help="the tool or, with --kind, another target")
    action.add_argument("--arguments", metavar="JSON", default="{}", help="the call's arguments (default: none)")
    action.add_argument("--company", default="", metavar="NAME", help="whose call it is")
    action.add_argument("--kind", choices=[kind.value for kind in Kind], default=Kind.TOOL_CALL.value)
    verdict = action.add_mutually_exclusive_group()
    verdict.add_argument("--side-effecting", dest="side_effecting", action="store_true", default=None)
    verdict.add_argument("--read-only", dest="side_effecting", action="store_false", default=None)
    action.add_argument("--step", type=int, metavar="N", help="the step that the request states")
    action.add_argument("--role", choices=[role.value for role in Role], help="of the key that calls")
    action.set_defaults(run=_explain)


def _check(arguments: argparse.Namespace) -> int:
    bundle = _read(arguments)
    if isinstance(bundle, int):
        return bundle
    if arguments.json:
        _show({"fit": True, "bundle": bundle.version, "rules": len(bundle.rules), "problems": []})
    else:
        count = f"{len(bundle.rules)} {'rule' if len(bundle.rules) == 1 else 'rules'}"
        print(f"{arguments.file}: fit for use: {count}, default {bundle.default.action.value}")
        print(f"bundle {bundle.version}")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    bundle = _read(arguments)
    if isinstance(bundle, int):
        return bundle
    try:
        values = read_arguments(arguments.arguments).value
    except JsonRefused as refused:
        return _said(2, f"--arguments: {refused}")
    if arguments.step is not None and arguments.step < 1:
        return _said(2, "--step: must be a whole number from 1")
    kind = Kind(arguments.kind)
    side_effecting = arguments.side_effecting
    guessed = side_effecting is None and kind is Kind.TOOL_CALL
    if guessed:
        side_effecting = classify(arguments.tool).side_effecting
    call = PolicyCall(
        kind=kind,
        target=arguments.tool,
        company=arguments.company or bundle.owner,
        arguments=values,
        side_effecting=side_effecting,
        step=arguments.step,
        role=None if arguments.role is None else Role(arguments.role),
    )
    found = explain(bundle, call)
    if arguments.json:
        _show(as_json(found, call))
        return 0
    print(found.text)
    if guessed:
        said = "side-effecting" if side_effecting else "read-only"
        print(f"(taken for {said} by its name; say --side-effecting or --read-only)")
    return 0


def as_json(found: Explanation, call: PolicyCall) -> dict[str, object]:
    """What decides, and each rule in the order they are asked."""
    return {
        "decision": found.ruling.action.value,
        "rule": found.ruling.rule_id,
        "bundle": found.ruling.bundle,
        "why": found.why,
        "side_effecting": call.side_effecting,
        **_rest(found.ruling, call),
        "rules": [msgspec.structs.asdict(rule) for rule in found.rules],
    }


def _rest(ruling: Ruling, call: PolicyCall) -> dict[str, object]:
    approval = None if ruling.approval is None else msgspec.structs.asdict(ruling.approval)
    limits = [
        {
            "rule": limit.rule_id,
            "max": str(limit.max),
            "window_s": limit.window_s,
            "per": limit.per if isinstance(limit.per, str) else limit.per.text,
            "sum_of": None if limit.sum_of is None else limit.sum_of.text,
            "on_error": limit.on_error,
            # Conversation and turn are of no call that is only explained.
            "countable": counted(limit, call.company, "any", "any", call.arguments) is not None,
        }
        for limit in ruling.limits
    ]
    return {
        "reason": ruling.reason,
        "approval": approval,
        "rate_limits": limits,
        "not_comparable": list(ruling.not_comparable),
    }


def _read(arguments: argparse.Namespace) -> Bundle | int:
    """The bundle, or the exit status once it is told what is wrong."""
    name = str(arguments.file)
    try:
        return read_any_policy(read_text(arguments.file), name)
    except (OSError, UnicodeDecodeError) as error:
        return _said(2, f"{name}: {unreadable(error)}")
    except (JsonRefused, TOMLDecodeError) as broken:
        return _said(2, *policy_lines(name, broken))
    except PolicyRefused as refused:
        if arguments.json:
            _show({"fit": False, "problems": [_problem(each) for each in refused.problems]})
            return 1
        # What check finds is its answer; explain has none to give.
        out = sys.stdout if arguments.action == "check" else sys.stderr
        print("\n".join(policy_lines(name, refused)), file=out)
        return 1


def _problem(each: Any) -> dict[str, object]:
    return {"path": each.path, "rule": each.rule, "problem": each.problem}


def _said(status: int, *lines: str) -> int:
    for line in lines:
        print(f"oncegate policy: {line}", file=sys.stderr)
    return status


def _show(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
