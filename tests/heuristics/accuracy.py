"""How often the heuristics are right on labelled names, by company: `python tests/heuristics/accuracy.py FILE`.

FILE is a CSV with the columns name, effect (`write` or `read`) and repo; every repo counts as one company.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from heuristics import Heuristic, classify, shared_prefix

ROWS_FOR_A_MEAN = 10


@dataclass
class Score:
    """Counts of one company or of all: mutating tools found and missed, reads passed and wrongly protected."""

    writes: int = 0
    reads: int = 0
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
    result = Score()
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
    return Figures(
        recall=1 - sum(len(one.missed) for one in scores) / sum(one.writes for one in scores),
        false_positives=sum(len(one.wrongly_protected) for one in scores) / sum(one.reads for one in scores),
        mean_recall=_mean([one.recall for one in large]),
        mean_false_positives=_mean([one.false_positives for one in large]),
        by_company=by_company,
    )


def _mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan


def as_table(figures: Figures) -> str:
    lines = [f"{'company':<36}{'writes':>8}{'recall':>9}{'reads':>8}{'false +':>9}"]
    for company, one in figures.by_company.items():
        lines.append(
            f"{company:<36}{one.writes:>8}{_percent(one.recall):>9}{one.reads:>8}{_percent(one.false_positives):>9}"
        )
    lines.append(f"{'all rows':<44}{_percent(figures.recall):>9}{_percent(figures.false_positives):>17}")
    lines.append(
        f"{'mean of companies with ten rows or more':<44}{_percent(figures.mean_recall):>9}"
        f"{_percent(figures.mean_false_positives):>17}"
    )
    return "\n".join(lines)


def as_misses(figures: Figures) -> str:
    lines = []
    for company, one in figures.by_company.items():
        lines += [f"missed write  {company}  {name}" for name in one.missed]
        lines += [f"false alarm   {company}  {name}" for name in one.wrongly_protected]
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{100 * value:.2f} %"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--heuristic", choices=["words", "platform"], default="words")
    options = parser.parse_args(arguments)
    figures = measure(options.file, options.heuristic)
    print(as_table(figures))
    print(as_misses(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
