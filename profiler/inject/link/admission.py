"""Let our signal into threads that block it, and put their masks back.

Workers of many programs block all signals (Apache, HAProxy, unbound, xz), so that no CPU sample of
them could be taken. Only a tracer can change the mask of another thread: such a thread is stopped
for less than 0.1 ms, once, when it runs or has just run, and the agent asks for it
(``agent/sampling/admission.c``). Before the detach its mask is put back; that waits for a moment at
which a stop ends no wait of the thread's. ptrace(2), PTRACE_SETSIGMASK.

No mask is changed while the process reads that signal from a signalfd(2): the thread that does
would read ours.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator

from ...linux import eintr_restart, ptrace
from ...linux.arch_x86_64 import ORIG_RAX, REGISTERS_BYTES
from ...linux.syscalls import syscall_numbers
from ...linux.tasks import read_call, rest_mark
from .stopper import Stopper

# How long to wait for a thread to run: the agent asks again.
ADMIT_LIMIT_S = 0.02
ADMIT_INTERVAL_S = 0.0002
# How long putting the masks back may take for all threads, and between two looks at one.
PUT_BACK_LIMIT_S = 3.0
PUT_BACK_INTERVAL_S = 0.001
THREADS_MAX = 4096
# The share of time that looking for such a signalfd takes. In between, it counts as not there.
SIGNALFD_LOOK_SHARE = 0.05
# While a thread is in one of these, another mask than its own is in force.
WAITS_WITH_MASK = frozenset(
    syscall_numbers(
        *("rt_sigsuspend", "rt_sigtimedwait", "ppoll", "pselect6"),
        *("epoll_pwait", "epoll_pwait2", "io_pgetevents", "io_uring_enter"),
    )
)


class Admission:
    """The masks of one process that were changed. Any thread may call it.

    Args:
        hold: has a thread of the process stopped for a moment.
        is_replaced: whether the process is another program by now, whose masks are not touched.
    """

    def __init__(self, hold: Stopper, is_replaced: Callable[[], bool]) -> None:
        self._hold = hold
        self._is_replaced = is_replaced
        self._pid = hold.pid
        self._masks: dict[int, int] = {}  # of threads as they were: bit n - 1 is signal n
        self._bit = 0
        self._changing = threading.Lock()
        self._is_over = False
        self._signalfd_due_s = 0.0  # monotonic clock
        self._has_signalfd = False

    def admit(self, tid: int, signo: int) -> bool:
        """Take a signal out of a thread's mask, when the thread runs or has just run.

        Args:
            tid: its number as we know it.
            signo: always the same.

        Returns:
            False if it did not run in time, has ended, or does not block the signal; or if that
            is read from a signalfd.
        """
        bit = 1 << (signo - 1)
        with self._changing:
            is_refused = self._is_over or self._bit not in (0, bit) or self._is_replaced()
            if is_refused or len(self._masks) >= THREADS_MAX:
                return False
            self._bit = bit
            if self._is_read_from_signalfd():
                return False
            end_s = time.monotonic() + ADMIT_LIMIT_S
            last_mark: tuple[int, int] | None = None
            while time.monotonic() < end_s:
                state, mask = self._status(tid)
                if not mask & bit:
                    return False
                mark = rest_mark(self._pid, tid)
                # One that ran between two looks: its wait has just begun, and loses nothing.
                has_just_run = mark is not None and last_mark not in (None, mark)
                last_mark = mark
                if state == b"R" or has_just_run:
                    changed: list[int] = []
                    self._hold.look(tid, functools.partial(self._open, tid, changed))
                    if changed:
                        self._masks[tid] = changed[0]
                        return True
                time.sleep(ADMIT_INTERVAL_S)
            return False

    def let_in(self, tid: int) -> int:
        """Return what a thread blocks itself, and does not now; bit n - 1 is signal n."""
        return self._bit if tid in self._masks else 0

    def put_back(self) -> int:
        """Give the threads their masks back, and change none from now on.

        Returns:
            how many threads were not met at a moment when they could be stopped; the signal, which
            does nothing by default, stays unblocked there.
        """
        with self._changing:
            self._is_over = True
            if self._is_replaced():
                self._masks.clear()
            marks: dict[int, tuple[int, int] | None] = {}
            end_s = time.monotonic() + PUT_BACK_LIMIT_S
            while self._masks and time.monotonic() < end_s:
                for tid in list(self._masks):
                    mark = rest_mark(self._pid, tid)
                    has_just_run = tid in marks and marks[tid] != mark
                    marks[tid] = mark
                    if has_just_run or self._may_stop(tid):
                        self._put_back(tid)
                if self._masks:
                    time.sleep(PUT_BACK_INTERVAL_S)
            return len(self._masks)

    def _put_back(self, tid: int) -> None:
        is_done: list[bool] = []
        if self._status(tid)[0]:
            self._hold.look(tid, functools.partial(self._close, tid, is_done))
        if is_done or not self._status(tid)[0]:  # or it has ended
            del self._masks[tid]

    def _open(self, tid: int, changed: list[int]) -> None:
        """On the thread that traces."""
        mask = ptrace.blocked(tid)
        if mask is not None and mask & self._bit and not _waits_with_mask(tid):
            ptrace.block(tid, mask & ~self._bit)
            changed.append(mask)

    def _close(self, tid: int, is_done: list[bool]) -> None:
        """The same. A thread that has another mask by now has set it itself, and keeps it."""
        mask = ptrace.blocked(tid)
        if mask is None or _waits_with_mask(tid):
            return
        if mask | self._bit == self._masks[tid]:
            ptrace.block(tid, self._masks[tid])
        is_done.append(True)

    def _is_read_from_signalfd(self) -> bool:
        """Whether a descriptor of the process is for the signal. proc(5), ``fdinfo``."""
        begin_s = time.monotonic()
        if begin_s >= self._signalfd_due_s:
            self._has_signalfd = any(mask & self._bit for mask in _signalfd_masks(self._pid))
            took_s = time.monotonic() - begin_s
            self._signalfd_due_s = begin_s + took_s / SIGNALFD_LOOK_SHARE
        return self._has_signalfd

    def _may_stop(self, tid: int) -> bool:
        """Would a stop end no wait of the thread's?"""
        try:
            call = read_call(self._pid, tid)
        except OSError:
            return True  # it has ended
        return call is None or not eintr_restart.may_end(call, self._pid)

    def _status(self, tid: int) -> tuple[bytes, int]:
        """A thread's state and what it blocks; nothing if it has ended. proc(5), ``status``."""
        state, mask = b"", 0
        with (
            contextlib.suppress(OSError, ValueError),
            open(f"/proc/{self._pid}/task/{tid}/status", "rb") as file,
        ):
            for line in file:
                if line.startswith(b"State:"):
                    state = line.split()[1]
                elif line.startswith(b"SigBlk:"):
                    mask = int(line.split()[1], 16)
        return (b"", 0) if state in (b"Z", b"X") else (state, mask)


def _waits_with_mask(tid: int) -> bool:
    registers = ptrace.saved(tid, ptrace.NT_PRSTATUS, REGISTERS_BYTES)
    if registers is None or len(registers.raw) < REGISTERS_BYTES:
        return True
    return struct.unpack_from("<q", registers, ORIG_RAX * 8)[0] in WAITS_WITH_MASK


def _signalfd_masks(pid: int) -> Iterator[int]:
    """What each signalfd of a process reads: bit n - 1 is signal n."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError, ValueError):
                if os.readlink(f"/proc/{pid}/fd/{name}") != "anon_inode:[signalfd]":
                    continue
                with open(f"/proc/{pid}/fdinfo/{name}", "rb") as file:
                    for line in file:
                        if line.startswith(b"sigmask:"):
                            yield int(line.split()[1], 16)
