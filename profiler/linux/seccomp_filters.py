"""The seccomp filters of a target: whether there are any, and each of them.

The kernel shows them to a tracer only, while the thread is stopped, and only with CAP_SYS_ADMIN and
no filter around ourselves (PTRACE_SECCOMP_GET_FILTER, ptrace(2)). The stop lasts well under a
millisecond; a thread that waits in epoll_wait with a timeout may see one EINTR, as with the attach
itself (``eintr_restart``).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time

from . import eintr_restart, procfs
from .ptrace import (
    PTRACE_DETACH,
    PTRACE_EVENT_STOP,
    PTRACE_INTERRUPT,
    PTRACE_SECCOMP_GET_FILTER,
    PTRACE_SEIZE,
    WALL,
    ptrace,
    syscall,
)
from .seccomp import INSTRUCTION, allows
from .seccomp_calls import SOCKETS, TIMERS
from .syscalls import syscall_number
from .tasks import is_of_kernel, tasks

NOBODYS, OTHERS, MAIN = 0, 1, 2
ASKED_MAX = 64  # threads with filters of their own: each stands still for a moment
SIGEV_NONE = 1  # <signal.h>
STOP_LIMIT_S = 1.0
LOOK_INTERVAL_S = 0.0002


def whose(pid: int) -> int:
    """Which threads of a process have filters: ``enum filtered`` of agent/agent.h.

    Returns:
        ``NOBODYS``, ``OTHERS``, or ``MAIN`` if the main one has, whose filters the agent's threads
        inherit. A thread that does not let itself be looked at counts as one that has.
    """
    if _has_filter(pid, pid):
        return MAIN
    return OTHERS if any(_has_filter(pid, tid) for tid in tasks(pid)) else NOBODYS


def allow_timers(pid: int) -> bool:
    """Whether the filters of a process let all its threads make timers.

    Where they cannot be read, and are no more than we have, they are those of a container around us
    both: then what we may do tells.
    """
    counts = {}
    for tid in tasks(pid):
        try:
            counts[tid] = procfs.read_task_seccomp(pid, tid)[1]
        except procfs.GONE:
            continue
        except OSError:
            return False
    own_count = procfs.read_task_seccomp(os.getpid(), os.getpid())[1]
    # Who has as many as the main thread has the same.
    asked = {pid} | {tid for tid, count in counts.items() if count != counts.get(pid, 0)}
    asked = {tid for tid in asked if counts.get(tid, 0) and not is_of_kernel(pid, tid)}
    if len(asked) > ASKED_MAX:
        return False
    for tid in asked:
        programs = read_filters(tid, counts[tid])
        if programs is not None and not allows(programs, TIMERS):
            return False
        if programs is None and (counts[tid] > own_count or not _may_make_timers()):
            return False
    return True


def allow_sockets(pid: int) -> bool:
    """Whether the main thread's filters, which ours has too, let it connect to a socket.

    Where they cannot be read, they have to be no more than we have, who make such calls ourselves.
    """
    try:
        count = procfs.read_task_seccomp(pid, pid)[1]
    except OSError:
        return False
    programs = read_filters(pid, count) if count else []
    if programs is None:
        return count <= procfs.read_task_seccomp(os.getpid(), os.getpid())[1]
    return allows(programs, SOCKETS)


def _may_make_timers() -> bool:
    """Make one, for this process alone."""
    timer = ctypes.c_int()
    event = (ctypes.c_uint64 * 8)(0, SIGEV_NONE << 32)
    places = (ctypes.addressof(event), ctypes.addressof(timer))
    if syscall(syscall_number("timer_create"), time.CLOCK_MONOTONIC, *places) != 0:
        return False
    return syscall(syscall_number("timer_delete"), timer.value) == 0


def _has_filter(pid: int, tid: int) -> bool:
    try:
        return procfs.read_task_seccomp(pid, tid)[0] != 0
    except procfs.GONE:
        return False
    except OSError:
        return True


def read_filters(tid: int, count: int) -> list[bytes] | None:
    """The filters of a thread, each a row of struct sock_filter.

    Args:
        tid: the thread.
        count: how many it has: Seccomp_filters of its status.

    Returns:
        None when the kernel does not show them, or the thread does not stop.
    """
    found: list[list[bytes] | None] = []
    # On a thread of its own: what a tracer holds, however that came about, is released at its end.
    reader = threading.Thread(target=lambda: found.append(_read_filters(tid, count)))
    reader.start()
    reader.join()
    return found[0] if found else None


def _read_filters(tid: int, count: int) -> list[bytes] | None:
    if ptrace(PTRACE_SEIZE, tid, None, None) != 0:
        return None
    ptrace(PTRACE_INTERRUPT, tid, None, None)
    own_signal = _wait_for_stop(tid)
    if own_signal is None:
        return None
    eintr_restart.prepare(tid)
    programs = [_read_filter(tid, index) for index in range(count)]
    ptrace(PTRACE_DETACH, tid, None, own_signal)
    return programs if all(programs) else None


def _read_filter(tid: int, index: int) -> bytes:
    """Empty when the kernel does not show it."""
    instructions = int(ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, None))
    if instructions <= 0:
        return b""
    program = ctypes.create_string_buffer(instructions * INSTRUCTION.size)
    ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, ctypes.addressof(program))
    return program.raw


def _wait_for_stop(tid: int) -> int | None:
    """The signal that the thread was about to get when it stopped, 0 for none; None when it does
    not stop."""
    for _ in range(round(STOP_LIMIT_S / LOOK_INTERVAL_S)):
        with contextlib.suppress(ChildProcessError):
            # Stops only: the end of a child of ours is for others to see.
            stop = os.waitid(os.P_PID, tid, os.WSTOPPED | os.WNOHANG | WALL)
            if stop is not None:
                event, number = stop.si_status >> 8, stop.si_status & 0x7F
                return 0 if event == PTRACE_EVENT_STOP else number
        time.sleep(LOOK_INTERVAL_S)
    return None
