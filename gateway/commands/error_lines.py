"""Lines to standard error that nobody ever waits for: a log that cannot be written costs lines, never a call.

Written where a call runs, a full disk would raise in the middle of it, and a pipe that nobody reads would stop the
whole process once it is full. So a thread of its own writes, and what it cannot keep up with is counted and dropped.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from typing import Final

MOST_WAITING: Final = 10_000
"""Lines that wait to be written; past it they are lost."""
LONGEST: Final = 16_384
"""Bytes of one line; the rest is cut off, so that what waits has a bound."""
LAST_WORDS_S: Final = 1.0
"""How long an end waits for what is not written yet."""


class ErrorLines(logging.Handler):
    """A log handler, and what else the command says. Start it once; `close` writes what is left, for a second."""

    def __init__(self, descriptor: int = 2) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._lost = 0
        self._cut = False
        self._writer = threading.Thread(target=self._write_all, name="error-lines", daemon=True)
        self._writer.start()

    def say(self, line: str) -> None:
        """One line, now or a moment later; lost where too many wait already."""
        try:
            self._waiting.put_nowait(line.encode("utf-8", "backslashreplace")[:LONGEST])
        except queue.Full:
            self._lost += 1

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception as fault:
            line = f"a log line of {record.name} could not be made: {type(fault).__name__}"
        self.say(line)

    def close(self) -> None:
        if self._writer.is_alive():
            try:
                self._waiting.put(None, timeout=LAST_WORDS_S)
            except queue.Full:
                return super().close()
            self._writer.join(LAST_WORDS_S)
        return super().close()

    def _write_all(self) -> None:
        while (line := self._waiting.get()) is not None:
            self._tell_lost()
            if not self._write(line):
                self._lost += 1
        self._tell_lost()

    def _tell_lost(self) -> None:
        lost = self._lost
        if lost and self._write(b"oncegate: %d lines of the log could not be written" % lost):
            self._lost -= lost

    def _write(self, line: bytes) -> bool:
        left = (b"\n" if self._cut else b"") + line + b"\n"
        try:
            while left:
                written = os.write(self._descriptor, left)
                self._cut, left = written < len(left), left[written:]
        except OSError:
            return False
        return True
