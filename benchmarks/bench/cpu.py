"""CPU time of a process, and who runs where. Linux; elsewhere nothing is pinned and ticks are coarser."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Pinning:
    """`tested`: for the code under test; `rest`: for load, redis-server and merchant. None: not pinned."""

    tested: frozenset[int] | None
    rest: frozenset[int] | None


def pinning() -> Pinning:
    """Two different CPUs where there are two and the system lets us choose."""
    if not hasattr(os, "sched_setaffinity"):
        return Pinning(None, None)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return Pinning(None, None)
    return Pinning(frozenset(cpus[:1]), frozenset(cpus[1:2]))


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process so far."""
    try:
        # Nanoseconds a thread; /proc/<pid>/stat has whole ticks, 10 ms, too coarse for a slice of half a second.
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except (OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_S


def machine_busy_s() -> tuple[float, float]:
    """Seconds all CPUs together have worked, and seconds the host took away, since the machine started."""
    fields = [int(each) * _TICK_S for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return user + nice + system + irq + softirq, steal
