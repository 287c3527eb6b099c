"""The graceful stop, as the web layer sees it: readiness turns first, calls are served to the end."""

from __future__ import annotations


class Stopping:
    """Says whether this process is on its way out. New calls are still served until the server stops accepting."""

    def __init__(self) -> None:
        self._begun = False

    @property
    def begun(self) -> bool:
        return self._begun

    def begin(self) -> None:
        """From now on `/readyz` answers 503 `stopping`, so that balancers send no more. Cannot be undone."""
        self._begun = True
