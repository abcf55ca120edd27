"""Restart waits that a stop would end with EINTR, though the thread got no signal.

Most system calls go on by themselves after a stop; these return EINTR (signal(7), "Interruption of
system calls and library functions by stop signals"). A thread that stands still at such a return is
given ERESTARTNOHAND as the result, with which the kernel begins a call again when it lets the
thread go, unless a handler runs first: then the program sees EINTR, as it should
(kernel/entry/common.c, arch/x86/kernel/signal.c). Only waits without an end, or that have just
begun: one with a timeout begins to count anew.

Only on the thread that traces.
"""

from __future__ import annotations

import os
import socket
import struct

from . import descriptors, ptrace
from .arch_x86_64 import ARGUMENTS, ORIG_RAX, RAX, REGISTERS_BYTES
from .syscalls import syscall_number, syscall_numbers
from .tasks import Call

EINTR, ERESTARTNOHAND = 4, 514  # the latter: <linux/errno.h>, known to the kernel alone
# Number → which argument is the timeout, and what of it must be 0 where there is none.
EVERYTHING = (1 << 64) - 1
_TIMEVAL_BYTES = 16
TIMEOUTS = {
    syscall_number("semop"): (0, 0),
    syscall_number("rt_sigtimedwait"): (2, EVERYTHING),
    syscall_number("io_getevents"): (4, EVERYTHING),
    syscall_number("semtimedop"): (3, EVERYTHING),
    syscall_number("io_pgetevents"): (4, EVERYTHING),
    syscall_number("io_uring_enter"): (3, 8),  # the flag IORING_ENTER_EXT_ARG; io_uring_enter(2)
    syscall_number("epoll_pwait2"): (3, EVERYTHING),
}
# The fourth, an int that is negative for ever.
_IN_MILLISECONDS = syscall_numbers("epoll_wait", "epoll_pwait")
# Where the socket has a timeout: SO_RCVTIMEO, or SO_SNDTIMEO for those among _SENDS. socket(7)
_SENDS = syscall_numbers("connect", "sendto", "sendmsg", "sendmmsg")
_ON_SOCKETS = (*_SENDS, *syscall_numbers("recvfrom", "recvmsg", "recvmmsg", "accept", "accept4"))
# The same where the file is a socket.
_WRITES = syscall_numbers("write", "writev")
_ON_FILES = (*_WRITES, *syscall_numbers("read", "readv"))

# Calls that a stop ends with EINTR unless they are made to begin again.
ENDED_BY_STOPS = frozenset((*TIMEOUTS, *_IN_MILLISECONDS, *_ON_SOCKETS, *_ON_FILES))


def prepare(tid: int, *, has_just_begun: bool = False) -> bool:
    """Have the wait that a thread was stopped in begin again when the thread continues.

    Args:
        tid: a thread that we trace and that stands still, with the registers it came with.
        has_just_begun: nothing is lost where a timeout begins to count anew.

    Returns:
        whether it was in a wait that would have ended.
    """
    registers = ptrace.saved(tid, ptrace.NT_PRSTATUS, REGISTERS_BYTES)
    if registers is None or len(registers.raw) < REGISTERS_BYTES:
        return False
    words = struct.unpack(f"<{REGISTERS_BYTES // 8}q", registers.raw)
    call = Call(words[ORIG_RAX], tuple(words[place] for place in ARGUMENTS))
    if words[RAX] != -EINTR or not (_is_endless(call) or (has_just_begun and may_end(call))):
        return False
    struct.pack_into("<q", registers, RAX * 8, -ERESTARTNOHAND)
    return bool(ptrace.transfer(ptrace.PTRACE_SETREGSET, tid, ptrace.NT_PRSTATUS, registers))


def may_end(call: Call, pid: int | None = None) -> bool:
    """Tell whether a stop may end this wait with EINTR.

    Args:
        call: what a thread waits in.
        pid: its process, if we may look at its sockets.
    """
    if call.number in _ON_SOCKETS:
        return pid is None or _has_timeout(pid, call)
    if call.number in _ON_FILES:
        return pid is not None and _is_on_socket(pid, call) and _has_timeout(pid, call)
    is_listed = call.number in TIMEOUTS or call.number in _IN_MILLISECONDS
    return is_listed and not _is_endless(call)


def milliseconds_left(call: Call, waited_s: float) -> int | None:
    """Return how long a wait in milliseconds still lasts, at most; None for all others."""
    if call.number not in _IN_MILLISECONDS or _is_endless(call):
        return None
    return max(0, (call.arguments[3] & 0x7FFFFFFF) - int(waited_s * 1000))


def _is_on_socket(pid: int, call: Call) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{call.arguments[0] & 0xFFFFFFFF}").startswith("socket:")
    except OSError:
        return False


def _has_timeout(pid: int, call: Call) -> bool:
    """Whether a socket's calls end by themselves; True if that cannot be known."""
    option = socket.SO_SNDTIMEO if call.number in (*_SENDS, *_WRITES) else socket.SO_RCVTIMEO
    try:
        ours = descriptors.duplicate(pid, call.arguments[0] & 0xFFFFFFFF)
        with socket.socket(fileno=ours) as found:
            return any(found.getsockopt(socket.SOL_SOCKET, option, _TIMEVAL_BYTES))
    except OSError:
        return True


def _is_endless(call: Call) -> bool:
    """Of those waits that return EINTR after a stop."""
    if call.number in _IN_MILLISECONDS:
        return bool(call.arguments[3] & 1 << 31)  # the upper half of the register says nothing
    if call.number not in TIMEOUTS:
        return False
    place, bits = TIMEOUTS[call.number]
    return not call.arguments[place] & bits
