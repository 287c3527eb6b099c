"""What came of a run, for every report alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.commands.merchant_check.exchange import Exchange
from gateway.commands.merchant_check.plan import Fault

Verdict = Literal["passed", "failed", "not tried"]


@dataclass(frozen=True, slots=True)
class Result:
    """Of one fault. `why` is what it did wrong, or why it was not tried."""

    fault: Fault
    verdict: Verdict
    why: str
    remarks: tuple[str, ...]
    history: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Of them all, in the plan's order. `counted`: whether the merchant's own count was looked at. `stopped` is why
    the rest was not tried, where something kept the run from going on."""

    url: str
    tool: str
    counted: bool
    results: tuple[Result, ...]
    stopped: str

    def having(self, verdict: Verdict) -> list[Result]:
        return [each for each in self.results if each.verdict == verdict]

    @property
    def exit_status(self) -> int:
        """0: all that was tried has passed; 1: something failed; 2: it could not be run to its end."""
        if self.having("failed"):
            return 1
        return 2 if self.stopped or not self.having("passed") else 0
