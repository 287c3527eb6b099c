"""`oncegate lint`: tools whose names, hints or schemas would lose protection, before they ship.

Exit status 0: nothing above a note; 1: errors or warnings; 2: something could not be read, settings included.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from gateway import __version__
from gateway.commands.lint_config import find_settings
from gateway.commands.lint_sources import Gathered, Live, gather
from heuristics.baseline import BaselineError, new_since, read_baseline, write_baseline
from heuristics.finding import Finding
from heuristics.formats import FORMATS
from heuristics.lint import lint
from heuristics.lint_settings import LintSettings, SettingsError, codes
from heuristics.reports import FORMS, Run
from heuristics.reports.as_text import statistics
from heuristics.reports.explained import explained
from heuristics.reports.run import printable, spot

EXAMPLES: Final = """\
examples:
  oncegate lint tools.json openapi.yaml config/merchants
  oncegate lint 'services/**/tools.json' --select OG1,OG2 --ignore OG102
  curl -s https://shop.example/openapi.json | oncegate lint - --from openapi
  oncegate lint https://shop.example/mcp --header 'Authorization: Bearer …'
  oncegate lint --stdio 'python -m shop.mcp_server'
  oncegate lint tools.json --write-baseline lint-baseline.json    (then: --baseline lint-baseline.json)
  oncegate lint . --format sarif > lint.sarif
  oncegate lint --explain OG101

A finding that may stand is waived where it is, with a reason: in JSON by a member of the tool
  "x-oncegate-lint": {"ignore": ["OG101"], "reason": "the name is in a contract"}
in TOML, YAML and Python by a comment on the tool's lines
  # oncegate: ignore[OG101] the name is in a contract
Settings: [tool.oncegate.lint] in pyproject.toml, or oncegate.toml: select, ignore, per-file-ignores, heuristic,
providers, overrides, baseline.

Exit status 0: nothing above a note; 1: errors or warnings; 2: something could not be read.
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="files, folders, globs, URLs of MCP servers, - for standard input")
    add("--from", dest="from_", choices=FORMATS, default="auto", help="what the sources are (default: by content)")
    add("--select", metavar="CODES", help="only rules whose codes begin like these, comma-separated (OG1,OG203)")
    add("--ignore", metavar="CODES", help="but not these; the longer beginning wins")
    add("--heuristic", choices=("words", "platform"), help="the rule that will judge these tools (default: not known)")
    add("--format", choices=tuple(FORMS), default="text", help="default: text")
    add("--statistics", action="store_true", help="count findings by rule instead of listing them")
    add("--explain", metavar="CODE", help="say what a rule finds, why, and what to do instead; 'all' lists the rules")
    add("--baseline", metavar="FILE", type=Path, help="leave out the findings that this file counts")
    add("--write-baseline", metavar="FILE", type=Path, help="write such a file with all present findings")
    add("--config", metavar="FILE", type=Path, help="settings (default: oncegate.toml or pyproject.toml, upwards)")
    add("--stdio", metavar="COMMAND", help="start this MCP server and lint the tools that it lists")
    add("--header", metavar="NAME: VALUE", action="append", default=[], help="sent to MCP servers given as URLs")
    add("--timeout", metavar="SECONDS", type=float, default=30.0, help="for a live server to list its tools (30)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    for stream in (sys.stdout, sys.stderr):  # a console that has not every character shows the rest escaped
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if arguments.explain is not None:
        text = explained(arguments.explain)
        if text is None:
            return _said(f"--explain: there is no rule {arguments.explain!r}; --explain all lists them")
        print(text, end="")
        return 0
    if not arguments.paths and not arguments.stdio:
        return _said("nothing to lint: name files or folders, or - for standard input; see oncegate lint --help")
    try:
        settings, folder = find_settings(arguments.config, Path.cwd())
        settings = _with_options(settings, arguments)
        live = Live.of(arguments.stdio, arguments.header, arguments.timeout)
        baseline = _baseline_file(settings, folder, arguments)
        known = {} if baseline is None else read_baseline(_text(baseline))
    except SettingsError as wrong:
        return _said(str(wrong))
    except BaselineError as wrong:
        return _said(f"{baseline}: {wrong}")
    with _no_collecting():
        gathered = gather(arguments.paths, arguments.from_, live, _Progress("files read"))
        found = lint(gathered.tools, settings, gathered.waivers, progress=_Progress("tools looked at"))
    if arguments.write_baseline is not None:
        return _write_baseline(arguments.write_baseline, found, gathered)
    new = found if baseline is None else new_since(found, known, _relative_to(baseline))
    result = Run(new, gathered.unread, len(gathered.tools), gathered.files, len(found) - len(new), __version__)
    sys.stdout.write(statistics(result) if arguments.statistics else FORMS[arguments.format](result))
    _tell_unread(gathered)
    if gathered.unread:
        return 2
    return 1 if any(each.severity != "note" for each in new) else 0


@contextmanager
def _no_collecting() -> Iterator[None]:
    """All that is read lives to the end, so looking for cycles in it finds nothing and takes a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.freeze()  # else the next collection goes through all of it
            gc.enable()


def _with_options(settings: LintSettings, arguments: argparse.Namespace) -> LintSettings:
    """What the command line says replaces what the file says. Raises SettingsError."""
    if arguments.select is not None:
        settings = replace(settings, select=codes("--select", _listed(arguments.select)))
    if arguments.ignore is not None:
        settings = replace(settings, ignore=codes("--ignore", _listed(arguments.ignore)))
    if arguments.heuristic is not None:
        settings = replace(settings, heuristic=arguments.heuristic)
    return settings


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _baseline_file(settings: LintSettings, folder: Path, arguments: argparse.Namespace) -> Path | None:
    if arguments.write_baseline is not None:
        return None
    if arguments.baseline is not None:
        named: Path = arguments.baseline
        return named
    return None if settings.baseline is None else folder / settings.baseline


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BaselineError("is not UTF-8") from None
    except FileNotFoundError as wrong:
        raise BaselineError(
            f"cannot be read: {wrong.strerror}; oncegate lint --write-baseline {file.name} PATH… writes it"
        ) from None
    except OSError as wrong:
        raise BaselineError(f"cannot be read: {wrong.strerror}") from None


def _write_baseline(file: Path, found: list[Finding], gathered: Gathered) -> int:
    _tell_unread(gathered)
    if gathered.unread:
        return _said("no baseline is written while something cannot be read")
    try:
        file.write_text(write_baseline(found, _relative_to(file)), encoding="utf-8")
    except OSError as wrong:
        return _said(f"{file}: cannot be written: {wrong.strerror}")
    print(f"{file}: {len(found):,} {'finding' if len(found) == 1 else 'findings'} noted")
    return 0


class _relative_to:  # noqa: N801 (used like a function)
    """A path as the baseline writes it: from its own folder, with slashes, so that it holds on every machine."""

    def __init__(self, file: Path) -> None:
        self._folder = os.path.realpath(file.parent)
        self._known: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        if path not in self._known:
            plain = path == "-" or "://" in path
            self._known[path] = path if plain else self._from_folder(path)
        return self._known[path]

    def _from_folder(self, path: str) -> str:
        try:
            return os.path.relpath(os.path.realpath(path), self._folder).replace(os.sep, "/")
        except ValueError:  # another drive
            return path


class _Progress:
    """A count on a terminal's last line, once the work takes long; nothing elsewhere."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __call__(self, done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done:,} {self._what}\x1b[K\r", end="", file=sys.stderr, flush=True)


def _tell_unread(gathered: Gathered) -> None:
    for each in gathered.unread:
        print(f"{spot(each.place)}: {printable(each.message)}", file=sys.stderr)


def _said(line: str) -> int:
    print(f"oncegate lint: {printable(line)}", file=sys.stderr)
    return 2
