"""Stop a thread of another process for a moment, look, and let it go. ptrace(2)

A thread that has been asked to stop, and does not in time, would stop whenever it comes to it. The
kernel takes the request back when the thread of ours that traces ends (kernel/ptrace.c,
``exit_ptrace``), so that one ends then, and the next stop has another.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Callable

from . import ptrace

STOP_LIMIT_S = 0.25
INTERVAL_S = 0.00005

_Work = Callable[[], bool]
_Calls = queue.SimpleQueue[tuple["_Work | None", list[bool], threading.Event]]


class TracingThread:
    """Runs calls that trace, on a thread of its own that ends with a call that returns False."""

    def __init__(self) -> None:
        self._calls: _Calls | None = None
        self._running = threading.Lock()

    def run(self, call: _Work) -> None:
        """Run a call and wait for it.

        Args:
            call: returns False if what it traces must be let go by the kernel.

        Raises:
            RuntimeError: no thread can be had.
        """
        with self._running:
            if self._calls is None:
                calls: _Calls = queue.SimpleQueue()
                threading.Thread(
                    target=_serve, args=(calls,), daemon=True, name="flametap-tracer"
                ).start()
                self._calls = calls
            done = threading.Event()
            outcome: list[bool] = []
            self._calls.put((call, outcome, done))
            done.wait()
            if outcome != [True]:
                self._calls = None

    def end(self) -> None:
        """End the thread; one more call starts another."""
        with self._running:
            if self._calls is not None:
                self._calls.put((None, [], threading.Event()))
                self._calls = None


def _serve(calls: _Calls) -> None:
    goes_on = True
    while goes_on:
        call, outcome, done = calls.get()
        goes_on = False
        try:
            if call is not None:
                with contextlib.suppress(Exception):
                    goes_on = call()
        finally:
            outcome.append(goes_on)
            done.set()


class BriefStop:
    """Stops threads of one process, one at a time. See ``inject.link.stopper``.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._tracing = TracingThread()

    def look(self, tid: int, read: Callable[[], object]) -> None:
        """Stop a thread, call ``read`` while it is stopped, and let it continue.

        Nothing is read from one that does not stop in time, or is about to take a signal: a
        fault's handler is told where the fault was only if nothing comes in between.
        """
        with contextlib.suppress(RuntimeError):
            self._tracing.run(lambda: _look(tid, read))

    def end(self) -> None:
        """Trace no more."""
        self._tracing.end()


def _look(tid: int, read: Callable[[], object]) -> bool:
    if ptrace.ptrace(ptrace.PTRACE_SEIZE, tid, None, None):
        return True
    ptrace.ptrace(ptrace.PTRACE_INTERRUPT, tid, None, None)
    status = ptrace.next_stop(tid, STOP_LIMIT_S, INTERVAL_S)
    if status is None:
        return False
    try:
        if status == signal.SIGTRAP << 8 | ptrace.PTRACE_EVENT_STOP << 16 | 0x7F:
            read()
    finally:
        ptrace.ptrace(ptrace.PTRACE_DETACH, tid, None, ptrace.signal_of(status))
    return True
