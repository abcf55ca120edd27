"""What a process uses: CPU time and memory, from outside."""

from __future__ import annotations

import os
import time
from pathlib import Path


def cpu_ns(pid: int) -> int:
    """CPU time of a process, ended threads included, in nanoseconds; 0 if it is gone.

    Source: the clock id of another process's CPU clock, clock_getcpuclockid(3).
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)
    except OSError:
        return 0


def status_kb(pid: int, field: str) -> int:
    """A field of /proc/PID/status that is in kB, as VmRSS or VmHWM; 0 if the process is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def load_average() -> float:
    """The load of the last minute."""
    return os.getloadavg()[0]
