"""What was sent to the merchant and what was seen of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

SHOWN: Final = 240
"""Characters of an answer in a report."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(slots=True)
class Exchange:
    """One request and its end. Times in seconds since its fault began; `how` is how it ended without an answer."""

    what: str
    key: str
    sent_s: float
    ended_s: float = 0.0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    how: str = "under way"

    @property
    def said(self) -> str:
        """The answer in a line of printable text."""
        if self.status is None:
            return self.how
        said = f"{self.status} {_shown(self.body.decode('utf-8', 'replace'))}".rstrip()
        target = self.headers.get("location", "")
        if self.status in REDIRECTS and target:
            said += f" (a redirect, which no gateway follows; if {_shown(target)} takes calls, give and register that)"
        return said

    @property
    def unreached(self) -> str:
        """Why there was no connection, and what to do; empty if there was one."""
        if not self.how.startswith("no connection"):
            return ""
        return self.how if self.how.startswith("no connection, since") else f"{self.how}; start the shop first"

    @property
    def done(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def json(self) -> Any:
        """The answer as JSON, or its text where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return self.body.decode("utf-8", "replace")


def _shown(text: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in text[: SHOWN + 1])
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
