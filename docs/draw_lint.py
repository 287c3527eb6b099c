"""Writes docs/lint/ (a page per rule and their list) and the list in README.md from `heuristics.rules`.

Run it after a change there:

.venv/bin/python docs/draw_lint.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heuristics.reports.explained import language_of
from heuristics.rules import RULES, Rule

FOLDER = Path(__file__).with_name("lint")
README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- lint rules: written by docs/draw_lint.py -->\n", "<!-- /lint rules -->\n"
GROUPS = {"OG0": "Waivers", "OG1": "Protection", "OG2": "Names", "OG3": "Schemas"}

LIST_HEAD = """\
<!-- Written by docs/draw_lint.py from heuristics/rules; edit that. -->

# Lint rules

`oncegate lint` looks at tools as they are declared, before they ship: [what it reads](formats.md). A registration runs
the same rules ([promise 3.5](../semantics.md); other numbers in brackets are promises too). Errors and warnings fail a
run (exit status 1) and, where a company says `on_finding = "refuse"`, a registration; notes fail nothing. A page says
what a rule finds, why that is bad, an example, and what to write instead; so does `oncegate lint --explain OG101`.

A rule's code stays what it is. `--select OG1 --ignore OG102` choose by beginnings of codes, the longer one wins.

## Waivers, settings, baseline

A finding that may stand is waived where it is, with a reason. In JSON and YAML, as a member of the tool's object:

```json
"x-oncegate-lint": {"ignore": ["OG101"], "reason": "The name is in the shop's contract."}
```

In TOML, YAML and Python by a comment on the tool's lines, or directly above it:

```toml
[tools.finalise_basket]  # oncegate: ignore[OG101] The name is in the shop's contract.
```

Settings stand in `pyproject.toml`, or in an `oncegate.toml` as `[lint]`; the nearest one upwards counts:

```toml
[tool.oncegate.lint]
select = ["OG"]
ignore = ["OG110"]
heuristic = "words"                       # what will judge these tools: "words" or "platform"; left out: not known
providers = ["openai", "anthropic"]       # whose limits on names count
overrides = { "sync_*" = true }           # what is side-effecting, as a company's overrides (3.3)
baseline = "lint-baseline.json"           # has to be there: oncegate lint --write-baseline lint-baseline.json PATH…

[tool.oncegate.lint.per-file-ignores]
"legacy/*.json" = ["OG3"]
```

`--write-baseline FILE` notes all present findings, so that old tools do not block new ones; they are counted by file,
tool and code, so a tool may move.

## In an editor, pre-commit and CI

`--format text` is one line a finding, `file:line:column: severity code`, which editors understand. `github` gives
annotations, `sarif` (2.1.0) feeds code scanning, as in
[examples/github-actions-lint.yml](../../examples/github-actions-lint.yml). For pre-commit,
`.pre-commit-hooks.yaml` offers the hook `oncegate-lint`.

## The rules
"""


def page(rule: Rule) -> str:
    """One rule's page."""
    language = language_of(rule.example)
    return f"""\
<!-- Written by docs/draw_lint.py from heuristics/rules; edit that. -->

# {rule.code} {rule.name}

Severity: {rule.severity}.

## What

{rule.what}

## Why it is bad

{rule.why}

## Example

```{language}
{rule.example.rstrip()}
```

## Instead

```{language_of(rule.instead)}
{rule.instead.rstrip()}
```
"""


def rule_list() -> str:
    """The page that lists the rules."""
    lines = [LIST_HEAD]
    for beginning, title in GROUPS.items():
        lines += [f"### {title}", "", "| code | rule | severity | finds |", "|---|---|---|---|"]
        lines += [
            f"| [{rule.code}]({rule.page}) | {rule.name} | {rule.severity} | {_first_sentence(rule.what)} |"
            for rule in RULES
            if rule.code.startswith(beginning)
        ]
        lines.append("")
    return "\n".join(lines)


def readme(text: str) -> str:
    """README.md with the rules between its marks. Raises ValueError where a mark is missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks for the list")
    return f"{before}{begin}{_short_list()}{end}{after}"


def _short_list() -> str:
    rows = [
        f"| {title.lower()} | "
        + ", ".join(f"[{rule.code}](docs/lint/{rule.page}) {rule.name}" for rule in _of(beginning))
        + " |"
        for beginning, title in GROUPS.items()
    ]
    return "\n".join(["| | |", "|---|---|", *rows, ""])


def _of(beginning: str) -> Iterator[Rule]:
    return (rule for rule in RULES if rule.code.startswith(beginning))


def _first_sentence(text: str) -> str:
    sentence = text.split(". ")[0].rstrip(".") + "."
    return sentence.replace("|", "\\|")


if __name__ == "__main__":
    for each in RULES:
        (FOLDER / each.page).write_text(page(each), encoding="utf-8")
    (FOLDER / "README.md").write_text(rule_list(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
