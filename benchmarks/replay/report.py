"""A replay's figures and failures, for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from benchmarks.replay.checks import Failure
from benchmarks.replay.expected import Expected, Fate
from benchmarks.replay.run import Report, counts

_MOST_SHOWN: Final = 8


def text(report: Report, source: str) -> str:
    """The whole output, without the closing verdict's exit code."""
    return "\n".join([*_tools(report), "", *_figures(report, source), "", *_verdict(report)])


def _tools(report: Report) -> Iterator[str]:
    used = Counter(each.call.tool for each in report.expected)
    width = max(len(verdict.tool) for verdict in report.verdicts)
    yield "Tools, judged by name (nothing declared):"
    for verdict in sorted(report.verdicts, key=lambda each: (not each.side_effecting, each.tool)):
        kind = "side-effecting" if verdict.side_effecting else "read-only"
        yield f"  {kind:<14}  {verdict.tool:<{width}}  {used[verdict.tool]:>4} calls  {verdict.reason}"


def _figures(report: Report, source: str) -> Iterator[str]:
    n = counts(report)
    yield f"{source}: {n['calls']} calls in {n['conversations']} conversations, {report.seconds:.0f} s"
    yield from _table(
        [
            ("calls", n["calls"], f"{n['writes']} writes, {n['read_only_calls']} reads"),
            (
                "requests",
                n["requests"],
                f"each call came at once again, again after a dropped reply ({n['replies_dropped']}), "
                "and again after a restart",
            ),
            (
                "sends",
                n["sends_of_writes"],
                f"writes that reached the shop; reads, sent each time: {n['sends_of_reads']}",
            ),
            ("replays", n["replays"], "answered from the ledger, nothing sent"),
            (
                "holds",
                n["holds"],
                "identical writes after one that succeeded in the same turn, or under its id: blocked, first shown",
            ),
            (
                "refusals",
                n["writes_refused_by_the_shop"],
                f"writes the shop refused, as recorded; refused by the gateway: {n['refused_by_the_gateway']}",
            ),
            (
                "repeats in a turn",
                n["writes_repeated_within_their_turn"],
                "identical writes under new ids within one turn; after a refusal they run",
            ),
            ("recycled ids", n["recycled_ids"], "an id that another call of its conversation had before"),
            ("restarts", n["restarts"], ", ".join(f"{count} {how}" for how, count in report.restarts.items())),
            (
                "long turns",
                n["turns_longer_than_six_steps"],
                f"of {n['turns']} turns, with {n['calls_beyond_the_sixth_step']} calls beyond the sixth step "
                "(max_steps is off for this run)",
            ),
            (
                "later repeats",
                n["writes_a_60_s_window_could_have_held"],
                "writes identical to one that succeeded in another turn (repeat_window_s is 0 for this run: the "
                "recorded turns were minutes apart, here they are milliseconds apart)",
            ),
        ]
    )
    yield from _held(report.expected)


def _held(expected: Iterable[Expected]) -> Iterator[str]:
    for each in expected:
        if each.fate is Fate.HELD and each.first is not None:
            yield f"  held, as it should be: {each.call.name}, after {each.first.tool_call_id}"


def _table(rows: list[tuple[str, int, str]]) -> Iterator[str]:
    for name, count, meaning in rows:
        yield f"  {name:<18}{count:>6}  {meaning}"


def _verdict(report: Report) -> Iterator[str]:
    if not report.failures:
        yield "OK: every write reached the shop exactly once (holds aside), every answer is the recorded one,"
        yield "    and no recycled id was refused or answered with another call's result."
        return
    by_rule: dict[str, list[Failure]] = defaultdict(list)
    for failure in report.failures:
        by_rule[failure.rule].append(failure)
    yield f"FAILED: {len(report.failures)}"
    for rule, failures in by_rule.items():
        yield f"  {rule}: {len(failures)}"
        for failure in failures[:_MOST_SHOWN]:
            yield f"    {failure.name}: {failure.detail}"
        if len(failures) > _MOST_SHOWN:
            yield f"    ... and {len(failures) - _MOST_SHOWN} more"
