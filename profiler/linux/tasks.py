"""The threads of a process, and what system call each waits in. proc(5), ``task``, ``syscall``.

Some belong to the kernel: those that io_uring(7) and vhost have started for the process. They are
listed like others, but run no code of the program's. They must not be traced: one that is made to
run a system call never comes back, and a signal that is let in ends it, and with it the program's
input and output.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from . import procfs

# The latter are PF_IO_WORKER and PF_USER_WORKER (since 6.4) of <linux/sched.h>. Threads that work
# for a process are listed with it since 5.12; before, the second bit meant something else.
OF_KERNEL = procfs.PF_KTHREAD | 0x10 | 0x4000
WORKERS_SINCE = (5, 12)


@dataclass(frozen=True)
class Call:
    """What a thread that does not run waits in."""

    number: int = -1  # see ``syscalls``; -1: in no system call, for a page or a CPU
    arguments: tuple[int, ...] = ()  # six, none with number -1
    sp: int = 0  # runtime_addr
    pc: int = 0  # runtime_addr


def tasks(pid: int) -> frozenset[int]:
    """The threads of a process; none when it is gone.

    Raises:
        OSError: nobody can tell.
    """
    try:
        return frozenset(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return frozenset()


def read_call(pid: int, tid: int, proc: str = "/proc") -> Call | None:
    """What a thread waits in, None while it runs.

    Raises:
        OSError: it is gone, or we may not know.
    """
    with open(f"{proc}/{pid}/task/{tid}/syscall") as file:
        fields = file.read().split()
    if len(fields) < 3:  # "running"
        return None
    number, *arguments, sp, pc = (int(field, 0) for field in fields)
    return Call(number, tuple(arguments), sp, pc)


def cpu_ns(pid: int, tid: int) -> int:
    """Return the CPU time that a thread has used; 0 if nobody can tell."""
    try:
        return procfs.read_task_cpu_ns(pid, tid)
    except (OSError, ValueError, IndexError):
        return 0


def system_call(pid: int, tid: int) -> Call:
    """The same; one with number -1, too, when it runs or is gone."""
    try:
        return read_call(pid, tid) or Call()
    except OSError:
        return Call()


def status_fields(pid: int, tid: int, proc: str = "/proc") -> dict[bytes, bytes]:
    """Return a thread's status: field → text without blanks; empty if it has gone. proc(5)."""
    try:
        with open(f"{proc}/{pid}/task/{tid}/status", "rb") as file:
            pairs = (line.partition(b":") for line in file)
            return {name: value.strip() for name, _, value in pairs}
    except OSError:
        return {}


def rest_mark(pid: int, tid: int, proc: str = "/proc") -> tuple[int, int] | None:
    """Return how often a sleeping thread was switched; None while it runs, or if it has gone.

    The same mark twice: the thread has not run in between. proc(5), ``status``.
    """
    fields = status_fields(pid, tid, proc)
    if fields.get(b"State", b"")[:1] not in (b"S", b"D", b"T", b"t"):
        return None
    try:
        own, forced = fields[b"voluntary_ctxt_switches"], fields[b"nonvoluntary_ctxt_switches"]
        return int(own), int(forced)
    except (KeyError, ValueError):
        return None


def asleep_s(pid: int, tid: int) -> float | None:
    """Return how long a sleeping thread has not run, at least; None if the kernel does not say so.

    Both times are of the scheduler's clock of one CPU, which leaves out what a hypervisor took:
    when the thread was taken off that CPU, and when we were seen there, some milliseconds ago.
    kernel/sched/debug.c, ``proc_sched_show_task``
    """
    since_ms = _last_ran_ms(f"/proc/{pid}/task/{tid}/sched")
    if since_ms is None:
        return None
    cpus = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {procfs.read_task_cpu(pid, tid)})
        now_ms = _last_ran_ms("/proc/thread-self/sched")
    except (OSError, ValueError, IndexError):
        return None
    finally:
        os.sched_setaffinity(0, cpus)
    return None if now_ms is None else max(0.0, (now_ms - since_ms) / 1000)


def _last_ran_ms(path: str) -> float | None:
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.startswith(b"se.exec_start"):
                    return float(line.rpartition(b":")[2])
    except (OSError, ValueError):
        pass
    return None


def is_of_kernel(pid: int, tid: int, proc: str = "/proc") -> bool:
    """Whether a thread is one of the kernel's; False if it has gone. proc(5), ``stat``, flags."""
    try:
        flags = procfs.read_task_flags(pid, tid, proc)
    except (OSError, ValueError, IndexError):
        return False
    return bool(flags & OF_KERNEL) and _kernel_version() >= WORKERS_SINCE


def _kernel_version() -> tuple[int, ...]:
    """Its first two numbers. uname(2)."""
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))


def own_tids(pid: int, proc: str = "/proc") -> dict[int, int]:
    """Map the threads of a process, as it sees them itself, to their numbers here.

    They differ in a pid namespace. proc(5), ``NSpid``.
    """
    found: dict[int, int] = {}
    for tid in tasks(pid):
        try:
            with open(f"{proc}/{pid}/task/{tid}/status", "rb") as file:
                text = file.read()
        except OSError:
            continue
        own = next((x for x in text.splitlines() if x.startswith(b"NSpid:")), b"").split()
        found[int(own[-1]) if len(own) > 1 else tid] = tid
    return found
