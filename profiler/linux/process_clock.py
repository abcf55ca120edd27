"""How much CPU time a process has used, and whether it has memory of its own."""

from __future__ import annotations

import contextlib
import ctypes
import time

from . import procfs, ptrace

_SYS_KCMP, _KCMP_VM = 312, 1
_SCHED = 2  # CPUCLOCK_SCHED, of the whole process: kernel/time/posix-cpu-timers.c


def cpu_ns(pid: int) -> int | None:
    """Return the CPU time of all threads of a process, nanoseconds; None if it has ended.

    It is exact, and needs no rights. clock_getcpuclockid(3)
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | _SCHED)
    except OSError:
        return None


def shares_memory(pid: int, other: int) -> bool:
    """Return whether two processes have one memory, as a child of vfork and its parent.

    Where the kernel does not compare them, whether the parent sleeps as in vfork. kcmp(2)
    """
    ctypes.set_errno(0)
    found = ptrace.syscall(_SYS_KCMP, pid, other, _KCMP_VM, 0, 0)
    return found == 0 if found >= 0 else _sleeps_in_kernel(other)


def _sleeps_in_kernel(pid: int) -> bool:
    with contextlib.suppress(*procfs.GONE):
        return any(procfs.read_task_state(pid, tid) == "D" for tid in procfs.list_tasks(pid))
    return False
