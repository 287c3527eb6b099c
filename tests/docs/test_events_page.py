"""docs/events.md shows the closed taxonomy as the code has it (7.6)."""

from __future__ import annotations

from pathlib import Path

from gateway.core.event_types import table

PAGE = Path(__file__).parents[2] / "docs" / "events.md"


def test_p7_6_the_page_has_the_table_of_types() -> None:
    """Replace the table by what `gateway.core.event_types.table()` gives."""
    assert table() in PAGE.read_text(encoding="utf-8")
