"""Has a thread that was stopped in the middle of fork finish it first.

A fork that is interrupted begins anew when the thread goes on (it never returns EINTR), or ends
first: a program that forks a lot is mostly stopped in one. glibc holds the locks of malloc and
stdio then, and threads that need them wait for a thread that stands still; and it must not go on
with that fork while others hold locks. Only on the thread that traces. ptrace(2), fork(2),
<asm/unistd_64.h>.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time

from flametap import ptrace

RAX, RDI, ORIG_RAX = 10, 14, 15  # words of struct user_regs_struct
CLONE, FORK, FUTEX = 56, 57, 202
CLONE_VM = 0x100  # threads and vfork: <linux/sched.h>
ENOSYS = 38  # what rax holds when a system call begins
SYSCALL_STOP = 0x85  # SIGTRAP with the bit of PTRACE_O_TRACESYSGOOD
# How many stops at most; each takes 0.1 ms.
ROUNDS = 300
# How long the fork may take: a process of many GB needs a second.
FORK_LIMIT_S = 5.0
# What is left to do then until the next system call takes microseconds. One that makes no call in
# this time computes, and is out of fork.
RUN_LIMIT_S = 0.005
LOOK_INTERVAL_S = 0.0001


def finish(tid: int, number: int, options: int = 0) -> int | None:
    """Brings a thread that we trace, and have interrupted, to a stop outside of fork.

    Args:
        tid: the thread; it has stopped.
        number: the signal it has stopped with and gets now, or 0.
        options: what it is traced with (PTRACE_O_).

    Returns:
        the signal that it stands before and must be given when it goes on: 0, but for a thread that
        gets one after another. None if it has not stopped.
    """
    if number == 0 and not _is_in_fork(tid):
        return 0
    with_stops = options | ptrace.PTRACE_O_TRACESYSGOOD
    ptrace.ptrace(ptrace.PTRACE_SETOPTIONS, tid, None, with_stops)
    stop: int | None = number
    for _ in range(ROUNDS):
        limit_s = FORK_LIMIT_S if _is_in_fork(tid, is_beginning=True) else RUN_LIMIT_S
        ptrace.ptrace(ptrace.PTRACE_SYSCALL, tid, None, stop)
        stop = _next_stop(tid, limit_s)
        if stop is None:
            break
        if stop == SYSCALL_STOP:
            stop = 0
            call, result, _ = _registers(tid)
            if result == -ENOSYS and call != FUTEX and not _is_in_fork(tid):
                break
    ptrace.ptrace(ptrace.PTRACE_SETOPTIONS, tid, None, options)
    ptrace.ptrace(ptrace.PTRACE_INTERRUPT, tid, None, None)
    for _ in range(ROUNDS):
        if stop is not None:
            ptrace.ptrace(ptrace.PTRACE_CONT, tid, None, stop)
        stop = _next_stop(tid, FORK_LIMIT_S)
        if not stop:
            break
    return stop


def _registers(tid: int) -> tuple[int, int, int]:
    """Number, result and first argument of the system call that a thread begins or comes back from;
    (-1, 0, 0) if there is none."""
    registers = ptrace.saved(tid, ptrace.NT_PRSTATUS, ptrace.REGISTERS_BYTES)
    if registers is None:
        return -1, 0, 0
    words = struct.unpack(f"<{ptrace.REGISTERS_BYTES // 8}q", registers.raw)
    return words[ORIG_RAX], words[RAX], words[RDI]


def _is_in_fork(tid: int, *, is_beginning: bool = False) -> bool:
    call, result, flags = _registers(tid)
    if is_beginning and result != -ENOSYS:
        return False
    return call == FORK or (call == CLONE and not flags & CLONE_VM)


def _next_stop(tid: int, limit_s: float) -> int | None:
    """Waits for it; returns the signal it stops with, 0 if without one, None for no stop."""
    status = ctypes.c_int()
    for _ in range(round(limit_s / LOOK_INTERVAL_S)):
        found = ptrace.waitpid(tid, ctypes.addressof(status), os.WNOHANG | ptrace.WALL)
        if found:
            if found != tid or not os.WIFSTOPPED(status.value):
                return None
            is_event = status.value >> 16 == ptrace.PTRACE_EVENT_STOP
            return 0 if is_event else os.WSTOPSIG(status.value)
        time.sleep(LOOK_INTERVAL_S)
    return None
