"""Detect the end of any process, child or not, and read its exit status.

A pidfd (pidfd_open(2)) becomes readable at the end; a reused pid does not confuse it. The exit
status comes from one of two places. While the process is a zombie, it is ``exit_code`` in
``/proc/PID/stat`` (readable with the right to trace). After the parent has reaped the process, the
kernel keeps the status for every holder of a pidfd (PIDFD_GET_INFO with PIDFD_INFO_EXIT,
Linux 6.15). On older kernels the status of a process that is reaped at once is unknown.

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
# The process may be reaped between the two reads of one attempt. It is reaped only once, so the
# second attempt finds its status.
ATTEMPTS = 2
# Signals that a faulty program causes itself; others are usually sent by another process.
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
    """The way a process ended: killed by a signal, or exited with a code."""

    signal_number: int = 0  # 0 if it exited by itself
    code: int = 0

    @classmethod
    def of_wait_status(cls, status: int) -> ExitStatus:
        """Build an exit status from a wait status, as wait(2) returns it."""
        if os.WIFSIGNALED(status):
            return cls(signal_number=os.WTERMSIG(status))
        return cls(code=os.WEXITSTATUS(status))

    @property
    def is_fault(self) -> bool:
        """True if the process died of a fault of its own, such as SIGSEGV."""
        return self.signal_number in FAULTS

    def __str__(self) -> str:
        if self.signal_number:
            return f"was killed by signal {self.signal_number}{_signal_name(self.signal_number)}"
        return f"exited with code {self.code}" if self.code else "exited"


class ExitWatch:
    """Watch one process until ``close``.

    Args:
        pid: the process. If it has already ended, or the kernel has no pidfds, the watch never
            reports an end.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._fd = os.pidfd_open(pid)
        except OSError:
            self._fd = -1

    def close(self) -> None:
        """Close the pidfd. Afterwards the watch reports no end."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def has_exited(self, timeout_s: float = 0.0) -> bool:
        """Wait for the end of the process; return True once all its threads have ended."""
        return self._fd >= 0 and bool(select.select([self._fd], [], [], timeout_s)[0])

    def status(self) -> ExitStatus | None:
        """Return how the process ended; None while it is alive or if its status is unknown."""
        if not self.has_exited():
            return None
        for _ in range(ATTEMPTS):
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
            return None  # reaped: the pid may belong to another process by now
        return status


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:  # most real-time signals have no name
        return ""
