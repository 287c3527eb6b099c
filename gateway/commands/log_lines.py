"""Log lines: one a record, what a record carries besides its message shown as `key=value` behind it (logfmt)."""

from __future__ import annotations

import json
import logging
import re
from typing import Final

OWN: Final = frozenset({"oncegate", "gateway", "merchant_sdk"})
"""Loggers whose extra values are shown; other libraries hang anything on a record."""
LONGEST: Final = 200
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN: Final = re.compile(r'[^\s"=\\\x00-\x1f\x7f]+')


class LogLines(logging.Formatter):
    """`2026-11-29 10:00:00,120 WARNING oncegate.calls the outcome of a call is not known effect_id=… reason=…`"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the library's
        line = _CONTROL.sub("?", super().formatMessage(record))  # one record, one line, whatever a message holds
        if record.name.partition(".")[0] not in OWN:
            return line
        extra = ((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        return " ".join((line, *(f"{name}={_shown(value)}" for name, value in extra if value is not None)))


def _shown(value: object) -> str:
    text = str(value)
    text = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
