"""CPU time and memory of another process."""

from __future__ import annotations

import os
import time
from pathlib import Path


def cpu_ns(pid: int) -> int:
    """Return the CPU time of a process with its ended threads, in nanoseconds; 0 if it has ended.

    Source: the clock id of another process's CPU clock, clock_getcpuclockid(3).
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)
    except OSError:
        return 0


def status_kb(pid: int, field: str) -> int:
    """Return a field of /proc/PID/status in kB, as VmRSS or VmHWM; 0 if the process has ended."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def load_average() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]
