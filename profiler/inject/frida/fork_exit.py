"""Let a thread that was stopped inside fork, malloc or the dynamic loader finish it first.

A fork that is interrupted begins anew when the thread continues (it never returns EINTR), or ends
first: a program that forks a lot is mostly stopped in one, in the system call or in what glibc does
around it (``fork_stack``). It holds the locks of pthread_atfork, malloc and stdio then, and threads
that need them wait for a thread that stands still; and it must not go on with that fork while
others hold locks. In malloc it holds the lock of its arena, and a function that we have it run then
would wait for itself (seen with node 20, for as long as that was allowed), or find a heap half
changed in a process with one thread, where glibc takes no lock (22 of 30 attaches killed a program
that allocates in a loop). A thread that stays there is let go, and the attach is refused. Only on
the thread that traces. ptrace(2), fork(2).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable

from ...errors import CannotAttachError
from ...linux import ptrace
from ...linux.arch_x86_64 import ORIG_RAX, RAX, RDI, REGISTERS_BYTES, RIP, RSP
from ...linux.ptrace import SYSCALL_STOP
from ...linux.syscalls import syscall_numbers
from . import fork_stack

CLONE, FORK, FUTEX = syscall_numbers("clone", "fork", "futex")
# What malloc calls while it holds its lock.
MEMORY = syscall_numbers("mmap", "mprotect", "munmap", "brk", "mremap", "madvise")
CLONE_VM = 0x100  # threads and vfork: <linux/sched.h>
ENOSYS = 38  # what rax holds when a system call begins
# How many stops at most; each takes 0.1 ms.
ROUNDS = 300
# How long the fork may take: a process of many GB needs a second.
FORK_LIMIT_S = 5.0
# What is left to do then until the next system call takes microseconds. One that makes no call in
# this time computes, or waits for a CPU: then its stack tells whether it is out of fork.
RUN_LIMIT_S = 0.005
# How often that is asked. The stack may say so for ever, by a word that nobody has overwritten.
TRIES = 20
LOOK_INTERVAL_S = 0.0001
# Out of malloc a thread is soon, but the next system call may be one of malloc's again: it runs for
# a moment, so often at most.
MALLOC_RUN_S = 0.0002
MALLOC_TRIES = 200

# Names of functions → where they are in the process that is looked at.
_Find = Callable[[tuple[bytes, ...]], fork_stack.Ranges]


def finish(tid: int, number: int, options: int = 0) -> int | None:
    """Bring a thread that we trace, and have interrupted, to a stop outside of fork and malloc.

    Args:
        tid: the thread; it has stopped.
        number: the signal it has stopped with and gets now, or 0.
        options: what it is traced with (PTRACE_O_).

    Raises:
        CannotAttachError: it stays there.

    Returns:
        the signal that it stands before and must be given when it continues: 0, but for a thread
        that gets one after another. None if it has not stopped.
    """
    given: int | None = number
    # libc's symbols are read once, and only for a thread that is in no system call.
    find = functools.cache(functools.partial(fork_stack.find, tid))
    for count in range(TRIES):
        if (count or not number) and not _is_in_fork(tid, find):
            break
        given = _go_on(tid, given, options)
        if given is None:
            return None
    else:
        raise _stays(tid, "fork")
    for _ in range(MALLOC_TRIES):
        place = _library_place(tid, find)
        if not place:
            return given
        given = _run_on(tid, given)
        if given is None:
            return None
    raise _stays(tid, place)


def _stays(tid: int, place: str) -> CannotAttachError:
    return CannotAttachError(
        f"thread {tid} stays in {place}, where Frida's way in would harm the process",
        "use the direct way, which calls nothing of the process: --inject direct",
    )


def _go_on(tid: int, number: int | None, options: int) -> int | None:
    """Let it run until it has come to a system call that is none of fork's, or for a while; see
    ``finish``."""
    with_stops = options | ptrace.PTRACE_O_TRACESYSGOOD
    ptrace.ptrace(ptrace.PTRACE_SETOPTIONS, tid, None, with_stops)
    stop = number
    for _ in range(ROUNDS):
        limit_s = FORK_LIMIT_S if _begins_fork(tid) else RUN_LIMIT_S
        ptrace.ptrace(ptrace.PTRACE_SYSCALL, tid, None, stop)
        stop = _next_stop(tid, limit_s)
        if stop is None:
            break
        if stop == SYSCALL_STOP:
            stop = 0
            call, result, flags, *_ = _registers(tid)
            if result == -ENOSYS and call != FUTEX and not _is_fork(call, flags):
                break
    ptrace.ptrace(ptrace.PTRACE_SETOPTIONS, tid, None, options)
    ptrace.ptrace(ptrace.PTRACE_INTERRUPT, tid, None, None)
    for _ in range(ROUNDS):
        if stop == SYSCALL_STOP:  # the interruption has ended a system call, and is spent with that
            ptrace.ptrace(ptrace.PTRACE_INTERRUPT, tid, None, None)
            stop = 0
        if stop is not None:
            ptrace.ptrace(ptrace.PTRACE_CONT, tid, None, stop)
        stop = _next_stop(tid, FORK_LIMIT_S)
        if not stop:
            break
    return stop


def _run_on(tid: int, number: int | None) -> int | None:
    """Let it run for a moment; see ``finish``."""
    ptrace.ptrace(ptrace.PTRACE_CONT, tid, None, number)
    stop = _next_stop(tid, MALLOC_RUN_S)
    if stop is None:
        ptrace.ptrace(ptrace.PTRACE_INTERRUPT, tid, None, None)
        stop = _next_stop(tid, FORK_LIMIT_S)
    return stop


def _registers(tid: int) -> tuple[int, int, int, int, int]:
    """Number, result and first argument of the system call that a thread begins or comes back from
    (-1, 0 and 0 if there is none); its sp and pc."""
    registers = ptrace.saved(tid, ptrace.NT_PRSTATUS, REGISTERS_BYTES)
    if registers is None:
        return -1, 0, 0, 0, 0
    signed = struct.unpack(f"<{REGISTERS_BYTES // 8}q", registers.raw)
    sp, pc = (signed[word] & (1 << 64) - 1 for word in (RSP, RIP))
    return signed[ORIG_RAX], signed[RAX], signed[RDI], sp, pc


def _is_fork(call: int, flags: int) -> bool:
    return call == FORK or (call == CLONE and not flags & CLONE_VM)


def _begins_fork(tid: int) -> bool:
    call, result, flags, *_ = _registers(tid)
    return result == -ENOSYS and _is_fork(call, flags)


def is_in_fork(tid: int) -> bool:
    """Is a thread that we trace, and that stands still, in fork? In another system call than fork's
    it is not; one that has come out of it may be."""
    return _is_in_fork(tid, functools.partial(fork_stack.find, tid))


def _is_in_fork(tid: int, find: _Find) -> bool:
    call, _, flags, sp, pc = _registers(tid)
    if _is_fork(call, flags):
        return True
    return (call < 0 or call == FUTEX) and fork_stack.holds(
        tid, sp, pc, fork_stack.FORK, find(fork_stack.FORK)
    )


def _library_place(tid: int, find: _Find) -> str:
    """Return which part of the C library a thread is in that must not be entered twice, or ""."""
    call, _, _, sp, pc = _registers(tid)
    if fork_stack.is_in_loader(tid, pc):
        return "the dynamic loader"
    if call >= 0 and call not in MEMORY:
        return ""
    allocation = find(fork_stack.ALLOCATION)
    is_there = fork_stack.holds(tid, sp, pc, fork_stack.ALLOCATION, allocation)
    return "malloc" if is_there else ""


def _next_stop(tid: int, limit_s: float) -> int | None:
    """Wait for it; return the signal it stops with, 0 if without one, None for no stop."""
    status = ptrace.next_stop(tid, limit_s, LOOK_INTERVAL_S)
    return None if status is None else ptrace.signal_of(status)
