"""Tell what threads do in their intervals: run, wait for a CPU, or sleep, by cause. Pure.

A futex is told as a lock here: what else it may be is said by stacks (``wait_stacks``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...linux.syscalls import KERNEL, LOCK, has_syscall, syscall_number
from ...model import Activity, ThreadState

# A thread that waits in one of these waits for another thread.
_FUTEXES = "futex futex_wait futex_waitv futex_requeue"
_LOCKS = f"{_FUTEXES} semop semtimedop flock"
# … for what another thread or process brings.
_WORK = "msgrcv mq_timedreceive"
# … for something to do.
_POLLS = (
    "poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 epoll_wait_old accept accept4 "
    "rt_sigtimedwait pause rt_sigsuspend"
)
# … for time to pass.
_SLEEPS = "nanosleep clock_nanosleep"
# … for data.
_IO = (
    "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 recvfrom recvmsg "
    "recvmmsg sendto sendmsg sendmmsg sendfile splice tee vmsplice copy_file_range connect open "
    "openat openat2 close fsync fdatasync sync syncfs sync_file_range io_getevents io_pgetevents "
    "io_uring_enter getdents64 ftruncate fallocate rename renameat2 unlink unlinkat stat "
    "newfstatat statx"
)


def _table() -> npt.NDArray[np.uint8]:
    """Return the activity of a thread that is asleep, by its system call as a 16-bit number."""
    table = np.full(1 << 16, Activity.OTHER, np.uint8)
    for activity, names in (
        (Activity.LOCK, _LOCKS),
        (Activity.WORK, _WORK),
        (Activity.POLL, _POLLS),
        (Activity.SLEEP, _SLEEPS),
        (Activity.IO, _IO),
    ):
        for name in names.split():
            if has_syscall(name):
                table[syscall_number(name)] = activity
    table[LOCK] = Activity.LOCK
    table[KERNEL] = Activity.OTHER
    return table


_ASLEEP = _table()
LOCK_CALLS = np.flatnonzero(_ASLEEP == Activity.LOCK).astype(np.uint16).view(np.int16)
"""The system calls, and what stands in their place, in which a thread waits for a lock."""
_FUTEX_NUMBERS = np.array(
    [syscall_number(name) for name in _FUTEXES.split() if has_syscall(name)], np.int16
)


def are_futex_waits(state: npt.NDArray[Any], sysno: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Return which cells sleep in a futex; arguments as for ``off_cpu_activities``."""
    waits: npt.NDArray[np.bool_] = (state == ThreadState.PARKED) & np.isin(sysno, _FUTEX_NUMBERS)
    return waits


def off_cpu_activities(
    state: npt.NDArray[Any], sysno: npt.NDArray[np.int16]
) -> npt.NDArray[np.uint8]:
    """Return what threads do in the part of their intervals in which they use no CPU.

    Args:
        state: ``ThreadState``.
        sysno: the system call, or what stands in its place.
    """
    asleep = np.where(state == ThreadState.PARKED, _ASLEEP[sysno.view(np.uint16)], Activity.OTHER)
    has_run = (state == ThreadState.RUNNING) | (state == ThreadState.QUEUED)
    return np.where(has_run, np.uint8(Activity.QUEUED), asleep).astype(np.uint8)
