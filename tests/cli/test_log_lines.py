"""Log lines: one short line each, with what the record carries behind the message."""

from __future__ import annotations

import logging

import pytest

from gateway.commands.log_lines import LONGEST, LogLines


def line(name="oncegate.calls", message="outcome not recorded yet", **extra):
    return LogLines().format(logging.makeLogRecord({"name": name, "levelname": "WARNING", "msg": message, **extra}))


@pytest.mark.parametrize(
    ("extra", "shown"),
    [
        ({"effect_id": "ab12", "http_status": 500}, " effect_id=ab12 http_status=500"),
        ({"request_id": 'a b"c'}, r' request_id="a b\"c"'),
        ({"reason": ""}, ' reason=""'),
        ({"reason": "a=b"}, ' reason="a=b"'),
        ({"reason": "one\ntwo\x1b[31m"}, r' reason="one\ntwo\u001b[31m"'),
        ({"effect_id": None}, ""),
        ({}, ""),
    ],
)
def test_what_a_record_carries_follows_its_message(extra, shown):
    """An alarm without the effect's id helps nobody; a value cannot break or colour the line."""
    found = line(**extra)
    assert found.endswith("WARNING oncegate.calls outcome not recorded yet" + shown)
    assert "\n" not in found


def test_a_long_value_is_cut():
    """One short line each."""
    assert line(reason="x" * 5_000).endswith(f" reason={'x' * LONGEST}…")


def test_what_other_libraries_hang_on_a_record_is_not_shown():
    """It is theirs, and may hold anything."""
    assert line(name="uvicorn.error", color_message="red").endswith("uvicorn.error outcome not recorded yet")


def test_records_made_in_an_asyncio_task_show_nothing_of_their_own(caplog):
    """Everything a plain record has is known."""
    with caplog.at_level("WARNING"):
        logging.getLogger("oncegate.x").warning("plain %s", "text")
    assert LogLines().format(caplog.records[0]).endswith("WARNING oncegate.x plain text")
