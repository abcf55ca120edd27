"""Tell what threads do in their intervals: run, wait for a CPU, or sleep, by cause. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..linux.syscalls import KERNEL, LOCK, syscall_number
from ..model import Activity, ThreadState

# A thread that waits in one of these waits for another thread.
_LOCKS = "futex futex_wait futex_waitv futex_requeue semop semtimedop flock msgrcv mq_timedreceive"
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
        (Activity.POLL, _POLLS),
        (Activity.SLEEP, _SLEEPS),
        (Activity.IO, _IO),
    ):
        for name in names.split():
            try:
                table[syscall_number(name)] = activity
            except KeyError:  # this processor has no such call
                continue
    table[LOCK] = Activity.LOCK
    table[KERNEL] = Activity.OTHER
    return table


_ASLEEP = _table()


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
