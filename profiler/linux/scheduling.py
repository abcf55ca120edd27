"""Length of a thread's turns on a CPU: sched_setattr(2), since Linux 6.12.

A thread with short turns gets a CPU soon after it wakes up, also where many others want one. Its
share of CPU time stays the same, so no privilege is needed. Older kernels ignore the length.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading
from collections.abc import Iterator

from .ptrace import syscall
from .syscalls import syscall_numbers

SHORT_TURN_NS = 100_000  # the shortest that Linux knows
SCHED_OTHER = 0
# size, sched_policy, sched_flags, sched_nice, sched_priority, runtime, deadline, period
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")
_GETATTR, _SETATTR = syscall_numbers("sched_getattr", "sched_setattr")


def turn_ns(tid: int) -> int | None:
    """Length of a thread's turns, nanoseconds; None where the kernel or the policy has none.

    Raises:
        OSError: the thread has gone, or may not be asked.
    """
    attributes = _read(tid)
    return (attributes[5] or None) if attributes[1] == SCHED_OTHER else None


def set_short_turns(tid: int) -> bool:
    """Shorten a thread's turns, and those of the threads that it starts from now on.

    Returns False where it may not be done, or the thread has gone.
    """
    return _set_turn(tid, SHORT_TURN_NS)


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Have the calling thread get a CPU before all others, where that is permitted, else soon: for
    some microseconds in which somebody waits for it. sched_setscheduler(2)
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        set_short_turns(threading.get_native_id())
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def reset_turns(tid: int) -> bool:
    """Give a thread with short turns those of the system's default; as ``set_short_turns``."""
    try:
        return turn_ns(tid) == SHORT_TURN_NS and _set_turn(tid, 0)
    except OSError:
        return False


def _set_turn(tid: int, length_ns: int) -> bool:
    try:
        attributes = _read(tid)
        if attributes[1] != SCHED_OTHER:
            return False
    except OSError:
        return False
    wanted = _SCHED_ATTR.pack(*attributes[:5], length_ns, *attributes[6:])
    buffer = ctypes.create_string_buffer(wanted, len(wanted))
    return syscall(_SETATTR, tid, ctypes.addressof(buffer), 0) == 0


def _read(tid: int) -> tuple[int, ...]:
    buffer = ctypes.create_string_buffer(_SCHED_ATTR.size)
    if syscall(_GETATTR, tid, ctypes.addressof(buffer), _SCHED_ATTR.size, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return _SCHED_ATTR.unpack(buffer.raw)
