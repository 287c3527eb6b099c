"""Whether a ledger can be relied on to guard money: facts in, findings out (4.14). Pure; the rules are in
`ledger_rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from gateway.core.ledger_facts import LedgerFacts, Wanted

MIB: Final = 1_048_576


class Severity(StrEnum):
    """`unsafe`: a gateway does not start with it."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    UNSAFE = "unsafe"


class Finding(msgspec.Struct, frozen=True):
    """`found`: what is; `cost`: what it can cost; `do`: the command or setting that mends it.

    `must`: nothing lets a gateway start with it, since what was asked for could not be done.
    """

    code: str
    severity: Severity
    found: str
    cost: str = ""
    do: str = ""
    must: bool = False


class Looked(msgspec.Struct, frozen=True):
    """What the rules look at."""

    facts: LedgerFacts
    wanted: Wanted

    @property
    def connected(self) -> int:
        return sum(replica.online for replica in self.facts.replicas or ())

    @property
    def full(self) -> float:
        """The part of the memory limit that is used; 0 where there is none, or nobody says."""
        return (self.facts.used_memory or 0) / self.facts.max_memory if self.facts.max_memory else 0.0

    @property
    def lag_s(self) -> int:
        return max((replica.lag_s or 0 for replica in self.facts.replicas or ()), default=0)

    def words(self) -> dict[str, object]:
        """What a rule's text may name in braces."""
        facts, wanted = self.facts, self.wanted
        return {
            "server": facts.server,
            "version": ".".join(map(str, facts.version or ())),
            "hidden": " and ".join(facts.hidden),
            "refused": facts.write_refused,
            "commands": ", ".join(facts.refused_commands or ()),
            "eviction": facts.eviction,
            "save": facts.save,
            "filesystem": facts.network_filesystem,
            "used": f"{(facts.used_memory or 0) / MIB:.0f} MiB",
            "limit": f"{(facts.max_memory or 0) / MIB:.0f} MiB",
            "full": f"{self.full:.0%}",
            "connected": self.connected,
            "lag": self.lag_s,
            "least": facts.min_replicas_to_write,
            "wanted": wanted.replicas,
            "timeout": f"{wanted.timeout_s:g}",
            "command": "WAITAOF" if wanted.fsync else "WAIT",
            "unconfirmed": facts.unconfirmed,
            "apart": f"{abs(facts.clock_ahead_s or 0):.1f}",
            "way": "ahead of" if (facts.clock_ahead_s or 0) > 0 else "behind",
            "trip": f"{(facts.round_trip_s or 0) * 1000:.1f}",
        }


@dataclass(frozen=True, slots=True)
class Rule:
    """Of each subject the first rule that holds gives the finding."""

    subject: str
    code: str
    severity: Severity
    holds: Callable[[Looked], bool]
    found: str
    cost: str = ""
    do: str = ""
    must: bool = False


def judged(facts: LedgerFacts, wanted: Wanted, rules: Sequence[Rule]) -> list[Finding]:
    """One finding for each subject that has one, in the order of the rules."""
    looked = Looked(facts, wanted)
    words = looked.words()
    found: dict[str, Finding] = {}
    for rule in rules:
        if rule.subject not in found and rule.holds(looked):
            said, cost, do = (text.format_map(words) for text in (rule.found, rule.cost, rule.do))
            found[rule.subject] = Finding(rule.code, rule.severity, said, cost, do, rule.must)
    return list(found.values())


def refusing(found: Sequence[Finding], *, allow_unsafe: bool) -> Iterator[Finding]:
    """Those that a gateway must not start with."""
    return (f for f in found if f.severity is Severity.UNSAFE and (f.must or not allow_unsafe))


def of_servers(found: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    """What several servers have in common once, the rest with the names of those it holds for."""
    servers: dict[Finding, list[str]] = {}
    for server, theirs in found.items():
        for finding in theirs:
            servers.setdefault(finding, []).append(server)
    return [
        finding
        if len(names) == len(found)
        else msgspec.structs.replace(finding, found=f"{', '.join(names)}: {finding.found}")
        for finding, names in servers.items()
    ]


def worst(found: Sequence[Finding]) -> Severity:
    order = list(Severity)
    return max((finding.severity for finding in found), key=order.index, default=Severity.OK)
