"""How often the heuristics are right on labelled names, by company: `python tests/heuristics/accuracy.py FILE`.

Both heuristics stand side by side; what `--heuristic` (default: words) got wrong is listed below with its reason.
FILE is a CSV with the columns name, effect (`write` or `read`) and repo; every repo counts as one company.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heuristics import Heuristic, classify, shared_prefix

ROWS_FOR_A_MEAN = 10


@dataclass
class Score:
    """Counts of one company or of all: mutating tools found and missed, reads passed and wrongly protected."""

    writes: int = 0
    reads: int = 0
    prefix: str = ""
    missed: list[str] = field(default_factory=list)
    wrongly_protected: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float | None:
        return 1 - len(self.missed) / self.writes if self.writes else None

    @property
    def false_positives(self) -> float | None:
        return len(self.wrongly_protected) / self.reads if self.reads else None


def read_rows(path: Path) -> dict[str, list[tuple[str, bool]]]:
    """Company -> its (name, mutating) rows. Raises ValueError for a label other than write and read."""
    companies: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["effect"] not in ("write", "read"):
                raise ValueError(f"{path}: effect must be write or read, not {row['effect']!r}")
            companies[row["repo"]].append((row["name"], row["effect"] == "write"))
    return companies


def score(rows: list[tuple[str, bool]], heuristic: Heuristic = "words") -> Score:
    prefix = shared_prefix(name for name, _ in rows)
    result = Score(prefix=prefix)
    for name, mutating in rows:
        protected = classify(name, heuristic=heuristic, prefix=prefix).side_effecting
        if mutating:
            result.writes += 1
            if not protected:
                result.missed.append(name)
        else:
            result.reads += 1
            if protected:
                result.wrongly_protected.append(name)
    return result


@dataclass(frozen=True)
class Figures:
    """The four figures that are held to a bound, and the scores they come from."""

    recall: float
    false_positives: float
    mean_recall: float
    mean_false_positives: float
    by_company: dict[str, Score]


def measure(path: Path, heuristic: Heuristic = "words") -> Figures:
    by_company = {company: score(rows, heuristic) for company, rows in sorted(read_rows(path).items())}
    scores = by_company.values()
    large = [one for one in scores if one.writes + one.reads >= ROWS_FOR_A_MEAN]
    writes, reads = sum(one.writes for one in scores), sum(one.reads for one in scores)
    return Figures(
        recall=1 - sum(len(one.missed) for one in scores) / writes if writes else math.nan,
        false_positives=sum(len(one.wrongly_protected) for one in scores) / reads if reads else math.nan,
        mean_recall=_mean([one.recall for one in large]),
        mean_false_positives=_mean([one.false_positives for one in large]),
        by_company=by_company,
    )


def _mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan


def as_table(words: Figures, platform: Figures) -> str:
    """One line a company and two for all; the columns of `platform` say what the rule of 3.1 would have done."""
    head = f"{'':<36}{'':>8}{'-- words --':>20}{'':>8}{'-- platform --':>20}"
    lines = [
        head,
        f"{'company':<36}{'writes':>8}{'recall':>10}{'false +':>10}{'reads':>8}{'recall':>10}{'false +':>10}",
    ]
    for company, one in words.by_company.items():
        other = platform.by_company[company]
        lines.append(
            f"{company:<36}{one.writes:>8}{_percent(one.recall):>10}{_percent(one.false_positives):>10}"
            f"{one.reads:>8}{_percent(other.recall):>10}{_percent(other.false_positives):>10}"
        )
    for title, of in (
        ("all rows", lambda f: (f.recall, f.false_positives)),
        ("mean of companies with ten rows or more", lambda f: (f.mean_recall, f.mean_false_positives)),
    ):
        (recall, wrong), (other_recall, other_wrong) = of(words), of(platform)
        lines.append(
            f"{title:<44}{_percent(recall):>10}{_percent(wrong):>10}{'':>8}"
            f"{_percent(other_recall):>10}{_percent(other_wrong):>10}"
        )
    return "\n".join(lines)


def as_misses(figures: Figures, heuristic: Heuristic = "words") -> str:
    lines = []
    for company, one in figures.by_company.items():
        prefix = one.prefix
        for kind, names in (("missed write", one.missed), ("false alarm", one.wrongly_protected)):
            for name in names:
                reason = classify(name, heuristic=heuristic, prefix=prefix).reason
                lines.append(f"{kind:<13} {company:<34} {name:<52} {reason}")
    return "\n".join(lines)


def as_json(figures: Figures) -> dict[str, Any]:
    return {
        "recall": _or_none(figures.recall),
        "false_positives": _or_none(figures.false_positives),
        "mean_recall": _or_none(figures.mean_recall),
        "mean_false_positives": _or_none(figures.mean_false_positives),
        "companies": {
            company: {
                "writes": one.writes,
                "recall": one.recall,
                "reads": one.reads,
                "false_positives": one.false_positives,
                "missed": one.missed,
                "wrongly_protected": one.wrongly_protected,
            }
            for company, one in figures.by_company.items()
        },
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _percent(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{100 * value:.2f} %"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--heuristic", choices=["words", "platform"], default="words", help="whose misses are listed")
    parser.add_argument("--json", action="store_true", help="one JSON object with both heuristics and their misses")
    options = parser.parse_args(arguments)
    try:
        both = {heuristic: measure(options.file, heuristic) for heuristic in ("words", "platform")}
    except (OSError, ValueError, KeyError) as error:
        print(
            f"accuracy: cannot use {options.file}: {error!r}; it needs the columns name, effect, repo", file=sys.stderr
        )
        return 2
    if options.json:
        print(json.dumps({heuristic: as_json(figures) for heuristic, figures in both.items()}, indent=2))
        return 0
    print(as_table(both["words"], both["platform"]))
    print(f"\nwhat {options.heuristic} got wrong:")
    print(as_misses(both[options.heuristic], options.heuristic))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
