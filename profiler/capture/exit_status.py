"""Tell when a process that need not be our child has ended, and how.

A pidfd (pidfd_open(2)) says when, and a reused pid cannot fool it. How is known from two places,
one after the other: while the process is a zombie, ``exit_code`` in ``/proc/PID/stat`` (readable
with the right to trace); once its parent has reaped it, the kernel keeps the status for whoever
holds a pidfd (PIDFD_GET_INFO with PIDFD_INFO_EXIT, Linux 6.15). On older kernels a process that is
reaped at once has ended, and no more is known.

Source: proc(5), include/uapi/linux/pidfd.h, fs/pidfs.c.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
from dataclasses import dataclass

from ..linux import procfs

# struct pidfd_info, 64 bytes: mask (8), cgroup (8), 11 ids (4 each), exit_code (4).
PIDFD_INFO = struct.Struct("<QQ11Ii")
PIDFD_INFO_EXIT = 1 << 3
PIDFD_GET_INFO = 0xC040_FF0B  # _IOWR(0xFF, 11, struct pidfd_info)
# A zombie may be reaped between two looks; it cannot come back.
LOOKS = 2
# What a program that does something wrong dies of, and not a word of somebody else's.
FAULTS = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGILL,
        signal.SIGFPE,
        signal.SIGTRAP,
        signal.SIGSYS,
        signal.SIGABRT,
    }
)


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended: by a signal, or by an exit code."""

    signal_number: int = 0  # 0 if it exited by itself
    code: int = 0

    @classmethod
    def of_wait_status(cls, status: int) -> ExitStatus:
        """From the number that wait(2) gives."""
        if os.WIFSIGNALED(status):
            return cls(signal_number=os.WTERMSIG(status))
        return cls(code=os.WEXITSTATUS(status))

    @property
    def is_fault(self) -> bool:
        """True if it died of a fault in what it did, such as SIGSEGV."""
        return self.signal_number in FAULTS

    def __str__(self) -> str:
        if self.signal_number:
            return f"was killed by signal {self.signal_number}{_signal_name(self.signal_number)}"
        return f"exited with code {self.code}" if self.code else "exited"


class ExitWatch:
    """Watch one process until ``close``.

    Args:
        pid: the process; where it has gone already, or the kernel has no pidfds, the watch never
            says anything.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._fd = os.pidfd_open(pid)
        except OSError:
            self._fd = -1

    def close(self) -> None:
        """Free the descriptor; afterwards the watch says nothing any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def has_exited(self, timeout_s: float = 0.0) -> bool:
        """Wait for the end. True if it has come: all threads have ended."""
        return self._fd >= 0 and bool(select.select([self._fd], [], [], timeout_s)[0])

    def status(self) -> ExitStatus | None:
        """How the process ended; None while it lives, or if that cannot be known."""
        if not self.has_exited():
            return None
        for _ in range(LOOKS):
            status = self._reaped_status()
            if status is None:
                status = self._zombie_status()
            if status is not None:
                return ExitStatus.of_wait_status(status)
        return None

    def _reaped_status(self) -> int | None:
        answer = bytearray(PIDFD_INFO.pack(PIDFD_INFO_EXIT, *[0] * 13))
        try:
            fcntl.ioctl(self._fd, PIDFD_GET_INFO, answer)
        except OSError:
            return None  # an older kernel
        mask, *_, status = PIDFD_INFO.unpack(answer)
        return int(status) if mask & PIDFD_INFO_EXIT else None

    def _zombie_status(self) -> int | None:
        try:
            status = procfs.read_exit_status(self._pid)
            signal.pidfd_send_signal(self._fd, 0)
        except (*procfs.GONE, PermissionError):
            return None  # reaped: by now the pid may be another's
        return status


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:  # most real-time signals have no name
        return ""
