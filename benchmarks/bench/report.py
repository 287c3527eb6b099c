"""The figures of a bench, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.bench.run import Bench
from benchmarks.bench.subjects import ASKED, CONCURRENT, HOT, NEW, REPLAY


@dataclass(frozen=True, slots=True)
class Bar:
    """What a subject's CPU may be at most, in plain-proxy calls."""

    subject: str
    at_most: float


BARS: Final = (Bar(NEW, 1.3), Bar(ASKED, 0.5), Bar(REPLAY, 0.5), Bar(HOT, 0.5))


@dataclass(frozen=True, slots=True)
class Judged:
    """A bar at one concurrency: what was measured, and whether it holds."""

    subject: str
    concurrent: int
    at_most: float
    ratio: float
    holds: bool


def judge(bench: Bench) -> list[Judged]:
    """Every bar at every concurrency."""
    judged = []
    for bar in BARS:
        for concurrent in CONCURRENT:
            ratio = bench.result(bar.subject, concurrent).ratio
            judged.append(Judged(bar.subject, concurrent, bar.at_most, ratio, ratio <= bar.at_most))
    return judged


def text(bench: Bench) -> str:
    return "\n".join([*_table(bench), "", *_bars(bench), "", *_circumstances(bench)])


def markdown(bench: Bench) -> str:
    """The table as docs/performance.md has it."""
    titles = ("", "at once", "CPU µs a call", "of it later", "to the proxy", "calls/s", "p50 ms", "Redis CPU µs a call")
    head = f"| {' | '.join(titles)} |\n|---{'|--:' * (len(titles) - 1)}|"
    rows = [
        f"| {each.subject} | {each.concurrent} | {each.cpu_us:.0f} ± {each.spread:.0%} | {each.later_us:.0f} "
        f"| {each.ratio:.2f} | {each.per_s:,.0f} | {each.p50_ms:.2f} | {each.redis_us:.0f} |"
        for each in bench.results
    ]
    made_on = ", ".join(f"{name} {value}" for name, value in bench.machine.items())
    return "\n".join([head, *rows, "", f"Made on: {made_on}."])


def document(bench: Bench) -> dict[str, Any]:
    """The same as JSON: machine, settings, results, bars."""
    return {
        "machine": bench.machine,
        "settings": bench.settings,
        "results": [_rounded(asdict(each)) for each in bench.results],
        "bars": [_rounded(asdict(each)) for each in judge(bench)],
    }


def _table(bench: Bench) -> Iterator[str]:
    heads = f"{'CPU us':>9}{'+-':>6}{'later':>7}{'ratio':>7}{'calls/s':>9}{'p50 ms':>8}{'redis us':>10}"
    yield f"{'':<34}{'at once':>8}{heads}"
    for each in bench.results:
        yield (
            f"{each.subject:<34}{each.concurrent:>8}{each.cpu_us:>9.0f}{each.spread:>6.0%}{each.later_us:>7.0f}{each.ratio:>7.2f}"
            f"{each.per_s:>9.0f}{each.p50_ms:>8.2f}{each.redis_us:>10.0f}"
        )


def _bars(bench: Bench) -> Iterator[str]:
    for bar in judge(bench):
        yield (
            f"{'holds' if bar.holds else 'FAILS':<7}{bar.subject}, {bar.concurrent} at once: "
            f"{bar.ratio:.2f} times the plain proxy's CPU, at most {bar.at_most}"
        )


def _circumstances(bench: Bench) -> Iterator[str]:
    yield "CPU us: CPU time of the process under test, per call (of the merchant itself in the first row);"
    yield "later: how much of it comes seconds after the answer, when the call's events are sealed."
    yield ", ".join(f"{name} {value}" for name, value in bench.machine.items())
    yield ", ".join(f"{name} {value}" for name, value in bench.settings.items())


def _rounded(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}
