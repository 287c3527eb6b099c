"""What a rule looks at: one tool, its verdicts, its fields, and the names around it. Pure; computed once a tool."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from heuristics.classify import Heuristic, Verdict, classify, raised
from heuristics.declared_tool import DeclaredTool
from heuristics.lexicon import Entry, Lexicon, Role
from heuristics.lexicon_file import default_lexicon
from heuristics.platform import platform_verb
from heuristics.rules.fields import Fields, fields_of
from heuristics.rules.provider_names import PROVIDERS
from heuristics.words import split

__all__ = ["Alike", "Looked", "Surroundings"]

_DECLARE = {"oncegate": "declare side_effecting", "python": "declare side_effecting", "mcp": "say readOnlyHint"}
_DECLARED = ("tool", "company", "platform_override")


_RUN_ANYTHING: Final = frozenset({"execute", "invoke"})
"""Verbs at any place in a name, and of what they are given nothing is known."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Another tool's name near this one's: `kind` is `same`, `folded` (case and separators apart) or `slip` (one edit
    apart); `company` is where that is, None for this tool's own."""

    kind: str
    name: str
    company: str | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is the same for all tools of a company (or of a file, where no company is named).

    `heuristic` is the one that will judge these tools, None where that is not known; `providers` whose limits count;
    `names` all their names.
    """

    prefix: str = ""
    heuristic: Heuristic | None = None
    overrides: Mapping[str, bool] = field(default_factory=dict)
    providers: Sequence[str] = PROVIDERS
    names: Collection[str] = frozenset()

    def uses(self, name: str) -> bool:
        """Whether one of these tools has that name, so that no other can take it."""
        return name in self.names


class Looked:
    """One tool as the rules see it. `by_name` is what the name alone says, `verdict` what declarations and hints make
    of it (3.3, 3.4); a registration hands in the verdict that it stores."""

    def __init__(
        self,
        tool: DeclaredTool,
        around: Surroundings,
        *,
        verdict: Verdict | None = None,
        alike: Sequence[Alike] = (),
        lexicon: Lexicon | None = None,
    ) -> None:
        self.tool = tool
        self.name = tool.name
        self.around = around
        self.alike = alike
        self.lexicon = default_lexicon() if lexicon is None else lexicon
        self.by_name = classify(tool.name, prefix=around.prefix, lexicon=self.lexicon)
        self.verdict = self._judged() if verdict is None else verdict

    @property
    def side_effecting(self) -> bool:
        return self.verdict.side_effecting

    @property
    def declared(self) -> bool:
        """Whether somebody said whether it is side-effecting, so that no name has to (3.3)."""
        return self.verdict.source in _DECLARED

    @property
    def method(self) -> str:
        return (self.tool.hints.http_method or "").upper()

    @property
    def declare(self) -> str:
        """How to say in this format whether it is side-effecting; in some it can only be said beside it."""
        return _DECLARE.get(self.tool.format, "declare it in the settings (overrides)")

    def declare_as(self, side_effecting: bool) -> str:
        """How to say in this format that it is, or that it is not."""
        said = str(side_effecting)
        return {
            "oncegate": f"declare side_effecting = {said.lower()}",
            "python": f"declare side_effecting={said}",
            "mcp": f"say readOnlyHint: {str(not side_effecting).lower()}",
        }.get(self.tool.format, self.declare)

    @property
    def dispatches(self) -> bool:
        """Whether its verb runs whatever it is given, wherever it stands."""
        entry = self.verb
        return entry is not None and (entry.role is Role.DISPATCHER or self.by_name.verb in _RUN_ANYTHING)

    @cached_property
    def words(self) -> list[str]:
        return split(self.name)

    @cached_property
    def platform_verb(self) -> str | None:
        return platform_verb(self.name)

    @cached_property
    def fields(self) -> Fields:
        """The arguments, through references."""
        return fields_of(self.tool.parameters, self.tool.document)

    @property
    def verb(self) -> Entry | None:
        """The table's entry of the verb that decided by name, if one word did."""
        return self.lexicon.verbs.get(self.by_name.verb) if self.by_name.verb is not None else None

    def _judged(self) -> Verdict:
        tool, hints = self.tool, self.tool.hints
        if tool.side_effecting is None and not self.around.overrides:
            return raised(self.by_name, hints)
        return classify(
            tool.name,
            prefix=self.around.prefix,
            lexicon=self.lexicon,
            tool_override=tool.side_effecting,
            company_overrides=self.around.overrides,
            hints=hints,
        )
