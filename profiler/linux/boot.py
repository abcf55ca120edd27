"""Tell machines apart, and starts of one."""

from __future__ import annotations

from pathlib import Path


def boot_id() -> str:
    """Return what is different for each start of each machine; "" if it cannot be read.

    All processes of one start have one CLOCK_MONOTONIC (proc_sys_kernel(5)).
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
