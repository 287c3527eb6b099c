"""Writes the table of settings in docs/operations.md from `gateway.settings.FIELDS`: run it after a change there.

.venv/bin/python docs/draw_settings.py
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic.fields import FieldInfo

from gateway.settings import FIELDS

PAGE = Path(__file__).with_name("operations.md")
BEGIN, END = "<!-- settings: written by docs/draw_settings.py -->\n", "<!-- /settings -->\n"


def table() -> str:
    """Every setting that can be set, in the order of the code, with its default and what is accepted."""
    rows = [f"| `{path}` | `{_default(info)}` | {_cell(info.description or '')} |" for path, info in FIELDS.items()]
    return "\n".join(["| setting | default | accepted |", "|---|---|---|", *rows, ""])


def drawn(page: str) -> str:
    """The page with the table between its marks. Raises ValueError where a mark is missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks for the table")
    return f"{before}{begin}{table()}{end}{after}"


def _default(info: FieldInfo) -> str:
    """As it is written in a file."""
    value = info.get_default(call_default_factory=True)
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
