"""Keep a target's handlers for fault signals while its main thread runs functions for Frida.

Each of these functions ends in a deliberate SIGSEGV: Frida lets it return to an address where
nothing is, and takes that as the sign that it is done. The target never sees the signal. But if the
thread blocks or ignores a signal that reports a fault, the kernel sets the disposition of that
signal to the default, for the whole process (``force_sig_info_to_task`` in kernel/signal.c). The
next null check of a runtime that lives by SIGSEGV (Mono, SBCL, the JVM) then kills it. So:

- the thread blocks none of these signals while it runs Frida's functions (``MASK``);
- where the process ignores SIGSEGV, that is set again afterwards (``Ignored``);
- a signal of this kind that somebody sent, and that the thread blocked, is taken from it meanwhile
  and sent again afterwards (``Pending``).

Only on the thread that traces. ptrace(2), rt_sigaction(2), <asm-generic/siginfo.h>.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import struct
from dataclasses import dataclass, field

from ...linux import ptrace, remote_syscall
from ...linux.syscalls import syscall_numbers

FAULTS = (
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGSEGV,
    signal.SIGSYS,
)
# The instruction at fault is executed again when the handler, or nobody, has mended that.
COME_AGAIN = (signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
# glibc's SIGCANCEL and SIGSETXID: setuid(2) waits until every thread has answered the second.
OF_LIBC = (32, 33)
# What a thread blocks while it runs Frida's functions, and what Frida's threads inherit from it.
MASK = (1 << 64) - 1 - sum(1 << (number - 1) for number in (*FAULTS, *OF_LIBC))

SYS_RT_SIGACTION, SYS_RT_SIGQUEUEINFO, SYS_RT_TGSIGQUEUEINFO = syscall_numbers(
    "rt_sigaction", "rt_sigqueueinfo", "rt_tgsigqueueinfo"
)
ACTION = struct.Struct("<4Q")  # the kernel's struct sigaction: handler, flags, restorer, mask
MASK_BYTES = 8
SIGINFO_BYTES = 128
INT = struct.Struct("<i")
# Below and at 0 a process has sent the signal, above the kernel reports something.
SI_CODE_OFFSET = 8
SI_USER, SI_QUEUE, SI_TKILL = 0, -1, -6


@dataclass
class Ignored:
    """A process that ignores SIGSEGV, and has to go on doing so."""

    pid: int
    is_ignored: bool

    @classmethod
    def find(cls, pid: int) -> Ignored:
        """Look whether a process ignores SIGSEGV."""
        return cls(pid, ptrace.is_in(pid, b"SigIgn", signal.SIGSEGV))

    def restore(self) -> bool:
        """Make the process ignore SIGSEGV again if the kernel has changed that.

        Its main thread stands still. Return False where it could not be done.
        """
        if not self.is_ignored or ptrace.is_in(self.pid, b"SigIgn", signal.SIGSEGV):
            return True
        access = mmap.PROT_READ | mmap.PROT_WRITE
        try:
            page = remote_syscall.map_memory(self.pid, mmap.PAGESIZE, access)
        except OSError:
            return False
        try:
            # The kernel has left flags and mask as they were.
            call = (SYS_RT_SIGACTION, signal.SIGSEGV)
            if remote_syscall.execute(self.pid, *call, 0, page, MASK_BYTES) != 0:
                return False
            with open(f"/proc/{self.pid}/mem", "r+b", buffering=0) as memory:
                memory.seek(page)
                _, *rest = ACTION.unpack(memory.read(ACTION.size))
                memory.seek(page)
                memory.write(ACTION.pack(signal.SIG_IGN, *rest))
            return remote_syscall.execute(self.pid, *call, page, 0, MASK_BYTES) == 0
        except OSError:
            return False
        finally:
            remote_syscall.unmap(self.pid, page, mmap.PAGESIZE)


@dataclass
class Pending:
    """Fault signals that were sent to a main thread which blocked them, and were taken from it."""

    pid: int
    of_process: int = 0  # those that were pending for the whole process: bit n - 1 is signal n …
    of_thread: int = 0  # … and for its main thread, faults of its own among them
    taken: list[bytes] = field(default_factory=list)  # siginfo_t

    @classmethod
    def find(cls, pid: int) -> Pending:
        """Note which fault signals are pending for the process, and for its main thread alone."""
        return cls(pid, _faults_in(pid, b"ShdPnd"), _faults_in(pid, b"SigPnd"))

    def take(self, number: int) -> bool:
        """Take the signal that the thread has stopped with, if it is not one of Frida's call.

        Return False if the kernel reports a fault of that call by it, or it is no fault signal.
        """
        if number not in FAULTS:
            return False
        info = ctypes.create_string_buffer(SIGINFO_BYTES)
        if ptrace.ptrace(ptrace.PTRACE_GETSIGINFO, self.pid, None, ctypes.addressof(info)):
            return False
        is_of_the_kernel = INT.unpack_from(info, SI_CODE_OFFSET)[0] > 0
        if is_of_the_kernel and not self.of_thread & 1 << (number - 1):
            return False
        self.of_thread &= ~(1 << (number - 1))
        if not is_of_the_kernel or number not in COME_AGAIN:
            self.taken.append(info.raw)
        return True

    def send_again(self) -> None:
        """Send what was taken. The thread has its own mask again.

        The kernel lets nobody claim to be the process that had sent them by kill(2): they come as
        from sigqueue(3), with the sender's pid and uid.
        """
        for info in self.taken:
            (number,) = INT.unpack_from(info)
            (code,) = INT.unpack_from(info, SI_CODE_OFFSET)
            again = ctypes.create_string_buffer(info, SIGINFO_BYTES)
            if code >= SI_USER or code == SI_TKILL:
                INT.pack_into(again, SI_CODE_OFFSET, SI_QUEUE)
            if self.of_process & 1 << (number - 1):
                ptrace.syscall(SYS_RT_SIGQUEUEINFO, self.pid, number, ctypes.addressof(again))
            else:
                where = (self.pid, self.pid, number)
                ptrace.syscall(SYS_RT_TGSIGQUEUEINFO, *where, ctypes.addressof(again))
        self.taken.clear()


def _faults_in(pid: int, name: bytes) -> int:
    """The fault signals in one of a thread's sets (proc(5)): bit n - 1 is signal n."""
    return sum(1 << (number - 1) for number in FAULTS if ptrace.is_in(pid, name, number))
