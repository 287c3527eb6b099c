"""`oncegate tools register`: all tools of a shop that was written with the merchant SDK, from its own code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

from gateway.commands import remote

_HELP = "register all tools of a shop written with the merchant SDK; safe to repeat"
_EXAMPLES = """\
examples:
  oncegate tools register --from shop:app --company acme --endpoint https://shop.example/tools
  oncegate tools register --from shop:app --endpoint https://shop.example/tools --dry-run --json

The module is imported as the server imports it, so what it reads from the environment has to be set. A tool that
has not changed keeps its version. Tools that the shop no longer has stay registered: they are named, and
`oncegate tools remove` removes one.
"""


def prepare(actions: Any) -> None:
    action = actions.add_parser(
        *("register",),
        help=_HELP,
        description=_HELP,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    remote.add_options(action)
    action.add_argument("--from", dest="source", required=True, metavar="MODULE:NAME", help="a Shop or its application")
    action.add_argument("--app-dir", default=".", help="where the module is (default: here)")
    action.add_argument("--company", help="default: the shop's own, or $ONCEGATE_COMPANY")
    action.add_argument("--endpoint", help="the URL that the gateway reaches the shop at (default: the shop's own)")
    action.add_argument("--dry-run", action="store_true", help="show what would be sent, and ask no gateway")
    action.set_defaults(run=remote.run, act=_register)


def tell(tool: dict[str, Any], note: str = "") -> None:
    """One stored tool in a line, its findings below."""
    effect = "side-effecting" if tool["verdict"]["side_effecting"] else "read-only"
    print(f"{tool['name']} v{tool['version']}{note}: {effect}: {tool['verdict']['reason']}")
    for finding in tool.get("findings", []):
        print(f"  {finding['severity']} {finding['code']} {finding.get('rule', '')}: {finding['message']}")


def _register(arguments: argparse.Namespace) -> int:
    shop = _load(arguments.source, arguments.app_dir)
    if arguments.endpoint and not arguments.endpoint.lower().startswith(("http://", "https://")):
        raise remote.RemoteProblem(
            "--endpoint is a whole URL: it starts with https://, or with http:// where that is open"
        )
    try:
        tools: list[dict[str, Any]] = shop.manifest(arguments.endpoint)
    except ValueError as missing:
        raise remote.RemoteProblem(str(missing)) from None
    if arguments.dry_run:
        remote.show(tools)
        return 0
    company = arguments.company or shop.company or os.environ.get("ONCEGATE_COMPANY")
    if not company:
        raise remote.RemoteProblem("which company? --company NAME, $ONCEGATE_COMPANY or Shop(..., company=NAME)")
    folder = remote.path("companies", company, "tools")
    before = {tool["name"]: tool["version"] for tool in remote.ask(arguments, "GET", folder)["tools"]}
    stored = []
    for body in tools:
        name = body.pop("name")
        try:
            tool = remote.ask(arguments, "PUT", remote.path("companies", company, "tools", name), body=body)
        except remote.RemoteProblem as refused:
            raise remote.RemoteProblem(f"{name}: {refused}") from None
        stored.append(tool)
        if not arguments.json:
            tell(tool, _note(before.get(name), tool["version"]))
    if arguments.json:
        remote.show({"tools": stored})
    gone = sorted(before.keys() - {tool["name"] for tool in stored})
    if gone and not arguments.json:
        print(f"not of this shop, left as they are: {', '.join(gone)}")
    return 0


def _note(before: int | None, now: int) -> str:
    if before is None:
        return " (new)"
    return " (unchanged)" if before == now else f" (was v{before})"


def _where(missing: str | None, module: str, folder: str) -> str:
    """What to do where it is the shop's own module that is not found, and not one that it imports."""
    if module.endswith(".py"):
        return f"; a module is named without .py: --from {module.removesuffix('.py').replace('/', '.')}:NAME"
    if missing is None or missing.partition(".")[0] != module.partition(".")[0]:
        return "; install here what the shop needs"
    file = missing.replace(".", "/") + ".py"
    return f"; there is no {file} in {os.path.abspath(folder)}: run this in its folder, or name that by --app-dir"


def _load(source: str, folder: str) -> Any:
    """The Shop at `module:name`, or the one behind an application of it. Raises RemoteProblem, without a trace:
    what a merchant's module raises says what it misses."""
    module_name, _, name = source.partition(":")
    if not module_name or not name:
        raise remote.RemoteProblem(f"--from is MODULE:NAME, such as shop:app, not {source!r}")
    sys.path.insert(0, os.path.abspath(folder))
    try:
        found = getattr(importlib.import_module(module_name), name)
    except KeyError as missing:
        raise remote.RemoteProblem(
            f"{source} cannot be imported: KeyError: {missing}; if that is an environment variable, export it here "
            "as it is where the shop runs"
        ) from None
    except ModuleNotFoundError as missing:
        raise remote.RemoteProblem(
            f"{source} cannot be imported: ModuleNotFoundError: {missing}{_where(missing.name, module_name, folder)}"
        ) from None
    except (Exception, SystemExit) as wrong:
        raise remote.RemoteProblem(f"{source} cannot be imported: {type(wrong).__name__}: {wrong}") from None
    finally:
        sys.path.pop(0)
    shop = getattr(found, "shop", found)
    if not callable(getattr(shop, "manifest", None)):
        raise remote.RemoteProblem(
            f"{source} is a {type(found).__name__}, not a Shop nor shop.asgi() or shop.wsgi(); name the Shop itself, "
            f"such as --from {module_name}:shop"
        )
    return shop
