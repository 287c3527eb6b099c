"""A hint in the log when a runtime's ids look as if they start again each turn (promise 2.3)."""

from __future__ import annotations

import logging
import re
from typing import Final

_log = logging.getLogger("oncegate.calls")

_COUNTED: Final = re.compile(r"[:_-]\d{1,2}$")
MOST_COMPANIES: Final = 1_000


class IdHints:
    """Says it once a company: such an id, replayed with no turn stated, may have meant a new call."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def replayed(self, company: str, tool_call_id: str | None, turn: str | None) -> None:
        if turn is not None or tool_call_id is None or company in self._told or not _COUNTED.search(tool_call_id):
            return
        if len(self._told) < MOST_COMPANIES:
            self._told.add(company)
            _log.warning(
                "tool_call_ids look as if they start again each turn; state turn and step, or set call_id_scope, "
                "or a new call may be taken for a repeat",
                extra={"company": company[:64], "such_as": tool_call_id[-24:]},
            )
