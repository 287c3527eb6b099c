"""The shape of a lint rule: data, a check, and the texts of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from heuristics.finding import Severity
from heuristics.rules.looked import Looked

__all__ = ["Remark", "Rule"]


@dataclass(frozen=True, slots=True)
class Remark:
    """What a check says: one sentence and what to do instead. `at` points below the tool (RFC 6901); a `severity`
    replaces the rule's own."""

    message: str
    at: str = "/name"
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `what`, `why`, `example` and `instead` are the four parts of its page in docs/lint/; the last two are
    declarations that a test reads: the one has the finding, the other has it not."""

    code: str
    name: str
    severity: Severity
    what: str
    why: str
    example: str
    instead: str
    check: Callable[[Looked], Iterable[Remark]]

    @property
    def page(self) -> str:
        """The file in docs/lint/."""
        return f"{self.code}.md"
