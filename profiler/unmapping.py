"""Has a process unmap a piece of its memory: as its tracer, by one system call of its main thread.

The thread is stopped wherever it is, executes one ``syscall`` instruction of the vDSO, and goes on
as if nothing had been: it needs no stack for that, and calls no function. Like each stop by a
tracer this costs an EINTR where the kernel does not go on by itself (``rewait``).

ptrace(2), PTRACE_SEIZE; vdso(7); System V ABI AMD64 A.2.1; <sys/user.h>; <asm/unistd_64.h>.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import threading
import time

from flametap import ptrace, rewait
from flametap.ptrace import (
    NT_PRSTATUS,
    PTRACE_DETACH,
    PTRACE_EVENT_STOP,
    PTRACE_GETREGSET,
    PTRACE_INTERRUPT,
    PTRACE_SEIZE,
    PTRACE_SETREGSET,
    PTRACE_SINGLESTEP,
)

# struct user_regs_struct
REGISTERS = 27
RAX, RSI, RDI, ORIG_RAX, RIP = 10, 13, 14, 15, 16
SYSCALL = b"\x0f\x05"
SYS_MUNMAP = 11
EVERY_SIGNAL = (1 << 64) - 1
NO_CALL = (1 << 64) - 1  # in orig_rax: the thread is in no system call that could go on
# A thread that has not stopped by then sleeps uninterruptibly, or is frozen.
STOP_LIMIT_S = 3.0
LOOK_INTERVAL_S = 0.0005


def unmap(pid: int, start: int, size_bytes: int) -> bool:
    """Unmaps memory of a process that nobody uses any more; returns whether it has.

    Nothing has happened when another tracer is there, a signal comes in that very moment, or the
    main thread has ended, is stopped or does not stop: it may be tried again.
    """
    done: list[bool] = []
    # The kernel lets go whatever a thread traces when that thread ends.
    tracer = threading.Thread(
        target=lambda: done.append(_unmap(pid, start, size_bytes)), name="flametap-unmap"
    )
    tracer.start()
    tracer.join()
    return done == [True]


def _unmap(pid: int, start: int, size_bytes: int) -> bool:
    call = _find_syscall(pid)
    if not call or ptrace.ptrace(PTRACE_SEIZE, pid, None, None):
        return False
    ptrace.ptrace(PTRACE_INTERRUPT, pid, None, None)
    status = _next_stop(pid)
    if status is None:
        return False
    if status != signal.SIGTRAP << 8 | PTRACE_EVENT_STOP << 16 | 0x7F:
        # A signal of its own, which it gets; or it is stopped, and stays so.
        is_signal = os.WIFSTOPPED(status) and status >> 16 == 0
        ptrace.ptrace(PTRACE_DETACH, pid, None, os.WSTOPSIG(status) if is_signal else None)
        return False
    rewait.prepare(pid)
    mask = ptrace.blocked(pid)
    registers = (ctypes.c_uint64 * REGISTERS)()
    if mask is None or not _transfer(PTRACE_GETREGSET, pid, registers):
        ptrace.ptrace(PTRACE_DETACH, pid, None, None)
        return False
    ptrace.block(pid, EVERY_SIGNAL)
    ours = type(registers)(*registers)
    ours[RIP], ours[RAX], ours[ORIG_RAX] = call, SYS_MUNMAP, NO_CALL
    ours[RDI], ours[RSI] = start, size_bytes
    is_unmapped = False
    if _transfer(PTRACE_SETREGSET, pid, ours):
        ptrace.ptrace(PTRACE_SINGLESTEP, pid, None, None)
        # Without an end: let go now it would go on in the vDSO. It ends when a frozen one thaws.
        status = _next_stop(pid, math.inf)
        if status is not None and _transfer(PTRACE_GETREGSET, pid, ours):
            is_unmapped = ours[RIP] == call + len(SYSCALL) and ours[RAX] == 0
        _transfer(PTRACE_SETREGSET, pid, registers)
    ptrace.block(pid, mask)
    is_stopped = status is not None and status >> 16 == 0 and os.WSTOPSIG(status) == signal.SIGSTOP
    ptrace.ptrace(PTRACE_DETACH, pid, None, signal.SIGSTOP if is_stopped else None)
    return is_unmapped


def _transfer(request: int, tid: int, registers: ctypes.Array[ctypes.c_uint64]) -> bool:
    return bool(ptrace.transfer(request, tid, NT_PRSTATUS, registers))


def _next_stop(tid: int, limit_s: float = STOP_LIMIT_S) -> int | None:
    """The status of a thread that stops or ends; None when it does neither in time."""
    waited_s = 0.0
    while waited_s < limit_s:
        try:
            found, status = os.waitpid(tid, os.WNOHANG)
        except ChildProcessError:
            return None
        if found:
            return status if os.WIFSTOPPED(status) else None
        time.sleep(LOOK_INTERVAL_S)
        waited_s += LOOK_INTERVAL_S
    return None


def _find_syscall(pid: int) -> int:
    """runtime_addr of a ``syscall`` instruction in a process's vDSO; 0 if there is none."""
    try:
        with open(f"/proc/{pid}/maps") as maps:
            line = next((line for line in maps if line.endswith("[vdso]\n")), "")
        if not line:
            return 0
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(start)
            at = memory.read(end - start).find(SYSCALL)
    except (OSError, ValueError):
        return 0
    return start + at if at >= 0 else 0
