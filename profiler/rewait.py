"""Waits that a stop ends with EINTR, though the thread got no signal: has the kernel begin them
again instead.

Most system calls go on by themselves after a stop; these return EINTR (signal(7), "Interruption of
system calls and library functions by stop signals"). A thread that stands still at such a return is
given ERESTARTNOHAND as the result, with which the kernel begins a call again when it lets the
thread go, unless a handler runs first: then the program sees EINTR, as it should
(kernel/entry/common.c, arch/x86/kernel/signal.c). Only waits without an end: one with a timeout
would begin to count anew.

Only on the thread that traces. <asm/unistd_64.h>, <sys/user.h>.
"""

from __future__ import annotations

import struct

from flametap import ptrace

# Words of struct user_regs_struct, of which R8, RDX and R10 are the fifth, third and fourth
# argument of a system call.
R10, R8, RAX, RDX, ORIG_RAX = 7, 9, 10, 12, 15
SEMOP, RT_SIGTIMEDWAIT, IO_GETEVENTS, SEMTIMEDOP = 65, 128, 208, 220
EPOLL_WAIT, EPOLL_PWAIT, IO_PGETEVENTS, EPOLL_PWAIT2 = 232, 281, 333, 441
EINTR, ERESTARTNOHAND = 4, 514  # the latter: <linux/errno.h>, known to the kernel alone
# Number → where the timeout is; None if there is none.
TIMEOUTS = {
    SEMOP: None,
    RT_SIGTIMEDWAIT: RDX,
    IO_GETEVENTS: R8,
    SEMTIMEDOP: R10,
    EPOLL_WAIT: R10,
    EPOLL_PWAIT: R10,
    IO_PGETEVENTS: R8,
    EPOLL_PWAIT2: R10,
}
_IN_MILLISECONDS = (EPOLL_WAIT, EPOLL_PWAIT)  # an int, negative for ever; all others a pointer


def prepare(tid: int) -> bool:
    """Has the wait that a thread was stopped in begin again when the thread goes on.

    Args:
        tid: a thread that we trace and that stands still, with the registers it came with.

    Returns:
        whether it was in a wait that would have ended.
    """
    registers = ptrace.saved(tid, ptrace.NT_PRSTATUS, ptrace.REGISTERS_BYTES)
    if registers is None or len(registers.raw) < ptrace.REGISTERS_BYTES:
        return False
    words = list(struct.unpack(f"<{ptrace.REGISTERS_BYTES // 8}q", registers.raw))
    call = words[ORIG_RAX]
    if words[RAX] != -EINTR or call not in TIMEOUTS or _has_timeout(call, words):
        return False
    struct.pack_into("<q", registers, RAX * 8, -ERESTARTNOHAND)
    return bool(ptrace.transfer(ptrace.PTRACE_SETREGSET, tid, ptrace.NT_PRSTATUS, registers))


def _has_timeout(call: int, words: list[int]) -> bool:
    place = TIMEOUTS[call]
    if place is None:
        return False
    if call in _IN_MILLISECONDS:
        return not words[place] & 1 << 31  # the upper half of the register says nothing
    return words[place] != 0
