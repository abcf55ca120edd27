"""Take open files over from another process: pidfd_open(2), pidfd_getfd(2)."""

from __future__ import annotations

import ctypes
import os

from .ptrace import syscall
from .syscalls import syscall_numbers

_PIDFD_OPEN, _PIDFD_GETFD = syscall_numbers("pidfd_open", "pidfd_getfd")
_PIDFD_THREAD = os.O_EXCL  # <linux/pidfd.h>, since Linux 6.9


def duplicate(pid: int, fd: int) -> int:
    """Return a descriptor of ours for an open file of a process.

    Raises:
        OSError: ENOSYS before Linux 5.6; EPERM without the right to trace the process; EBADF if it
            has no such descriptor; ESRCH if it has exited.
    """
    return _duplicate(pid, fd, 0)


def duplicate_of_thread(tid: int, fd: int) -> int:
    """Return a descriptor of ours for the open file that a thread has as ``fd`` in its own table.
    Opens nothing.

    Raises:
        OSError: EINVAL before Linux 6.9; EPERM without the right to trace the process; EBADF if the
            thread has no such descriptor; ESRCH if it has exited.
    """
    return _duplicate(tid, fd, _PIDFD_THREAD)


def _duplicate(task: int, fd: int, flags: int) -> int:
    pidfd = _succeeded(syscall(_PIDFD_OPEN, task, flags))
    try:
        return _succeeded(syscall(_PIDFD_GETFD, pidfd, fd, 0))
    finally:
        os.close(pidfd)


def _succeeded(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
