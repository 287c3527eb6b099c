"""The graceful stop, as the web layer sees it: readiness turns first, calls are served to the end."""

from __future__ import annotations

import time
from collections.abc import Callable


class Stopping:
    """Says whether this process is on its way out. New calls are still served until the server stops accepting."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._begun_at: float | None = None

    @property
    def begun(self) -> bool:
        return self._begun_at is not None

    def begin(self) -> None:
        """From now on `/readyz` answers 503 `stopping`, so that balancers send no more. Cannot be undone."""
        if self._begun_at is None:
            self._begun_at = self._monotonic()

    def left_s(self, grace_s: float) -> float:
        """Seconds of the grace that are left; all of it before the stop has begun."""
        return grace_s if self._begun_at is None else max(0.0, self._begun_at + grace_s - self._monotonic())
