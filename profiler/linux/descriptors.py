"""Take open files over from another process: pidfd_open(2), pidfd_getfd(2)."""

from __future__ import annotations

import ctypes
import os

from .ptrace import syscall
from .syscalls import syscall_number

_PIDFD_GETFD = syscall_number("pidfd_getfd")


def duplicate(pid: int, fd: int) -> int:
    """Return a descriptor of ours for the open file that a process has as ``fd``. Opens nothing.

    Raises:
        OSError: ENOSYS before Linux 5.6; EPERM without the right to trace the process; EBADF if it
            has no such descriptor; ESRCH if it has exited.
    """
    pidfd = os.pidfd_open(pid)
    try:
        own_fd = syscall(_PIDFD_GETFD, pidfd, fd, 0)
        if own_fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return own_fd
    finally:
        os.close(pidfd)
