"""ptrace(2) and waitpid(2), registers and signal masks by them, and stacks.

All but ``waitpid``, ``is_in`` and ``stack`` only from the thread that traces. Failures are in
``ctypes.get_errno()``. Sources: <sys/ptrace.h>, <elf.h>.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import time
from typing import Any

PTRACE_TRACEME, PTRACE_PEEKDATA, PTRACE_POKEDATA, PTRACE_POKEUSER = 0, 2, 5, 6
PTRACE_CONT, PTRACE_SINGLESTEP, PTRACE_GETREGS, PTRACE_SETREGS = 7, 9, 12, 13
PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SYSCALL = 16, 17, 24
PTRACE_SETOPTIONS = 0x4200
PTRACE_O_TRACESYSGOOD, PTRACE_O_EXITKILL = 1, 0x00100000
PTRACE_GETREGSET, PTRACE_SETREGSET = 0x4204, 0x4205
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
PTRACE_GETSIGINFO = 0x4202
PTRACE_GETSIGMASK, PTRACE_SETSIGMASK = 0x420A, 0x420B
PTRACE_SECCOMP_GET_FILTER = 0x420C
PTRACE_GET_RSEQ_CONFIGURATION = 0x420F
NT_PRSTATUS = 1
NT_X86_XSTATE = 0x202
# The whole state with AMX is 11 KiB; the kernel says how much of it there is.
XSTATE_BYTES_MAX = 16384
PTRACE_EVENT_STOP = 128
SYSCALL_STOP = signal.SIGTRAP | 0x80  # the signal of such a stop with PTRACE_O_TRACESYSGOOD
WALL = 0x40000000  # waitpid for threads, too: <linux/wait.h>

# The types of the C functions, for those of ours that stand in for them, too (``plt_hook``).
Ptrace = ctypes.CFUNCTYPE(
    ctypes.c_long,
    *(ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p),
    use_errno=True,
)
Waitpid = ctypes.CFUNCTYPE(
    ctypes.c_int, *(ctypes.c_int, ctypes.c_void_p, ctypes.c_int), use_errno=True
)

_libc = ctypes.CDLL(None, use_errno=True)
ptrace = Ptrace(("ptrace", _libc))
waitpid = Waitpid(("waitpid", _libc))

_syscall = _libc.syscall
_syscall.restype = ctypes.c_long

Bytes = ctypes.Array[ctypes.c_char]


class Vector(ctypes.Structure):  # struct iovec
    _fields_ = (("base", ctypes.c_void_p), ("size_bytes", ctypes.c_size_t))


def syscall(number: int, *arguments: int) -> int:
    """Make a system call that libc has no function for; -1 where it failed. syscall(2)"""
    return int(_syscall(*(ctypes.c_long(value) for value in (number, *arguments))))


def transfer(request: int, tid: int, kind: int, registers: ctypes.Array[Any]) -> int:
    """PTRACE_GETREGSET or PTRACE_SETREGSET; returns the size of the state, 0 on failure."""
    vector = Vector(ctypes.addressof(registers), ctypes.sizeof(registers))
    failed = ptrace(request, tid, kind, ctypes.addressof(vector))
    return 0 if failed else int(vector.size_bytes)


def saved(tid: int, kind: int, size_bytes: int) -> Bytes | None:
    """A set of a thread's registers as it is, None on failure."""
    registers = ctypes.create_string_buffer(size_bytes)
    found_bytes = transfer(PTRACE_GETREGSET, tid, kind, registers)
    return ctypes.create_string_buffer(registers.raw[:found_bytes], found_bytes) or None


def blocked(tid: int) -> int | None:
    """The signals that a thread blocks (bit n - 1 is signal n), None on failure."""
    mask = ctypes.c_uint64()
    failed = ptrace(PTRACE_GETSIGMASK, tid, ctypes.sizeof(mask), ctypes.addressof(mask))
    return None if failed else mask.value


def block(tid: int, mask: int) -> None:
    """Make a thread block these signals."""
    signals = ctypes.c_uint64(mask)
    ptrace(PTRACE_SETSIGMASK, tid, ctypes.sizeof(signals), ctypes.addressof(signals))


def next_stop(tid: int, limit_s: float, interval_s: float) -> int | None:
    """Wait for a thread to stop; return its status, None when it ends or does not stop in time.

    Args:
        tid: the thread.
        limit_s: how long; counted in looks, since a machine that stood still proves nothing.
        interval_s: between two looks.
    """
    status = ctypes.c_int()
    waited_s = 0.0
    while not (found := waitpid(tid, ctypes.addressof(status), os.WNOHANG | WALL)):
        if waited_s >= limit_s:
            return None
        time.sleep(interval_s)
        waited_s += interval_s
    return status.value if found == tid and os.WIFSTOPPED(status.value) else None


def is_in_critical_section(tid: int) -> bool:
    """Is a thread that stands still in a restartable sequence (rseq(2))? One that returns to
    another place meanwhile loses its protection. False on kernels before 5.13, which do not tell.
    """
    found = ctypes.create_string_buffer(24)  # struct ptrace_rseq_configuration
    if ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, len(found), ctypes.addressof(found)) <= 0:
        return False
    (rseq_addr,) = struct.unpack_from("<Q", found)
    if not rseq_addr:
        return False
    with contextlib.suppress(OSError):
        return stack(tid, rseq_addr + 8, 8) != (0,)  # rseq_cs
    return True


def signal_of(status: int) -> int:
    """The signal that a stopped thread is to be given; 0 where an event has stopped it."""
    return 0 if status >> 16 else os.WSTOPSIG(status)


def is_stop_of_process(status: int) -> bool:
    """Is it that of a thread which gets SIGSTOP, or whose process has got it? "Group-stop"."""
    return os.WIFSTOPPED(status) and (
        status >> 16 == PTRACE_EVENT_STOP or os.WSTOPSIG(status) == signal.SIGSTOP
    )


def is_in(tid: int, name: bytes, number: int) -> bool:
    """Is a signal in one of a thread's sets? proc(5): b"SigPnd" are those waiting to be taken."""
    with contextlib.suppress(OSError), open(f"/proc/{tid}/status", "rb") as file:
        for line in file:
            if line.startswith(name):
                return bool(int(line.split()[1], 16) & 1 << (number - 1))
    return False


def stack(tid: int, sp: int, size_bytes: int) -> tuple[int, ...]:
    """The words from ``sp`` (runtime_addr) on, fewer where the stack ends. proc(5), ``mem``.

    Raises:
        OSError: nothing can be read there.
    """
    with open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:
        memory.seek(sp)
        found = memory.read(size_bytes)
    return struct.unpack_from(f"<{len(found) // 8}Q", found)
