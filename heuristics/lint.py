"""The lint engine: tools, settings and waivers in, findings in a stable order out. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from heuristics.classify import shared_prefix
from heuristics.declared_tool import DeclaredTool, Place
from heuristics.finding import Finding, order_of
from heuristics.lexicon_file import default_lexicon
from heuristics.lint_settings import LintSettings
from heuristics.rules import BY_CODE, RULES, Rule
from heuristics.rules.alike import NameIndex
from heuristics.rules.looked import Looked, Surroundings
from heuristics.waivers import Waiver

__all__ = ["findings_on", "lint"]

_META = ("OG001", "OG002")


def lint(
    tools: Sequence[DeclaredTool],
    settings: LintSettings,
    waivers: Sequence[Waiver] = (),
    *,
    progress: Callable[[int], None] | None = None,
) -> list[Finding]:
    """Every finding on the tools that no waiver holds back. `progress` is told how many tools are done."""
    rules = [rule for rule in RULES if rule.code not in _META and settings.wants(rule.code)]
    lexicon = default_lexicon()
    scopes = [tool.company if tool.company is not None else tool.place.path for tool in tools]
    index = NameIndex(
        [(scope, tool.name, _spot(tool.place)) for scope, tool in zip(scopes, tools, strict=True)], lexicon
    )
    around = _surroundings(tools, scopes, settings)
    ignoring: dict[str, list[Rule]] = {}
    waived: dict[int, list[Waiver]] = defaultdict(list)
    for waiver in waivers:
        if waiver.tool is not None:
            waived[waiver.tool].append(waiver)
    used: set[tuple[int, str]] = set()
    shared: set[tuple[str, Place]] = set()
    found: list[Finding] = []
    for place, tool in enumerate(tools):
        path = tool.place.path
        if path not in ignoring:
            ignoring[path] = [rule for rule in rules if not settings.ignored_in(rule.code, path)]
        alike = index.of(place, scopes[place], tool.name)
        looked = Looked(tool, around[scopes[place]], alike=alike, lexicon=lexicon)
        for finding in _findings(looked, ignoring[path]):
            holding = [waiver for waiver in waived.get(place, ()) if finding.code in waiver.codes]
            used.update((id(waiver), finding.code) for waiver in holding)
            if not holding and not _told(finding, tool, shared):
                found.append(finding)
        if progress is not None and place % 1_000 == 999:
            progress(place + 1)
    found += _on_waivers(waivers, used, tools, settings)
    return sorted(found, key=order_of)


def findings_on(looked: Looked) -> list[Finding]:
    """Every rule's findings on one tool, in the order of the rules: what a registration asks (3.5)."""
    return list(_findings(looked, RULES))


def _findings(looked: Looked, rules: Sequence[Rule]) -> Iterator[Finding]:
    tool = looked.tool
    places: dict[str, Place] = {}  # most findings on a tool are on its name
    for rule in rules:
        for remark in rule.check(looked):
            place = places.get(remark.at)
            if place is None:
                place = places[remark.at] = _place(tool, remark.at)
            yield Finding(rule.code, rule.name, remark.severity or rule.severity, remark.message, tool.name, place)


def _place(tool: DeclaredTool, pointer: str) -> Place:
    """Where a part of the tool stands, or the nearest thing around it whose place is known."""
    places: Mapping[str, Place] = tool.places
    while pointer:
        found = places.get(pointer)
        if found is not None:
            return found
        pointer = pointer.rpartition("/")[0]
    return tool.place


def _told(finding: Finding, tool: DeclaredTool, shared: set[tuple[str, Place]]) -> bool:
    """Whether this was said of the same spot already: a schema that many tools refer to has one fault."""
    place = finding.place
    if not finding.code.startswith("OG3") or place.line is None or place == tool.place:
        return False
    known = (finding.code, place) in shared
    shared.add((finding.code, place))
    return known


def _surroundings(
    tools: Sequence[DeclaredTool], scopes: Sequence[str], settings: LintSettings
) -> Mapping[str, Surroundings]:
    names: dict[str, list[str]] = defaultdict(list)
    for scope, tool in zip(scopes, tools, strict=True):
        names[scope].append(tool.name)
    shared = Surroundings("", settings.heuristic, settings.overrides, settings.providers)
    return {
        scope: replace(shared, prefix=shared_prefix(listed), names=frozenset(listed)) for scope, listed in names.items()
    }


def _on_waivers(
    waivers: Sequence[Waiver],
    used: set[tuple[int, str]],
    tools: Sequence[DeclaredTool],
    settings: LintSettings,
) -> Iterator[Finding]:
    for waiver in waivers:
        tool = tools[waiver.tool].name if waiver.tool is not None else ""
        if waiver.fault is not None:
            yield from _meta("OG001", f"The waiver {waiver.fault}.", waiver, tool, settings)
        elif not waiver.reason:
            message = "The waiver says no reason: write why the finding may stand."
            yield from _meta("OG001", message, waiver, tool, settings)
        for code in waiver.codes:
            asked = code not in BY_CODE or (settings.wants(code) and not settings.ignored_in(code, waiver.place.path))
            if asked and (id(waiver), code) not in used and waiver.fault is None:
                where = "stands at no tool" if waiver.tool is None else f"waives {code}, which is not found here"
                yield from _meta("OG002", f"The waiver {where}: take it out.", waiver, tool, settings)


def _meta(code: str, message: str, waiver: Waiver, tool: str, settings: LintSettings) -> Iterator[Finding]:
    rule = BY_CODE[code]
    if settings.wants(code) and not settings.ignored_in(code, waiver.place.path):
        yield Finding(code, rule.name, rule.severity, message, tool, waiver.place)


def _spot(place: Place) -> str:
    return place.path if place.line is None else f"{place.path}:{place.line}"
