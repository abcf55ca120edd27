"""Make system calls by name, past the C library: it lacks some, and spreads others to all threads.

Source: syscall(2).
"""

from __future__ import annotations

import ctypes
import os

from .syscalls import syscall_number

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def raw_syscall(name: str, *arguments: object) -> int:
    """Make a system call in this thread and return its result.

    Args:
        name: one of the table in ``arch_x86_64``.
        arguments: integers, buffers or pointers, as ctypes passes them. An ``int`` is 32 bits wide.

    Raises:
        OSError: the call failed.
    """
    result: int = _syscall(ctypes.c_long(syscall_number(name)), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
