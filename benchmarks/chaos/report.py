"""A run's figures and violations, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.chaos.run import Report

_MOST_SHOWN: Final = 8
_MEANINGS: Final = (
    ("intents", "intended calls"),
    ("requests", "requests for them, the last one of each included"),
    ("no_answer", "of these without an answer: cut, killed, or the caller hung up"),
    ("sends", "requests that reached a merchant"),
    ("orders", "orders that the merchants have"),
    ("replays", "answers from the ledger"),
    ("blocked", "repeats held, the first outcome shown"),
    ("denied", "repeats of an unknown outcome, denied"),
    ("unrecorded", "real results told while the ledger was away"),
    ("settled_late", "unknown outcomes that settled when the truth came"),
    ("unknown", "outcomes that stay unknown (each of them honestly so)"),
    ("unknown_that_happened", "of these: the merchant has the order"),
    ("unknown_never_sent", "of these: nothing ever reached the merchant"),
    ("conflicts", "late successes under another token, kept as events"),
    ("logs_verified", "event logs verified at the end, by `oncegate events verify`"),
    ("events_verified", "sealed events in them"),
)


def text(report: Report, folder: Path) -> str:
    """The whole output after the progress lines."""
    return "\n".join([*_figures(report), "", *_verdict(report, folder)])


def _figures(report: Report) -> Iterator[str]:
    took = f"{report.rounds} rounds in {report.seconds:.0f} s"
    yield f"{took}, {report.blocks} times calmed and checked (seed {report.seed})"
    for name, count in sorted(report.faults.items()):
        yield f"  {count:>6}  {name}"
    met = Counter({f"chunks of bytes {_DID[name]}": count for name, count in report.bytes_met.items()})
    for name, count in sorted(met.items()):
        yield f"  {count:>6}  {name}"
    for name, meaning in _MEANINGS:
        yield f"  {report.figures[name]:>6}  {meaning}"
    for prefix, words in (("because_", "unknown for this reason:"), ("problem_", "answered")):
        for name, count in sorted(report.figures.items()):
            if name.startswith(prefix):
                yield f"  {count:>6}  {words} {name.removeprefix(prefix)}"


_DID: Final = {
    "slow": "slowed",
    "late": "held past a timeout",
    "cut": "lost with their connection",
    "half": "cut in two",
}


def _verdict(report: Report, folder: Path) -> Iterator[str]:
    if not report.violations:
        yield "OK: no call was done twice, no answer was untrue, nothing stayed in flight, and the log tells the same."
        return
    yield f"VIOLATED: {len(report.violations)}, seed {report.seed}; logs, databases and faults.log: {folder}"
    for violation in report.violations[:_MOST_SHOWN]:
        yield f"  {violation.rule}: {violation.intent}: {violation.detail}"
    if len(report.violations) > _MOST_SHOWN:
        yield f"  ... and {len(report.violations) - _MOST_SHOWN} more"
    yield ""
    yield from report.stories
