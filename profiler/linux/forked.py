"""A child that goes on with what this process has imported, where a new interpreter would first
import it again (0.1 s).

Only a process with one thread may fork: a lock that another thread holds would never be released in
the child. The child has nothing of ours but memory: no descriptors, no terminal, no handlers.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable

from .leave import leave


class Forked:
    """As much of ``subprocess.Popen`` as its users need."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._pidfd = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired
        """
        if self.returncode is None and timeout is not None:
            end_s = time.monotonic() + timeout
            watch = select.poll()
            watch.register(self._pidfd, select.POLLIN)
            if not watch.poll(max(0.0, end_s - time.monotonic()) * 1e3):
                raise subprocess.TimeoutExpired("fork", timeout)
        code = self._reap(0)
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal; nothing happens once it has been waited for."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # SIGCHLD is ignored
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._pidfd)
        return self.returncode


class Adopted(Forked):
    """One that is no child of ours: its exit code is not known, and 0 here."""

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            watch = select.poll()
            watch.register(self._pidfd, select.POLLIN)
            if watch.poll(0 if options & os.WNOHANG else None):
                self.returncode = 0
                os.close(self._pidfd)
        return self.returncode


def can_fork() -> bool:
    """Return whether this process has one thread only, also of native code."""
    return len(os.listdir("/proc/self/task")) == 1


def fork(main: Callable[[], None], descriptor: int) -> Forked:
    """Run ``main`` in a child, which ends with it.

    Args:
        main: is called in a session of its own.
        descriptor: the only one that the child keeps; not a standard stream.

    Raises:
        OSError: no process can be had.
    """
    # A signal must not run our handlers in the child.
    former = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        pid = os.fork()
        if not pid:
            _become(main, descriptor, former)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
    return Forked(pid)


def _become(main: Callable[[], None], descriptor: int, mask: set[int]) -> None:
    code = 1
    try:
        atexit._clear()  # what our parent will do at its end
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        for each in map(int, os.listdir("/proc/self/fd")):
            if each > 2 and each != descriptor:
                with contextlib.suppress(OSError):  # the list's own
                    os.close(each)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        main()
        code = 0
    finally:
        leave(code)
