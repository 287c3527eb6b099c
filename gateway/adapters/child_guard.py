"""Starts a child process that cannot outlive its parent, not even one that was killed outright.

Run as a script, by path and without site-packages:

    python -I -S child_guard.py PARENT_PID LIFELINE_FD signal|watch PROGRAM ARGUMENT...

``signal`` (Linux): ask the kernel to kill this process when its parent ends, then become PROGRAM, which
keeps that wish. Doing it here, after exec, spares the parent from running code between fork and exec.
The kernel means the parent *thread*: the child also ends when the thread that started it does, which for
asyncio is the one that runs the loop.

``watch`` (elsewhere, or where the kernel declines): stay, as PROGRAM's parent, and hold the read end of a
pipe whose only writer is the gateway. When that pipe ends, so does PROGRAM. SIGTERM is passed on.

Other inherited file descriptors, such as a lock, stay open in PROGRAM.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from types import FrameType

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 0.05  # how soon PROGRAM's own end is noticed; the end of the gateway is noticed at once


def main(argv: list[str]) -> int:
    parent, lifeline, mode, program = int(argv[0]), int(argv[1]), argv[2], argv[3:]
    os.set_inheritable(lifeline, False)
    if mode == "signal" and _dies_with_parent():
        if os.getppid() != parent:
            return 1  # it ended before the kernel knew of our wish, which therefore never comes true
        os.execv(program[0], program)  # noqa: S606
    return _watch(lifeline, program)


def _dies_with_parent() -> bool:
    try:
        import ctypes

        return sys.platform == "linux" and not ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return False


def _watch(lifeline: int, program: list[str]) -> int:
    child = subprocess.Popen(program, close_fds=False)  # noqa: S603

    def pass_on(_signal: int, _frame: FrameType | None) -> None:
        child.terminate()

    signal.signal(signal.SIGTERM, pass_on)
    while (code := child.poll()) is None:
        if select.select([lifeline], [], [], _LOOK_EVERY_S)[0]:  # nobody writes: this is the end of the pipe
            child.kill()
            code = child.wait()
            break
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
