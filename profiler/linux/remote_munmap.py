"""Has a process unmap a piece of its memory: as its tracer, by one system call of its main thread.

Like each stop by a tracer this costs an EINTR where the kernel does not go on by itself
(``eintr_restart``). ptrace(2), PTRACE_SEIZE.
"""

from __future__ import annotations

import signal
import threading

from . import eintr_restart, ptrace, remote_syscall
from .ptrace import PTRACE_DETACH, PTRACE_EVENT_STOP, PTRACE_INTERRUPT, PTRACE_SEIZE

# A thread that has not stopped by then sleeps uninterruptibly, or is frozen.
STOP_LIMIT_S = 3.0
LOOK_INTERVAL_S = 0.0005


def unmap(pid: int, start: int, size_bytes: int) -> bool:
    """Unmaps memory of a process that nobody uses any more; returns whether it has.

    Nothing has happened when another tracer is there, a signal comes in that very moment, or the
    main thread has ended, is stopped or does not stop: it may be tried again.
    """
    done: list[bool] = []
    # The kernel lets go whatever a thread traces when that thread ends.
    tracer = threading.Thread(
        target=lambda: done.append(_unmap(pid, start, size_bytes)), name="flametap-unmap"
    )
    tracer.start()
    tracer.join()
    return done == [True]


def _unmap(pid: int, start: int, size_bytes: int) -> bool:
    if ptrace.ptrace(PTRACE_SEIZE, pid, None, None):
        return False
    ptrace.ptrace(PTRACE_INTERRUPT, pid, None, None)
    status = ptrace.next_stop(pid, STOP_LIMIT_S, LOOK_INTERVAL_S)
    if status is None:
        return False
    if status != signal.SIGTRAP << 8 | PTRACE_EVENT_STOP << 16 | 0x7F:
        # A signal of its own, which it gets; or it is stopped, and stays so.
        ptrace.ptrace(PTRACE_DETACH, pid, None, ptrace.signal_of(status))
        return False
    eintr_restart.prepare(pid)
    is_unmapped = remote_syscall.unmap(pid, start, size_bytes)
    ptrace.ptrace(PTRACE_DETACH, pid, None, None)
    return is_unmapped
