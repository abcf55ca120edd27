"""Make a thread of another process execute one system call.

It executes one ``syscall`` instruction of the vDSO wherever it was stopped, and stands there again
afterwards as if nothing had been: it needs no stack for that, and calls no function.

The other thread stands still, and only the thread that traces it may call these functions, but for
``stop_and_unmap``: that traces a process that nobody traces yet.

ptrace(2), PTRACE_SINGLESTEP, PTRACE_SEIZE; vdso(7).
"""

from __future__ import annotations

import ctypes
import errno
import math
import mmap
import os
import signal
import threading

from . import eintr_restart, ptrace
from .arch_x86_64 import ARGUMENTS, ORIG_RAX, RAX, REGISTERS_BYTES, RIP, SYSCALL
from .maps import read_maps
from .ptrace import (
    NT_PRSTATUS,
    PTRACE_CONT,
    PTRACE_DETACH,
    PTRACE_EVENT_STOP,
    PTRACE_GETREGSET,
    PTRACE_INTERRUPT,
    PTRACE_SEIZE,
    PTRACE_SETREGSET,
    PTRACE_SINGLESTEP,
)
from .syscalls import syscall_numbers

SYS_MMAP, SYS_MUNMAP = syscall_numbers("mmap", "munmap")
NO_FILE = (1 << 64) - 1
# SIGTRAP tells the step: where that is blocked or ignored the kernel takes away the handler.
BLOCKED = (1 << 64) - 1 - (1 << signal.SIGTRAP - 1)
NO_CALL = (1 << 64) - 1  # in orig_rax: the thread is in no system call that could go on
LOOK_INTERVAL_S = 0.0001
# A thread may be stopped before it has made the step: by SIGSTOP, SIGCONT, an earlier interruption.
TRIES = 10
# A thread that has not stopped by then sleeps uninterruptibly, or is frozen.
STOP_LIMIT_S = 3.0
STOP_INTERVAL_S = 0.0005


def can_execute(pid: int) -> bool:
    """Can ``execute`` be used with this process, and leave nothing?"""
    return bool(find_syscall(pid))


def map_memory(pid: int, size_bytes: int, access: int) -> int:
    """Make the process map memory that holds zeros, see ``execute``.

    Args:
        pid: the process; its main thread stands still.
        size_bytes: how much.
        access: PROT_…, mmap(2).

    Returns:
        its runtime_addr.

    Raises:
        OSError: nothing has been mapped.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = execute(pid, SYS_MMAP, 0, size_bytes, access, flags, NO_FILE, 0)
    if start is None or start <= 0 or start % mmap.PAGESIZE:
        failure = -start if start and start < 0 else errno.EAGAIN
        raise OSError(failure, "the target could not map memory")
    return start


def unmap(pid: int, start: int, size_bytes: int) -> bool:
    """Make the process unmap memory, see ``execute``; returns whether it has."""
    return execute(pid, SYS_MUNMAP, start, size_bytes) == 0


def stop_and_unmap(pid: int, start: int, size_bytes: int) -> bool:
    """Stop a process's main thread, have it unmap memory that nobody uses, and let it run again.

    Like each stop by a tracer this costs an EINTR where the kernel does not restart the call itself
    (``eintr_restart``). Any thread may call this.

    Returns:
        Whether the memory is unmapped. Nothing has happened when another tracer is there, a signal
        comes in that very moment, or the main thread has ended, is stopped or does not stop: it may
        be tried again.
    """
    done: list[bool] = []
    # The kernel releases all that a thread traces when that thread ends.
    tracer = threading.Thread(
        target=lambda: done.append(_seize_and_unmap(pid, start, size_bytes)), name="flametap-unmap"
    )
    tracer.start()
    tracer.join()
    return done == [True]


def _seize_and_unmap(pid: int, start: int, size_bytes: int) -> bool:
    if ptrace.ptrace(PTRACE_SEIZE, pid, None, None):
        return False
    ptrace.ptrace(PTRACE_INTERRUPT, pid, None, None)
    status = ptrace.next_stop(pid, STOP_LIMIT_S, STOP_INTERVAL_S)
    if status is None:
        return False
    if status != signal.SIGTRAP << 8 | PTRACE_EVENT_STOP << 16 | 0x7F:
        # A signal of its own, which it gets; or it is stopped, and stays so.
        ptrace.ptrace(PTRACE_DETACH, pid, None, ptrace.signal_of(status))
        return False
    eintr_restart.prepare(pid)
    is_unmapped = unmap(pid, start, size_bytes)
    ptrace.ptrace(PTRACE_DETACH, pid, None, None)
    return is_unmapped


def execute(pid: int, number: int, *arguments: int, instruction: int = 0) -> int | None:
    """Make a thread make a system call; it stands still, before and afterwards.

    Args:
        pid: the thread; the number of a process is that of its main thread.
        number: of a call that does not wait.
        arguments: up to six, each below 2^64.
        instruction: what ``find_syscall`` has found; looked for if 0.

    Returns:
        what the call returns, -errno below 0; None where it has not been made.
    """
    instruction = instruction or find_syscall(pid)
    mask = ptrace.blocked(pid)
    registers = (ctypes.c_uint64 * (REGISTERS_BYTES // 8))()
    if not instruction or mask is None or not _transfer(PTRACE_GETREGSET, pid, registers):
        return None
    ptrace.block(pid, BLOCKED)
    ours = type(registers)(*registers)
    ours[RIP], ours[RAX], ours[ORIG_RAX] = instruction, number, NO_CALL
    for place, argument in zip(ARGUMENTS, arguments, strict=False):
        ours[place] = argument
    result = None
    is_stopped = False
    _transfer(PTRACE_SETREGSET, pid, ours)
    for _ in range(TRIES):
        ptrace.ptrace(PTRACE_SINGLESTEP, pid, None, None)
        # Without an end: released now it would run on in the vDSO. It ends when a frozen one thaws.
        status = ptrace.next_stop(pid, math.inf, LOOK_INTERVAL_S)
        if status is None or not _transfer(PTRACE_GETREGSET, pid, ours):
            return None  # it has ended
        is_stopped |= ptrace.signal_of(status) == signal.SIGSTOP
        if ours[RIP] == instruction + len(SYSCALL):
            result = ctypes.c_int64(ours[RAX]).value
            if ptrace.signal_of(status) != signal.SIGTRAP and ptrace.is_in(
                pid, b"SigPnd", signal.SIGTRAP
            ):
                # An earlier interruption was reported first; the step's own signal is next.
                ptrace.ptrace(PTRACE_CONT, pid, None, None)
                ptrace.next_stop(pid, math.inf, LOOK_INTERVAL_S)
            break
    _transfer(PTRACE_SETREGSET, pid, registers)
    ptrace.block(pid, mask)
    if is_stopped:
        os.kill(pid, signal.SIGSTOP)  # it has not been given that one, and gets it later
    return result


def _transfer(request: int, tid: int, registers: ctypes.Array[ctypes.c_uint64]) -> bool:
    return bool(ptrace.transfer(request, tid, NT_PRSTATUS, registers))


def find_syscall(pid: int) -> int:
    """runtime_addr of a ``syscall`` instruction in a process's vDSO; 0 if there is none, or a step
    would cost the process what it does with SIGTRAP.
    """
    if ptrace.is_in(pid, b"SigIgn", signal.SIGTRAP):
        return 0
    try:
        vdso = next((each for each in read_maps(f"/proc/{pid}") if each.path == "[vdso]"), None)
        if vdso is None:
            return 0
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(vdso.start)
            at = memory.read(vdso.size).find(SYSCALL)
    except (OSError, ValueError):
        return 0
    return vdso.start + at if at >= 0 else 0
